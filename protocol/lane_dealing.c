#include "protocol/lane_dealing.h"

#include <math.h>
#include <string.h>

#define MARGIN 1e-9 /* relative, for rounding */

/* The replicas, and the lanes that are dealt. */
struct dealing {
    unsigned replicas, micro_batches;
    double weights[JOB_DEVICES_MAX]; /* micro-batches in a unit of time */
    unsigned left[JOB_DEVICES_MAX];  /* micro-batches of lanes in progress */
    unsigned parts[JOB_DEVICES_MAX]; /* micro-batches dealt to each replica */
    unsigned lanes[LANE_TREE_LANES_MAX], lane_count;
};

static void begin(struct dealing *dealing, const struct plan_layout *layout,
                  const struct step_division *division)
{
    dealing->replicas = layout->replica_count;
    dealing->micro_batches = division->micro_batches;
    dealing->lane_count = 0;
    memset(dealing->left, 0, dealing->replicas * sizeof(*dealing->left));
    for (unsigned replica = 0; replica < dealing->replicas; replica++)
        dealing->weights[replica] = plan_layout_lanes_computed(layout, replica);
    for (unsigned lane = 0; lane < division->lanes; lane++)
        if (division->owners[lane] == LANE_DEALING_NO_OWNER)
            dealing->lanes[dealing->lane_count++] = lane;
        else
            dealing->left[division->owners[lane]] +=
                division->micro_batches - division->starts[lane];
}

/* Return the time of the slowest replica. */
static double longest(const struct dealing *dealing)
{
    double time = 0;

    for (unsigned replica = 0; replica < dealing->replicas; replica++)
        time = fmax(time, ((double)dealing->left[replica] + dealing->parts[replica]) /
                              dealing->weights[replica]);
    return time;
}

/* ---- whole lanes ---- */

/* Return the replica whose work would take least time with one more lane. */
static unsigned least_loaded(const struct dealing *dealing)
{
    unsigned best = 0;
    double best_time = INFINITY;

    for (unsigned replica = 0; replica < dealing->replicas; replica++) {
        double time =
            ((double)dealing->left[replica] + dealing->parts[replica] + dealing->micro_batches) /
            dealing->weights[replica];
        if (time >= best_time)
            continue;
        best = replica;
        best_time = time;
    }
    return best;
}

/* Divide the micro-batches into parts of whole lanes. */
static void part_whole(struct dealing *dealing)
{
    memset(dealing->parts, 0, dealing->replicas * sizeof(*dealing->parts));
    for (unsigned i = 0; i < dealing->lane_count; i++)
        dealing->parts[least_loaded(dealing)] += dealing->micro_batches;
}

/* ---- shared lanes ---- */

/* Return the time at which all replicas finish that are not busy longer than that anyway. */
static double level(const struct dealing *dealing)
{
    double time = INFINITY, before = 0;
    unsigned total = dealing->lane_count * dealing->micro_batches;

    while (time < before || before <= 0) {
        double work = total, weight = 0;
        before = time;
        for (unsigned replica = 0; replica < dealing->replicas; replica++) {
            if (dealing->left[replica] / dealing->weights[replica] >= time)
                continue;
            work += dealing->left[replica];
            weight += dealing->weights[replica];
        }
        time = work / weight;
    }
    return time;
}

/* Divide the micro-batches exactly, in the order of replicas. */
static void part_exactly(struct dealing *dealing, double time)
{
    unsigned total = dealing->lane_count * dealing->micro_batches, dealt = 0, last = 0;
    double end = 0;

    for (unsigned replica = 0; replica < dealing->replicas; replica++) {
        end += fmax(0, time * dealing->weights[replica] - dealing->left[replica]);
        unsigned until = (unsigned)fmin(total, nearbyint(end));
        dealing->parts[replica] = until - dealt;
        dealt = until;
        if (dealing->parts[replica])
            last = replica;
    }
    dealing->parts[last] += total - dealt;
}

/* Return whether no lane has three parts, and each head is there before the rest is due. */
static bool can_share(const struct dealing *dealing, double time)
{
    unsigned size = dealing->micro_batches, at = 0, giver = 0;

    for (unsigned replica = 0; replica < dealing->replicas; replica++) {
        unsigned part = dealing->parts[replica], head = at % size;
        if (!part)
            continue;
        double due = head / dealing->weights[giver] + (size - head) / dealing->weights[replica];
        if (head && (part < size - head || due > time * (1 + MARGIN)))
            return false;
        at += part;
        giver = replica;
    }
    return true;
}

/* ---- giving them out ---- */

/* Give the lanes to the replicas by their parts, in order. Where a part ends in a lane is its head.
 */
static void give(const struct dealing *dealing, struct step_division *division)
{
    unsigned size = dealing->micro_batches, replica = 0, end = dealing->parts[0];

    for (unsigned i = 0; i < dealing->lane_count; i++) {
        unsigned lane = dealing->lanes[i];
        for (; end < (i + 1) * size; end += dealing->parts[++replica])
            if (end > i * size && dealing->parts[replica]) {
                division->heads[lane] = end - i * size;
                division->givers[lane] = (uint16_t)replica;
            }
        division->owners[lane] = (uint16_t)replica;
    }
}

void lane_dealing_run(const struct plan_layout *layout, struct step_division *division)
{
    struct dealing dealing;

    begin(&dealing, layout, division);
    if (!dealing.lane_count)
        return;
    part_whole(&dealing);
    if (layout->lane_micro_batches == division->micro_batches) {
        double whole = longest(&dealing), time = level(&dealing);
        part_exactly(&dealing, time);
        if (longest(&dealing) >= whole || !can_share(&dealing, longest(&dealing)))
            part_whole(&dealing);
    }
    give(&dealing, division);
}
