#include "protocol/step_division.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/lane_dealing.h"

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

/* Heads are counted in micro-batches: those of other lanes than this job's mean nothing. */
static void share_as_planned(const struct plan_layout *layout, struct step_division *division)
{
    if (layout->lane_micro_batches != division->micro_batches)
        return;
    for (unsigned replica = 1; replica < layout->replica_count; replica++) {
        unsigned lane = layout->replica_first_lane[replica];
        division->heads[lane] = plan_layout_head(layout, replica);
        division->givers[lane] = (uint16_t)(replica - 1);
    }
}

static void forget_heads(struct step_division *division)
{
    memset(division->heads, 0, sizeof(division->heads));
}

void step_division_plan(const struct plan_layout *layout, unsigned lanes, unsigned micro_batches,
                        struct step_division *ret_division)
{
    *ret_division = (struct step_division){
        .lanes = lanes, .micro_batches = micro_batches, .replicas = layout->replica_count};
    own_as_planned(layout, ret_division);
    share_as_planned(layout, ret_division);
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

/* What a replica has of a lane: the members are compared in their order. */
struct claim {
    unsigned micro_batches; /* in all trained stages */
    unsigned span_lanes;    /* of the largest sum: a lane stays with a sum that it is part of */
    bool own;               /* no part is offered */
};

static struct claim claim_of(const struct step_scene *scene, unsigned replica, unsigned lane)
{
    struct claim claim = {.micro_batches = UINT_MAX, .own = true};

    for (unsigned stage = 0; stage < scene->layout->stage_count; stage++) {
        const struct lane_fact *fact = fact_of(scene, replica, stage, lane);
        if (!is_trained(scene, stage))
            continue;
        claim.micro_batches = MIN(claim.micro_batches, fact->micro_batches);
        claim.span_lanes = MAX(claim.span_lanes, fact->span.count);
        claim.own = claim.own && !fact->offered;
    }
    return claim;
}

static bool is_more(const struct claim *claim, const struct claim *than)
{
    if (claim->micro_batches != than->micro_batches)
        return claim->micro_batches > than->micro_batches;
    if (claim->span_lanes != than->span_lanes)
        return claim->span_lanes > than->span_lanes;
    return claim->span_lanes && claim->own && !than->own;
}

/* Give each begun lane to the replica that is furthest. */
static bool own_begun(const struct step_scene *scene, struct step_division *division)
{
    bool begun = false;

    for (unsigned lane = 0; lane < division->lanes; lane++) {
        struct claim best = {.own = true}; /* nothing */
        division->owners[lane] = LANE_DEALING_NO_OWNER;
        for (unsigned replica = 0; replica < division->replicas; replica++) {
            struct claim claim = claim_of(scene, replica, lane);
            if (!is_more(&claim, &best))
                continue;
            best = claim;
            division->owners[lane] = (uint16_t)replica;
        }
        begun = begun || division->owners[lane] != LANE_DEALING_NO_OWNER;
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
        if (owner == LANE_DEALING_NO_OWNER)
            continue;
        division->starts[lane] = start_of(scene, division, owner, lane);
    }
}

static void set_validated(const struct step_scene *scene, struct step_division *division)
{
    unsigned last = scene->layout->stage_count - 1;

    for (unsigned lane = 0; lane < division->lanes; lane++)
        division->validated[lane] = fact_of(scene, division->owners[lane], last, lane)->validated;
}

/* Find how many micro-batches any unit has of each lane, at the lane's owner. */
static void find_furthest(const struct step_scene *scene, const struct step_division *division,
                          unsigned *ret_furthest)
{
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        unsigned owner = division->owners[lane];
        ret_furthest[lane] = 0;
        for (unsigned stage = 0; stage < scene->layout->stage_count; stage++)
            if (owner != LANE_DEALING_NO_OWNER && is_trained(scene, stage))
                ret_furthest[lane] =
                    MAX(ret_furthest[lane], fact_of(scene, owner, stage, lane)->furthest);
    }
}

/* Return whether all that @replica has of @lane is copies, and part of no larger sum. */
static bool has_copies_alone(const struct step_scene *scene, unsigned replica, unsigned lane)
{
    bool copied = false;

    for (unsigned stage = 0; stage < scene->layout->stage_count; stage++) {
        const struct lane_fact *fact = fact_of(scene, replica, stage, lane);
        if (!is_trained(scene, stage) || !fact->span.count)
            continue;
        if (!fact->copied || fact->span.count > 1)
            return false;
        copied = true;
    }
    return copied;
}

/* Return whether a worker of @replica has anything of @lane that it, or a donor, has computed. */
static bool has_own(const struct step_scene *scene, unsigned replica, unsigned lane)
{
    for (unsigned stage = 0; stage < scene->layout->stage_count; stage++) {
        const struct lane_fact *fact = fact_of(scene, replica, stage, lane);
        if (is_trained(scene, stage) && fact->span.count > 0 && !fact->copied)
            return true;
    }
    return false;
}

/* Find the lanes whose sum may be dropped: no survivor has computed any of it. */
static void find_loose(const struct step_scene *scene, const struct step_division *division,
                       bool *ret_loose)
{
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        unsigned owner = division->owners[lane];
        ret_loose[lane] = owner != LANE_DEALING_NO_OWNER && has_copies_alone(scene, owner, lane);
        for (unsigned replica = 0; ret_loose[lane] && replica < division->replicas; replica++)
            ret_loose[lane] = !has_own(scene, replica, lane);
    }
}

/* Deal what is left: with shared lanes if the plan allows them, or whole lanes if no replica has
 * too many subtrees then, or as planned. */
static void deal(const struct step_scene *scene, struct step_division *division)
{
    const struct plan_layout *layout = scene->layout;
    const struct step_division begun = *division;
    unsigned furthest[LANE_TREE_LANES_MAX];
    bool loose[LANE_TREE_LANES_MAX];
    struct lane_dealing_input input = {layout, furthest, loose,
                                       layout->lane_micro_batches == division->micro_batches};

    find_furthest(scene, division, furthest);
    find_loose(scene, division, loose);
    lane_dealing_run(&input, division);
    if (input.shares && lane_dealing_scatters(division)) {
        *division = begun;
        input.shares = false;
        lane_dealing_run(&input, division);
    }
    if (lane_dealing_scatters(division)) {
        own_as_planned(layout, division);
        forget_heads(division);
        set_starts(scene, division);
    }
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
    forget_heads(ret_division);
    ret_division->step = step;
    set_starts(&scene, ret_division);
    deal(&scene, ret_division);
    set_validated(&scene, ret_division);
}

/* ---- a replica's part ---- */

/* The parts of a step in the order in which a replica computes its own. */
enum run_kind { RUN_HEAD, RUN_BEGUN, RUN_WHOLE, RUN_REST, RUN_KINDS };

/* Return what @replica computes of @lane as a run of @kind; empty: nothing. */
static struct lane_run run_of(const struct step_division *division, unsigned replica, unsigned lane,
                              enum run_kind kind)
{
    unsigned start = division->starts[lane], head = division->heads[lane];
    struct lane_run run = {lane, MAX(start, head), division->micro_batches};

    if (kind == RUN_HEAD)
        return head > 0 && division->givers[lane] == replica ? (struct lane_run){lane, start, head}
                                                             : (struct lane_run){0};
    bool is_own = division->owners[lane] == replica;
    enum run_kind own_kind = head > 0 ? RUN_REST : start > 0 ? RUN_BEGUN : RUN_WHOLE;
    return is_own && kind == own_kind ? run : (struct lane_run){0};
}

unsigned step_division_first(const struct step_division *division, unsigned lane)
{
    return division->heads[lane] > 0 ? division->givers[lane] : division->owners[lane];
}

bool step_division_goes_on_with(const struct step_division *division, struct lane_tree_span span,
                                unsigned micro_batches, unsigned replica)
{
    for (unsigned lane = span.first; lane < span.first + span.count; lane++) {
        unsigned head = division->heads[lane];
        if (step_division_first(division, lane) != replica)
            return false;
        if (head > 0 && (span.count > 1 || micro_batches >= head))
            return false;
    }
    return span.count > 0;
}

unsigned step_division_runs(const struct step_division *division, unsigned replica,
                            struct lane_run *ret_runs)
{
    unsigned count = 0;

    for (unsigned kind = 0; kind < RUN_KINDS; kind++)
        for (unsigned lane = 0; lane < division->lanes; lane++) {
            struct lane_run run = run_of(division, replica, lane, (enum run_kind)kind);
            if (run.start < run.end)
                ret_runs[count++] = run;
        }
    return count;
}

static unsigned left_of(const struct step_division *division, unsigned replica)
{
    struct lane_run runs[LANE_TREE_LANES_MAX + 1];
    unsigned count = step_division_runs(division, replica, runs), left = 0;

    for (unsigned i = 0; i < count; i++)
        left += runs[i].end - runs[i].start;
    return left;
}

unsigned step_division_left(const struct step_division *division, unsigned replica)
{
    unsigned left = 0;

    if (replica != UINT_MAX)
        return left_of(division, replica);
    for (unsigned lane = 0; lane < division->lanes; lane++)
        left += division->micro_batches - division->starts[lane];
    return left;
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
        words_put(writer, fact->furthest);
        words_put(writer, fact->span.first);
        words_put(writer, fact->span.count);
        words_put(writer, (uint64_t)fact->validated | (uint64_t)fact->copied << 1 |
                              (uint64_t)fact->offered << 2);
    }
    return writer->status;
}

static struct lane_fact take_fact(struct words_reader *reader, unsigned lane, unsigned lanes,
                                  unsigned micro_batches)
{
    struct lane_fact fact = {.micro_batches =
                                 (unsigned)words_take_below(reader, (uint64_t)micro_batches + 1)};

    fact.furthest = (unsigned)words_take_below(reader, (uint64_t)micro_batches + 1);
    fact.span.first = (unsigned)words_take_below(reader, (uint64_t)lane + 1);
    fact.span.count = (unsigned)words_take_below(reader, (uint64_t)lanes - fact.span.first + 1);
    uint64_t flags = words_take_below(reader, 8);
    fact.validated = flags & 1;
    fact.copied = flags & 2;
    fact.offered = flags & 4;
    if (fact.furthest < fact.micro_batches ||
        (fact.span.count && fact.span.first + fact.span.count <= lane))
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
