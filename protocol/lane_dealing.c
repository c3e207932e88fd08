#include "protocol/lane_dealing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_LANE      UINT16_MAX
#define MARGIN       1e-9 /* relative, for rounding */
#define TRIALS       64   /* lengths of the line that are tried */
#define RELEASES_MAX 32   /* lanes in progress that are begun anew */

/* The replicas, and the lanes that are left. Times are in units in which a replica computes as many
 * micro-batches as it has lanes in the plan. */
struct dealing {
    const struct lane_dealing_input *input;
    unsigned replicas, micro_batches;                     /* micro_batches: of a lane */
    double weights[JOB_DEVICES_MAX];                      /* micro-batches in a unit of time */
    double transfer;                                      /* the time in which a sum is passed */
    unsigned loads[JOB_DEVICES_MAX];                      /* micro-batches of each replica */
    unsigned unbegun[LANE_TREE_LANES_MAX], unbegun_count; /* lanes without an owner */
    unsigned total;                                       /* micro-batches that are left */
    uint16_t order[JOB_DEVICES_MAX];                      /* of the replicas on the line */
    uint16_t first[JOB_DEVICES_MAX];                      /* each replica's lanes in progress */
    uint16_t next[LANE_TREE_LANES_MAX];
};

static unsigned left_of(const struct step_division *division, unsigned lane)
{
    return division->micro_batches - division->starts[lane];
}

/* Return the time in which a sum is passed on, in units of struct dealing. */
static double transfer_of(const struct lane_dealing_input *input,
                          const struct step_division *division)
{
    double step_seconds = plan_layout_expected_seconds(input->layout);

    return step_seconds > 0 ? input->layout->head_seconds / step_seconds * division->micro_batches
                            : 0;
}

static void begin(struct dealing *dealing, const struct lane_dealing_input *input,
                  const struct step_division *division)
{
    const struct plan_layout *layout = input->layout;

    dealing->input = input;
    dealing->replicas = layout->replica_count;
    dealing->micro_batches = division->micro_batches;
    dealing->transfer = transfer_of(input, division);
    dealing->unbegun_count = 0;
    for (unsigned replica = 0; replica < dealing->replicas; replica++) {
        dealing->weights[replica] = plan_layout_lanes_computed(layout, replica);
        dealing->first[replica] = NO_LANE;
        dealing->loads[replica] = 0;
    }
    for (unsigned lane = division->lanes; lane-- > 0;) {
        unsigned owner = division->owners[lane];
        if (owner == LANE_DEALING_NO_OWNER || !left_of(division, lane))
            continue;
        dealing->next[lane] = dealing->first[owner];
        dealing->first[owner] = (uint16_t)lane;
        dealing->loads[owner] += left_of(division, lane);
    }
    dealing->total = 0;
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        dealing->total += left_of(division, lane);
        if (division->owners[lane] == LANE_DEALING_NO_OWNER)
            dealing->unbegun[dealing->unbegun_count++] = lane;
    }
}

/* Return the time of the slowest replica. */
static double longest(const struct dealing *dealing, const unsigned *loads)
{
    double time = 0;

    for (unsigned replica = 0; replica < dealing->replicas; replica++)
        time = fmax(time, loads[replica] / dealing->weights[replica]);
    return time;
}

/* ---- whole lanes ---- */

/* Return the replica whose work would take least time with one more lane. */
static unsigned least_loaded(const struct dealing *dealing, const unsigned *loads)
{
    unsigned best = 0;
    double best_time = INFINITY;

    for (unsigned replica = 0; replica < dealing->replicas; replica++) {
        double time = ((double)loads[replica] + dealing->micro_batches) / dealing->weights[replica];
        if (time >= best_time)
            continue;
        best = replica;
        best_time = time;
    }
    return best;
}

/* Give each replica as many whole lanes as fit the lanes that it has in progress, neighbouring
 * ones. Return the time of the slowest. */
static double deal_whole(const struct dealing *dealing, struct step_division *division)
{
    unsigned loads[JOB_DEVICES_MAX] = {0}, counts[JOB_DEVICES_MAX] = {0}, replica = 0;

    memcpy(loads, dealing->loads, dealing->replicas * sizeof(*loads));
    for (unsigned i = 0; i < dealing->unbegun_count; i++) {
        unsigned best = least_loaded(dealing, loads);
        loads[best] += dealing->micro_batches;
        counts[best]++;
    }
    for (unsigned i = 0; i < dealing->unbegun_count; i++) {
        while (!counts[replica])
            replica++;
        counts[replica]--;
        division->owners[dealing->unbegun[i]] = (uint16_t)replica;
    }
    return longest(dealing, loads);
}

/* ---- shared lanes ---- */

struct place {
    double time; /* of its work in progress */
    unsigned replica;
};

static int compare(const void *a, const void *b)
{
    const struct place *one = a, *other = b;

    if (one->time != other->time)
        return one->time > other->time ? -1 : 1;
    return one->replica < other->replica ? -1 : 1;
}

/* Work is passed on to the follower alone: after who has most in progress comes who has least. */
static void put_in_order(struct dealing *dealing)
{
    struct place places[JOB_DEVICES_MAX];

    for (unsigned replica = 0; replica < dealing->replicas; replica++)
        places[replica] =
            (struct place){dealing->loads[replica] / dealing->weights[replica], replica};
    qsort(places, dealing->replicas, sizeof(*places), compare);
    for (unsigned i = 0; i < dealing->replicas; i++) {
        unsigned from_end = dealing->replicas - 1 - i / 2;
        dealing->order[i] = (uint16_t)places[i % 2 ? from_end : i / 2].replica;
    }
}

/* All micro-batches that are left, one after another, and the replicas along them. */
struct line {
    const struct dealing *dealing;
    struct step_division *division;
    unsigned loads[JOB_DEVICES_MAX];
    unsigned replica;       /* whose part is laid out */
    unsigned follower;      /* the replica after it; the same: none */
    uint64_t at, end, next; /* so much is laid out; the ends of this part and the next one */
    unsigned dealt;         /* of the unbegun lanes */
    double due;             /* when the last head has been passed on and followed by its rest */
};

/* Let two replicas share @lane, which begins before the end of this one's part and ends behind it.
 * False: it cannot be cut there. */
static bool cut(struct line *line, unsigned lane, uint64_t begin)
{
    const struct dealing *dealing = line->dealing;
    struct step_division *division = line->division;
    unsigned giver = line->replica, owner = line->follower;
    unsigned head = (unsigned)(line->end - begin), rest = (unsigned)(line->at - line->end);

    if (owner == giver || line->at > line->next ||
        division->starts[lane] + head <= dealing->input->furthest[lane])
        return false;
    division->owners[lane] = (uint16_t)owner;
    division->givers[lane] = (uint16_t)giver;
    division->heads[lane] = division->starts[lane] + head;
    line->loads[giver] += head;
    line->loads[owner] += rest;
    line->due = fmax(line->due, head / dealing->weights[giver] + dealing->transfer +
                                    rest / dealing->weights[owner]);
    return true;
}

static bool lay(struct line *line, unsigned lane)
{
    uint64_t begin = line->at;

    if (begin >= line->end)
        return false;
    line->at += left_of(line->division, lane);
    if (line->at > line->end)
        return cut(line, lane, begin);
    line->division->owners[lane] = (uint16_t)line->replica;
    line->loads[line->replica] += (unsigned)(line->at - begin);
    return true;
}

/* Lay out the lanes that the replica has in progress, and unbegun ones until its part is full. */
static bool fill_part(struct line *line)
{
    const struct dealing *dealing = line->dealing;
    bool good = true;

    for (unsigned lane = dealing->first[line->replica]; good && lane != NO_LANE;
         lane = dealing->next[lane])
        good = lay(line, lane);
    while (good && line->at < line->end && line->dealt < dealing->unbegun_count)
        good = lay(line, dealing->unbegun[line->dealt++]);
    return good;
}

/* Lay out all lanes in parts of @time. Return the time of the slowest replica; INFINITY: it cannot
 * be done. */
static double deal_shared(const struct dealing *dealing, double time,
                          struct step_division *division)
{
    struct line line = {.dealing = dealing, .division = division};
    double end = 0;

    for (unsigned i = 0; i < dealing->replicas; i++) {
        line.replica = dealing->order[i];
        line.follower = dealing->order[MIN(i + 1, dealing->replicas - 1)];
        end += time * dealing->weights[line.replica];
        line.at = MAX(line.at, line.end);
        line.end = (uint64_t)nearbyint(end);
        line.next = (uint64_t)nearbyint(end + time * dealing->weights[line.follower]);
        if (!fill_part(&line))
            return INFINITY;
    }
    return line.dealt < dealing->unbegun_count ? INFINITY
                                               : fmax(line.due, longest(dealing, line.loads));
}

/* Return the time in which all replicas could finish together. */
static double level(const struct dealing *dealing)
{
    double weight = 0;

    for (unsigned replica = 0; replica < dealing->replicas; replica++)
        weight += dealing->weights[replica];
    return dealing->total / weight;
}

/* Look for the shortest time in which replicas that share lanes finish. False: none is shorter than
 * @time by more than a sum takes to be passed on. */
static bool deal_best(const struct dealing *dealing, double time, struct step_division *division,
                      double *ret_time)
{
    const struct step_division before = *division;
    double least = level(dealing), best = (time - dealing->transfer) * (1 - MARGIN);
    bool found = false;

    for (unsigned i = 0; i < TRIALS; i++) {
        struct step_division trial = before;
        double tried = least + (time - least) * i / TRIALS;
        double finish = tried < best ? deal_shared(dealing, tried, &trial) : INFINITY;
        if (finish >= best)
            continue;
        best = finish;
        *division = trial;
        *ret_time = finish;
        found = true;
    }
    return found;
}

/* Deal all lanes. Return the time of the slowest replica. */
static double deal(const struct lane_dealing_input *input, struct step_division *division)
{
    struct step_division shared = *division;
    struct dealing dealing;
    double time, best;

    begin(&dealing, input, division);
    time = best = deal_whole(&dealing, division);
    if (!input->shares)
        return time;
    put_in_order(&dealing);
    if (deal_best(&dealing, time, &shared, &best))
        *division = shared;
    return best;
}

/* ---- lanes that are begun anew ---- */

/* Return the copied lane of @replica with the fewest micro-batches; NO_LANE: it has none, or no
 * other lane in progress. */
static unsigned shortest_copy(const struct dealing *dealing, const struct step_division *division,
                              unsigned replica)
{
    unsigned shortest = NO_LANE, count = 0;

    for (unsigned lane = dealing->first[replica]; lane != NO_LANE; lane = dealing->next[lane]) {
        count++;
        if (dealing->input->loose[lane] &&
            (shortest == NO_LANE || division->starts[lane] < division->starts[shortest]))
            shortest = lane;
    }
    return count > 1 ? shortest : NO_LANE;
}

/* Return the shortest copy of the replica that has most to do among those with such a lane;
 * NO_LANE: there is none. */
static unsigned find_loose(const struct lane_dealing_input *input,
                           const struct step_division *division)
{
    struct dealing dealing;
    unsigned loose = NO_LANE;
    double most = 0;

    begin(&dealing, input, division);
    for (unsigned replica = 0; replica < dealing.replicas; replica++) {
        double time = dealing.loads[replica] / dealing.weights[replica];
        unsigned lane = shortest_copy(&dealing, division, replica);
        if (lane == NO_LANE || time <= most)
            continue;
        most = time;
        loose = lane;
    }
    return loose;
}

/* Who begins a dropped lane anew may be its former owner: then it goes on with its copy. */
static void give_back(const struct step_division *before, struct step_division *division)
{
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        unsigned first = division->heads[lane] ? division->givers[lane] : division->owners[lane];
        if (first == before->owners[lane])
            division->starts[lane] = before->starts[lane];
    }
}

bool lane_dealing_scatters(const struct step_division *division)
{
    for (unsigned replica = 0; replica < division->replicas; replica++)
        if (lane_tree_subtrees(division->lanes, division->owners, replica, NULL, 0) >
            LANE_TREE_SUBTREES_MAX)
            return true;
    return false;
}

void lane_dealing_run(const struct lane_dealing_input *input, struct step_division *division)
{
    const struct step_division before = *division;
    struct step_division begun = before;
    double best = deal(input, division);

    for (unsigned i = 0; i < RELEASES_MAX; i++) {
        unsigned loose = find_loose(input, &begun);
        if (loose == NO_LANE)
            break;
        begun.owners[loose] = LANE_DEALING_NO_OWNER;
        begun.starts[loose] = 0;
        struct step_division trial = begun;
        double time = deal(input, &trial);
        if (time >= (best - transfer_of(input, division)) * (1 - MARGIN) ||
            lane_dealing_scatters(&trial))
            continue;
        best = time;
        *division = trial;
    }
    give_back(&before, division);
}
