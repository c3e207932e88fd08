#include "protocol/step_division.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define NO_OWNER UINT16_MAX

/* ---- the plan's division ---- */

static void own_as_planned(const struct plan_layout *layout, struct step_division *division)
{
    for (unsigned replica = 0; replica < layout->replica_count; replica++) {
        unsigned first = layout->replica_first_lane[replica];
        lane_tree_own(
            division->owners,
            (struct lane_tree_span){first, layout->replica_first_lane[replica + 1] - first},
            replica);
    }
}

void step_division_plan(const struct plan_layout *layout, unsigned lanes, unsigned micro_batches,
                        struct step_division *ret_division)
{
    *ret_division = (struct step_division){
        .lanes = lanes, .micro_batches = micro_batches, .replicas = layout->replica_count};
    own_as_planned(layout, ret_division);
}

/* ---- sums that replicas can continue ---- */

/* The facts, and the layout that they describe. */
struct step_scene {
    const struct plan_layout *layout;
    const struct step_facts *facts; /* of each rank */
    unsigned trained_from;
};

static bool is_trained(const struct step_scene *scene, unsigned stage)
{
    return scene->layout->stage_first_unit[stage + 1] > scene->trained_from;
}

static const struct lane_fact *fact_of(const struct step_scene *scene, unsigned replica,
                                       unsigned stage, unsigned lane)
{
    static const struct lane_fact nothing = {0};
    const struct step_facts *facts = &scene->facts[plan_layout_rank(scene->layout, replica, stage)];
    return facts->lanes ? &facts->lanes[lane] : &nothing;
}

/* Return twice the number of micro-batches that @replica has of @lane, plus one if a stage has any
 * sum of it: a lane stays with a sum that it is part of. */
static unsigned claim(const struct step_scene *scene, unsigned replica, unsigned lane)
{
    unsigned least = UINT_MAX;
    bool any = false;

    for (unsigned stage = 0; stage < scene->layout->stage_count; stage++) {
        const struct lane_fact *fact = fact_of(scene, replica, stage, lane);
        if (!is_trained(scene, stage))
            continue;
        least = MIN(least, fact->micro_batches);
        any = any || fact->span.count > 0;
    }
    return 2 * least + any;
}

/* Give each begun lane to the replica that is furthest. */
static bool own_begun(const struct step_scene *scene, struct step_division *division)
{
    bool begun = false;

    for (unsigned lane = 0; lane < division->lanes; lane++) {
        unsigned best = 0;
        division->owners[lane] = NO_OWNER;
        for (unsigned replica = 0; replica < division->replicas; replica++) {
            unsigned value = claim(scene, replica, lane);
            if (value <= best)
                continue;
            best = value;
            division->owners[lane] = (uint16_t)replica;
        }
        begun = begun || best > 0;
    }
    return begun;
}

static bool span_is_owned(const struct step_division *division, struct lane_tree_span span,
                          unsigned replica)
{
    for (unsigned lane = span.first; lane < span.first + span.count; lane++)
        if (division->owners[lane] != replica)
            return false;
    return span.count > 0;
}

/* Return the micro-batches that @replica has of @lane when sums with foreign lanes are dropped. */
static unsigned start_of(const struct step_scene *scene, const struct step_division *division,
                         unsigned replica, unsigned lane)
{
    unsigned start = division->micro_batches;

    for (unsigned stage = 0; stage < scene->layout->stage_count; stage++) {
        const struct lane_fact *fact = fact_of(scene, replica, stage, lane);
        if (!is_trained(scene, stage))
            continue;
        start = span_is_owned(division, fact->span, replica) ? MIN(start, fact->micro_batches) : 0;
    }
    return start;
}

/* Set the starts of all lanes with an owner. */
static void set_starts(const struct step_scene *scene, struct step_division *division)
{
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        unsigned owner = division->owners[lane];
        if (owner == NO_OWNER)
            continue;
        division->starts[lane] = start_of(scene, division, owner, lane);
        division->validated[lane] =
            fact_of(scene, owner, scene->layout->stage_count - 1, lane)->validated;
    }
}

/* ---- dealing the other lanes ---- */

/* Return the replica whose work would take least time with one more lane: work is weighed by the
 * plan's lanes, which follow the speeds of the slots. */
static unsigned least_loaded(const struct plan_layout *layout, const uint64_t *left,
                             unsigned micro_batches)
{
    unsigned best = 0;
    uint64_t best_left = 0, best_weight = 0;

    for (unsigned replica = 0; replica < layout->replica_count; replica++) {
        uint64_t weight =
            layout->replica_first_lane[replica + 1] - layout->replica_first_lane[replica];
        uint64_t work = left[replica] + micro_batches;
        if (replica && work * best_weight >= best_left * weight)
            continue;
        best = replica;
        best_left = work;
        best_weight = weight;
    }
    return best;
}

/* Each replica gets neighbouring lanes: their sums merge. */
static void deal_rest(const struct plan_layout *layout, struct step_division *division)
{
    uint64_t left[JOB_DEVICES_MAX] = {0};
    unsigned dealt[JOB_DEVICES_MAX] = {0}, replica = 0;

    for (unsigned i = 0; i < layout->replica_count; i++)
        left[i] = step_division_left(division, i);
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        if (division->owners[lane] != NO_OWNER)
            continue;
        unsigned next = least_loaded(layout, left, division->micro_batches);
        left[next] += division->micro_batches;
        dealt[next]++;
    }
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        if (division->owners[lane] != NO_OWNER)
            continue;
        while (!dealt[replica])
            replica++;
        dealt[replica]--;
        division->owners[lane] = (uint16_t)replica;
    }
}

static bool is_scattered(const struct step_division *division)
{
    for (unsigned replica = 0; replica < division->replicas; replica++)
        if (lane_tree_subtrees(division->lanes, division->owners, replica, NULL, 0) >
            LANE_TREE_SUBTREES_MAX)
            return true;
    return false;
}

void step_division_continue(const struct plan_layout *layout, unsigned trained_from, uint64_t step,
                            unsigned lanes, unsigned micro_batches, const struct step_facts *facts,
                            struct step_division *ret_division)
{
    const struct step_scene scene = {layout, facts, trained_from};

    step_division_plan(layout, lanes, micro_batches, ret_division);
    if (!own_begun(&scene, ret_division)) {
        own_as_planned(layout, ret_division);
        return;
    }
    ret_division->step = step;
    set_starts(&scene, ret_division);
    deal_rest(layout, ret_division);
    if (is_scattered(ret_division)) {
        own_as_planned(layout, ret_division);
        set_starts(&scene, ret_division);
    }
}

/* ---- a replica's part ---- */

unsigned step_division_left(const struct step_division *division, unsigned replica)
{
    unsigned left = 0;

    for (unsigned lane = 0; lane < division->lanes; lane++)
        if (replica == UINT_MAX || division->owners[lane] == replica)
            left += division->micro_batches - division->starts[lane];
    return left;
}

static unsigned add_runs(const struct step_division *division, unsigned replica, bool begun,
                         struct lane_run *runs, unsigned count)
{
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        unsigned start = division->starts[lane];
        if (division->owners[lane] == replica && start < division->micro_batches &&
            (start > 0) == begun)
            runs[count++] = (struct lane_run){.lane = lane, .start = start};
    }
    return count;
}

unsigned step_division_runs(const struct step_division *division, unsigned replica,
                            struct lane_run *ret_runs)
{
    return add_runs(division, replica, false, ret_runs,
                    add_runs(division, replica, true, ret_runs, 0));
}

/* ---- messages ---- */

static bool is_known(const struct lane_fact *fact)
{
    return fact->span.count > 0 || fact->validated;
}

int step_facts_pack(const struct step_facts *facts, unsigned lanes, struct words_writer *writer)
{
    unsigned count = 0;

    for (unsigned lane = 0; facts->lanes && lane < lanes; lane++)
        count += is_known(&facts->lanes[lane]);
    words_put(writer, count);
    for (unsigned lane = 0; facts->lanes && lane < lanes; lane++) {
        const struct lane_fact *fact = &facts->lanes[lane];
        if (!is_known(fact))
            continue;
        words_put(writer, lane);
        words_put(writer, fact->micro_batches);
        words_put(writer, fact->span.first);
        words_put(writer, fact->span.count);
        words_put(writer, fact->validated);
    }
    return writer->status;
}

static struct lane_fact take_fact(struct words_reader *reader, unsigned lane, unsigned lanes,
                                  unsigned micro_batches)
{
    struct lane_fact fact = {.micro_batches =
                                 (unsigned)words_take_below(reader, (uint64_t)micro_batches + 1)};

    fact.span.first = (unsigned)words_take_below(reader, (uint64_t)lane + 1);
    fact.span.count = (unsigned)words_take_below(reader, (uint64_t)lanes - fact.span.first + 1);
    fact.validated = words_take_below(reader, 2) != 0;
    if (fact.span.count && fact.span.first + fact.span.count <= lane)
        reader->status = -EBADMSG;
    return fact;
}

int step_facts_unpack(struct words_reader *reader, unsigned lanes, unsigned micro_batches,
                      struct step_facts *ret_facts)
{
    unsigned count = (unsigned)words_take_below(reader, (uint64_t)lanes + 1);

    *ret_facts = (struct step_facts){0};
    if (reader->status || !count)
        return reader->status;
    ret_facts->lanes = calloc(lanes, sizeof(*ret_facts->lanes));
    if (!ret_facts->lanes)
        return -ENOMEM;
    for (unsigned i = 0; i < count && !reader->status; i++) {
        unsigned lane = (unsigned)words_take_below(reader, lanes);
        ret_facts->lanes[lane] = take_fact(reader, lane, lanes, micro_batches);
    }
    if (reader->status)
        step_facts_done(ret_facts);
    return reader->status;
}

void step_facts_done(struct step_facts *facts)
{
    free(facts->lanes);
    facts->lanes = NULL;
}
