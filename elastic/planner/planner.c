/*
 * Problem: of all K stages x R replicas find the layout with the shortest step, fast enough to run
 * at every change of a large cluster.
 *
 * Design: a layout's unit ranges depend on K alone (min-max partition of compute time), unless
 * memory forbids them; then on K, the memory and the gradient buffers, solved under that
 * restriction. Every (K, R) gets a lower bound of its step time; layouts are simulated in order of
 * the bounds until no bound can beat the best layout found. Then slots are assigned (placement.h)
 * and lanes split (lanes.h).
 *
 * With unlike slots a layout of N devices takes the N best and fits the smallest memory among them.
 * Each replica is as fast as its slowest slot and gets lanes by its speed (lanes.h). The slowest
 * replica determines the step time.
 *
 * Invariant: the answer is a function of the input alone; every comparison has a last tie-break.
 */
#include "elastic/planner/planner.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/plural.h"
#include "base/size_words.h"
#include "elastic/plan/lanes.h"
#include "elastic/planner/layout_shape.h"
#include "elastic/planner/partition.h"
#include "elastic/planner/placement.h"
#include "elastic/planner/planner_time.h"
#include "elastic/planner/process_memory.h"

#define COPY_SECONDS 10 /* between two copies of a worker's sums, at least */

/* Partitions of all stage counts under one restriction; room 0: no restriction. */
struct restricted {
    size_t memory_bytes;
    unsigned room; /* for gradients */
    enum plan_recompute recompute;
    const struct planner_input *input;
    struct partition_table *table;
    /* Units [walked_first, walked_end): the partition queries ranges that grow by one unit. */
    struct planned_stage walked;
    unsigned walked_first, walked_end;
};

struct candidate {
    struct layout_shape shape;
    size_t memory_limit; /* 0: none */
    struct partition_table *table;
    double seconds; /* a lower bound until simulated */
    double bubble_share;
    size_t memory_bytes_max;
    bool fits;
};

/* The partition that a number of stages gets at one level of recomputation. The last one is cached,
 * because consecutive numbers of replicas mostly get the same partition. */
struct given {
    unsigned stage_count, room; /* 0: not computed yet */
    size_t memory_limit, memory_bytes_max;
    struct partition_table *table;
    bool fits, unrestricted;
    unsigned deferred; /* weight gradients */
    unsigned *cuts;    /* stages_max + 1 */
};

struct search {
    const struct planner_input *input;
    unsigned devices, stages_max;
    double *costs;                 /* per unit, of the reference slot */
    unsigned *best_slots;          /* indices, fastest and largest first */
    size_t *memory_least;          /* the least of the first i + 1 best slots; 0: not limited */
    struct restricted *restricted; /* [0] is the free partition */
    unsigned restricted_count;
    struct candidate *candidates;
    unsigned candidate_count, candidate_room;
    struct given given[PLAN_RECOMPUTES]; /* by level; their cuts are one allocation */
    double *speeds;                      /* scratch: of replicas, slot_count */
    unsigned *lanes, *heads;             /* scratch: slot_count + 1 */
    unsigned *sums;    /* sums_room_even() by replicas, 0: not known; slot_count + 1 */
    unsigned *buffers; /* buffers_even() the same: of whole lanes, then of shared ones */
    double *subtrees;  /* subtrees_even() by replicas, the same */
    struct stage_cost *costs_of_stages; /* scratch: stages_max */
    size_t least_memory_needed;         /* of layouts that do not fit, for the message */
};

static int compare_slots(const void *a, const void *b, void *context)
{
    const struct planner_slot *slots = context;
    unsigned left = *(const unsigned *)a, right = *(const unsigned *)b;
    double fast = slot_speed(&slots[left]), other = slot_speed(&slots[right]);
    if (fast > other || fast < other)
        return fast > other ? -1 : 1;
    /* 0 stands for unlimited: as a size it wraps around to the largest. */
    size_t room = slots[left].memory_bytes - 1, other_room = slots[right].memory_bytes - 1;
    if (room != other_room)
        return room > other_room ? -1 : 1;
    return (left > right) - (left < right);
}

static void rank_slots(struct search *search)
{
    const struct planner_input *input = search->input;
    for (unsigned i = 0; i < input->slot_count; i++)
        search->best_slots[i] = i;
    qsort_r(search->best_slots, input->slot_count, sizeof(unsigned), compare_slots,
            (void *)(uintptr_t)input->slots);
    size_t least = 0;
    for (unsigned i = 0; i < input->slot_count; i++) {
        size_t memory =
            process_room(input->slots[search->best_slots[i]].memory_bytes, input->process_bytes);
        if (memory > 0 && (least == 0 || memory < least))
            least = memory;
        search->memory_least[i] = least;
    }
}

static bool fits_memory(void *context, unsigned first, unsigned end, unsigned stages_left)
{
    struct restricted *restricted = context;
    if (first != restricted->walked_first || end < restricted->walked_end) {
        restricted->walked = (struct planned_stage){0};
        restricted->walked_first = restricted->walked_end = first;
    }
    while (restricted->walked_end < end)
        planned_stage_grow(&restricted->walked, &restricted->input->units[restricted->walked_end++],
                           restricted->room, restricted->recompute);
    return planned_stage_bytes(&restricted->walked, stages_left, 0) <= restricted->memory_bytes;
}

#define RESTRICTED_MAX                                                                             \
    128 /* (memory size, room for gradients, recomputation); more combinations are not solved */

/* Find the partition table for a candidate's memory. *ret_table is NULL when there are too many
 * tables. */
static int restricted_table(struct search *search, const struct candidate *candidate,
                            struct partition_table **ret_table)
{
    size_t memory_bytes = candidate->memory_limit;
    unsigned room = shape_room(&candidate->shape);
    enum plan_recompute recompute = candidate->shape.recompute;
    *ret_table = NULL;
    for (unsigned i = 1; i < search->restricted_count; i++) {
        const struct restricted *known = &search->restricted[i];
        if (known->memory_bytes == memory_bytes && known->room == room &&
            known->recompute == recompute) {
            *ret_table = known->table;
            return 0;
        }
    }
    if (search->restricted_count == RESTRICTED_MAX)
        return 0;
    struct restricted *added = &search->restricted[search->restricted_count];
    *added = (struct restricted){
        .memory_bytes = memory_bytes, .room = room, .recompute = recompute, .input = search->input};
    int status =
        partition_table_new(search->costs, search->input->unit_count, search->stages_max,
                            search->input->first_units_least, fits_memory, added, &added->table);
    if (status == 0) {
        search->restricted_count++;
        *ret_table = added->table;
    }
    return status;
}

/* Return the bytes of the largest stage under @cuts. */
static size_t largest_memory(const struct search *search, const struct layout_shape *shape,
                             const unsigned *cuts)
{
    size_t largest = 0;
    unsigned room = shape_room(shape), stages = shape->stage_count;
    for (unsigned stage = 0; stage < stages; stage++)
        largest = MAX(largest, layout_stage_bytes(search->input->units, cuts, stages, stage, room,
                                                  shape->recompute, shape->deferred));
    return largest;
}

/* Defer as many weight gradients as fit the memory that the given partition leaves. */
static void find_deferred(const struct search *search, const struct candidate *candidate,
                          struct given *given)
{
    struct layout_shape shape = candidate->shape;
    unsigned most = shape.stage_count - 1;

    given->deferred = 0;
    if (search->input->defers_nothing || !given->fits || shape.recompute == PLAN_RECOMPUTE_FULL)
        return;
    for (shape.deferred = most; given->deferred < most;
         shape.deferred = most - (most - given->deferred) / 2) {
        size_t bytes = largest_memory(search, &shape, given->cuts);
        if (given->memory_limit > 0 && bytes > given->memory_limit) {
            most = shape.deferred - 1;
            continue;
        }
        given->deferred = shape.deferred;
        given->memory_bytes_max = bytes;
    }
}

static int add_candidate(struct search *search, const struct candidate *candidate)
{
    if (search->candidate_count == search->candidate_room) {
        unsigned room = search->candidate_room == 0 ? 256 : 2 * search->candidate_room;
        struct candidate *grown = realloc(search->candidates, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        search->candidates = grown;
        search->candidate_room = room;
    }
    search->candidates[search->candidate_count++] = *candidate;
    return 0;
}

/* Return sums_room_even(), cached because it does not depend on the number of stages. */
static unsigned even_sums(struct search *search, unsigned replicas)
{
    const struct planner_input *input = search->input;
    if (search->sums[replicas] == 0)
        search->sums[replicas] = sums_room_even(input->lanes, replicas);
    return search->sums[replicas];
}

/* Return buffers_even(), cached. */
static unsigned even_buffers(struct search *search, unsigned replicas, bool shares)
{
    const struct planner_input *input = search->input;
    unsigned *known = &search->buffers[replicas + (shares ? input->slot_count + 1 : 0)];
    if (*known == 0)
        *known = buffers_even(input->lanes, shares ? input->micro_batches_per_lane : 0, replicas);
    return *known;
}

static double even_subtrees(struct search *search, unsigned replicas)
{
    if (search->subtrees[replicas] <= 0)
        search->subtrees[replicas] = subtrees_even(search->input->lanes, replicas);
    return search->subtrees[replicas];
}

/* Return the shape when replicas take the best slots in order and share lanes if @shares.
 * micro_batches is 0 if they cannot. */
static struct layout_shape shape_of_best(struct search *search, unsigned stages, unsigned replicas,
                                         bool shares)
{
    const struct planner_input *input = search->input;
    double fastest = slot_speed(&input->slots[search->best_slots[0]]);
    double slowest = slot_speed(&input->slots[search->best_slots[stages * replicas - 1]]);
    if (fastest <= slowest) { /* alike: the lanes are even, wherever they are cut */
        unsigned batches = input->micro_batches_per_lane;
        unsigned lanes = (input->lanes + replicas - 1) / replicas;
        unsigned shared = (input->lanes * batches + replicas - 1) / replicas;
        return (struct layout_shape){.stage_count = stages,
                                     .replica_count = replicas,
                                     .micro_batches = shares ? shared : lanes * batches,
                                     .speed = slowest,
                                     .buffers = even_buffers(search, replicas, shares),
                                     .shares = shares,
                                     .slowest = slowest,
                                     .sums = even_sums(search, replicas)};
    }
    for (unsigned replica = 0; replica < replicas; replica++)
        search->speeds[replica] =
            slot_speed(&input->slots[search->best_slots[(replica + 1) * stages - 1]]);
    double fill = shape_fill(input, stages);
    if (!shares)
        lanes_split_unlike(input->lanes, search->speeds, replicas, fill, search->lanes);
    else if (!lanes_share(input->lanes, input->micro_batches_per_lane, search->speeds, replicas,
                          fill, search->lanes, search->heads))
        return (struct layout_shape){0};
    return shape_of_replicas(input, stages, replicas, search->speeds, search->lanes,
                             shares ? search->heads : NULL);
}

static int find_partition(struct search *search, const struct candidate *candidate,
                          struct given *given)
{
    unsigned stages = candidate->shape.stage_count;
    struct partition_table *table;

    given->table = search->restricted[0].table;
    partition_table_cuts(given->table, stages, given->cuts);
    given->memory_bytes_max = largest_memory(search, &candidate->shape, given->cuts);
    given->unrestricted =
        given->memory_limit == 0 || given->memory_bytes_max <= given->memory_limit;
    given->fits = given->unrestricted;
    if (given->unrestricted)
        return 0;
    int status = stages > 1 ? restricted_table(search, candidate, &table) : 0;
    if (status < 0)
        return status;
    given->fits = stages > 1 && table && isfinite(partition_table_largest(table, stages));
    if (given->fits) {
        given->table = table;
        partition_table_cuts(table, stages, given->cuts);
        given->memory_bytes_max = largest_memory(search, &candidate->shape, given->cuts);
    } else {
        search->least_memory_needed = MIN(search->least_memory_needed, given->memory_bytes_max);
    }
    return 0;
}

/* Compute the partition of a candidate and its memory. */
static int give_partition(struct search *search, struct candidate *candidate,
                          const struct given **ret_given)
{
    struct given *given = &search->given[candidate->shape.recompute];
    unsigned stages = candidate->shape.stage_count;
    unsigned room = shape_room(&candidate->shape);
    if (given->stage_count != stages || given->room != room ||
        given->memory_limit != candidate->memory_limit) {
        given->stage_count = stages;
        given->room = room;
        given->memory_limit = candidate->memory_limit;
        int status = find_partition(search, candidate, given);
        if (status < 0)
            return status;
        find_deferred(search, candidate, given);
    }
    candidate->shape.deferred = given->deferred;
    candidate->table = given->table;
    candidate->memory_bytes_max = given->memory_bytes_max;
    candidate->fits = given->fits;
    *ret_given = given;
    return 0;
}

/* Frozen units count: they are never computed again, and yet a stage that recomputes keeps less of
 * them. Without recomputation in frozen layers, a job could fit before a freeze and not after it.
 */
static enum plan_recompute most_recomputation(const struct planner_input *input)
{
    enum plan_recompute most = PLAN_RECOMPUTE_NONE;
    for (unsigned unit = 0; unit < input->unit_count; unit++)
        most = MAX(most, input->units[unit].again);
    return most;
}

static bool is_unrestricted(const struct planner_input *input, const struct given *given)
{
    return given->unrestricted &&
           (input->defers_nothing || given->deferred + 1 == given->stage_count);
}

/*
 * Add the candidates of one (K, R), whose replicas share lanes if @shares: without recomputation,
 * then with each higher level until memory restricts neither the partition nor the deferred weight
 * gradients. The fastest level is chosen later by simulation, like the fastest layout. When no
 * level fits, the last one gives the memory that would be needed.
 */
static int consider(struct search *search, unsigned stages, unsigned replicas, bool shares)
{
    const struct planner_input *input = search->input;
    enum plan_recompute most = most_recomputation(input);
    struct candidate candidate = {
        .shape = shape_of_best(search, stages, replicas, shares),
        .memory_limit = search->memory_least[stages * replicas - 1],
    };
    const struct given *given = NULL;
    bool any = false;
    int status = 0;
    for (unsigned level = PLAN_RECOMPUTE_NONE;
         status == 0 && candidate.shape.micro_batches > 0 &&
         !(given && is_unrestricted(input, given)) && level <= most;
         level++) {
        candidate.shape.recompute = (enum plan_recompute)level;
        status = give_partition(search, &candidate, &given);
        if (status < 0 || (!candidate.fits && (any || level < most)))
            continue;
        stage_costs(input, &candidate.shape, given->cuts, search->costs_of_stages);
        candidate.seconds = time_bound(input, &candidate.shape, search->costs_of_stages);
        any = true;
        status = add_candidate(search, &candidate);
    }
    return status;
}

#define SHARING_GAIN_LEAST 0.01 /* of a step: sharing costs transfers and buffers */

/* Return whether replicas can share lanes to any use: whole lanes leave slots idle. */
static bool may_share(const struct search *search, unsigned replicas)
{
    const struct planner_input *input = search->input;
    double fastest = slot_speed(&input->slots[search->best_slots[0]]);
    double slowest = slot_speed(&input->slots[search->best_slots[search->devices - 1]]);
    unsigned whole = (input->lanes + replicas - 1) / replicas * replicas;
    double idle = fastest > slowest ? replicas : whole - input->lanes; /* at most; lanes */
    return input->shares_lanes && input->micro_batches_per_lane > 1 && replicas > 1 &&
           idle >= SHARING_GAIN_LEAST * input->lanes;
}

static int consider_all(struct search *search)
{
    const struct planner_input *input = search->input;
    for (unsigned stages = 1; stages <= search->stages_max; stages++) {
        if (input->stages_wanted != 0 && stages != input->stages_wanted)
            continue;
        unsigned replicas_max = MIN(search->devices / stages, input->lanes);
        for (unsigned replicas = 1; replicas <= replicas_max; replicas++) {
            if ((input->replicas_wanted != 0 && replicas != input->replicas_wanted) ||
                plan_shape_is(&input->avoided, stages, replicas))
                continue;
            int status = consider(search, stages, replicas, false);
            if (status == 0 && may_share(search, replicas))
                status = consider(search, stages, replicas, true);
            if (status < 0)
                return status;
        }
    }
    return 0;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    if (left->fits != right->fits)
        return left->fits ? -1 : 1;
    if (left->seconds < right->seconds || left->seconds > right->seconds)
        return left->seconds < right->seconds ? -1 : 1;
    unsigned devices = left->shape.stage_count * left->shape.replica_count;
    unsigned other_devices = right->shape.stage_count * right->shape.replica_count;
    if (devices != other_devices)
        return devices < other_devices ? -1 : 1;
    if (left->shape.stage_count != right->shape.stage_count)
        return left->shape.stage_count < right->shape.stage_count ? -1 : 1;
    if (left->shape.shares != right->shape.shares)
        return left->shape.shares ? 1 : -1;
    return (left->shape.recompute > right->shape.recompute) -
           (left->shape.recompute < right->shape.recompute);
}

static int simulate(struct search *search, struct candidate *candidate)
{
    struct time_prediction time;
    unsigned *cuts = search->given[0].cuts; /* scratch: the partition cache is not used after
                                               this */
    partition_table_cuts(candidate->table, candidate->shape.stage_count, cuts);
    stage_costs(search->input, &candidate->shape, cuts, search->costs_of_stages);
    candidate->shape.subtrees = even_subtrees(search, candidate->shape.replica_count);
    int status = time_predict(search->input, &candidate->shape, search->costs_of_stages, &time);
    if (status < 0)
        return status;
    candidate->seconds = time.step_seconds;
    candidate->bubble_share = time.bubble_share;
    return 0;
}

/*
 * Put the true best @wanted candidates in front: simulate in order of the bounds, keep the
 * simulated ones sorted, stop when a bound is above the last that is kept.
 */
static int find_best(struct search *search, unsigned wanted, unsigned *ret_count)
{
    struct candidate *list = search->candidates;
    unsigned kept = 0;
    if (search->candidate_count > 0)
        qsort(list, search->candidate_count, sizeof(*list), compare_candidates);
    for (unsigned i = 0; i < search->candidate_count; i++) {
        struct candidate next = list[i];
        if (!next.fits || (kept == wanted && next.seconds > list[kept - 1].seconds))
            break;
        int status = simulate(search, &next);
        if (status < 0)
            return status;
        unsigned place = kept;
        while (place > 0 && compare_candidates(&next, &list[place - 1]) < 0)
            place--;
        if (place == wanted)
            continue;
        kept = MIN(kept + 1, wanted);
        memmove(&list[place + 1], &list[place], (kept - 1 - place) * sizeof(*list));
        list[place] = next;
    }
    *ret_count = kept;
    return 0;
}

/* Return whether a better choice differs from @candidate only in sharing lanes. */
static bool is_listed(const struct planner_choice *choices, unsigned count,
                      const struct candidate *candidate)
{
    for (unsigned i = 0; i < count; i++)
        if (choices[i].stage_count == candidate->shape.stage_count &&
            choices[i].replica_count == candidate->shape.replica_count &&
            choices[i].recompute == candidate->shape.recompute)
            return true;
    return false;
}

static void report_choices(const struct search *search, unsigned kept,
                           struct planner_choice *choices, unsigned *ret_count)
{
    unsigned count = 0;
    for (unsigned i = 0; i < search->candidate_count && count < PLANNER_CHOICES_MAX; i++) {
        const struct candidate *candidate = &search->candidates[i];
        if ((i >= kept && candidate->fits) || is_listed(choices, count, candidate))
            continue;
        choices[count++] =
            (struct planner_choice){candidate->shape.stage_count,
                                    candidate->shape.replica_count,
                                    candidate->seconds,
                                    candidate->bubble_share,
                                    candidate->memory_bytes_max + search->input->process_bytes,
                                    candidate->shape.recompute,
                                    candidate->shape.deferred,
                                    candidate->shape.shares,
                                    candidate->fits};
    }
    *ret_count = count;
}

static void free_arrays(struct plan_layout *layout)
{
    free(layout->workers);
    free(layout->stage_first_unit);
    free(layout->replica_first_lane);
    free(layout->replica_head);
}

static void fill_workers(const struct planner_input *input, const unsigned *slots,
                         struct plan_layout *layout)
{
    for (unsigned rank = 0; rank < layout->worker_count; rank++) {
        const struct planner_slot *slot = &input->slots[slots[rank]];
        struct plan_worker *worker = &layout->workers[rank];
        memcpy(worker->node, slot->node, sizeof(worker->node));
        memcpy(worker->address, slot->address, sizeof(worker->address));
        worker->slot = slot->slot;
        worker->instance = slot->instance;
    }
}

/* Return the micro-batches of a lane if replicas may share lanes; else 0. A step that is divided
 * anew may cut lanes where the plan does not, which takes two more sums of each unit. */
static unsigned shared_lane_size(const struct search *search, const struct candidate *best,
                                 const unsigned *cuts)
{
    struct layout_shape shape = best->shape;
    if (!search->input->shares_lanes)
        return 0;
    shape.buffers += 2;
    bool has_room =
        best->memory_limit == 0 || largest_memory(search, &shape, cuts) <= best->memory_limit;
    return shape.shares || has_room ? search->input->micro_batches_per_lane : 0;
}

/* Return whether each worker has room for the sums of another replica, and for those that travel
 * (protocol/sum_copies.h). */
static bool has_room_for_copies(const struct search *search, const struct candidate *best,
                                const unsigned *cuts)
{
    struct layout_shape shape = best->shape;
    shape.buffers = 3 * (shape.buffers + 2);
    return search->input->shares_lanes && shape.replica_count > 1 &&
           (best->memory_limit == 0 || largest_memory(search, &shape, cuts) <= best->memory_limit);
}

/* Fill the layout part of @layout from the best candidate. */
static int fill_plan(const struct search *search, const struct candidate *best,
                     struct plan_layout *layout)
{
    unsigned stages = best->shape.stage_count, replicas = best->shape.replica_count;
    struct plan_layout made = {
        .workers = calloc((size_t)stages * replicas, sizeof(*made.workers)),
        .stage_first_unit = calloc((size_t)stages + 1, sizeof(unsigned)),
        .replica_first_lane = calloc((size_t)replicas + 1, sizeof(unsigned)),
    };
    AUTO_FREE unsigned *slots = calloc((size_t)stages * replicas, sizeof(unsigned));
    bool alike = slot_speed(&search->input->slots[search->best_slots[0]]) <= best->shape.slowest;
    int status =
        !made.stage_first_unit || !made.replica_first_lane || !made.workers || !slots ? -ENOMEM : 0;
    if (status == 0)
        status = shape_split_alike(search->input, &best->shape, &made);
    if (status == 0) {
        partition_table_cuts(best->table, stages, made.stage_first_unit);
        made.lane_micro_batches = shared_lane_size(search, best, made.stage_first_unit);
        if (made.lane_micro_batches)
            made.head_seconds = layout_head_seconds(search->input, stages, made.stage_first_unit);
        if (has_room_for_copies(search, best, made.stage_first_unit))
            made.copy_seconds = COPY_SECONDS;
        struct placement_request request = {stages, replicas, made.stage_first_unit,
                                            best->shape.slowest, best->memory_limit};
        status = placement_assign(search->input, &request, slots);
    }
    if (status < 0) {
        free_arrays(&made);
        return status;
    }
    free_arrays(layout);
    layout->workers = made.workers;
    layout->stage_first_unit = made.stage_first_unit;
    layout->replica_first_lane = made.replica_first_lane;
    layout->replica_head = made.replica_head;
    layout->lane_micro_batches = made.lane_micro_batches;
    layout->head_seconds = made.head_seconds;
    layout->copy_seconds = made.copy_seconds;
    layout->stage_count = stages;
    layout->replica_count = replicas;
    layout->worker_count = stages * replicas;
    layout->donor_count = 0;
    layout->recompute = best->shape.recompute;
    layout->deferred = best->shape.deferred;
    layout->predicted_step_seconds = best->seconds;
    fill_workers(search->input, slots, layout);
    if (alike)
        return 0;
    status = shape_split_unlike(search->input, best->memory_limit ? &best->shape : NULL, layout);
    return status < 0 ? status
                      : planner_predict(search->input, layout, &layout->predicted_step_seconds);
}

static uint64_t largest_slot_bytes(const struct planner_input *input)
{
    uint64_t largest = 0;

    for (unsigned i = 0; i < input->slot_count; i++)
        largest = MAX(largest, (uint64_t)input->slots[i].memory_bytes);
    return largest;
}

static int explain_nothing(const struct search *search, struct error *error)
{
    const struct planner_input *input = search->input;
    if (search->candidate_count > 0) {
        char least[SIZE_WORDS_SIZE], largest[SIZE_WORDS_SIZE];
        return error_set(
            error, -ENOSPC,
            "no layout fits: the least that a slot would need is %s, and the largest has %s",
            size_words(search->least_memory_needed + input->process_bytes, least),
            size_words(largest_slot_bytes(input), largest));
    }
    if (input->stages_wanted > input->unit_count)
        return error_set(error, -ENOSPC, "%u stages are asked for, the model has %u units",
                         input->stages_wanted, input->unit_count);
    if (input->replicas_wanted > input->lanes)
        return error_set(error, -ENOSPC, "%u replicas are asked for, the job has %u lanes",
                         input->replicas_wanted, input->lanes);
    return error_set(error, -ENOSPC,
                     "%u stage%s x %u replica%s are asked for, %u slot%s may be used",
                     MAX(input->stages_wanted, 1u), plural(MAX(input->stages_wanted, 1u)),
                     MAX(input->replicas_wanted, 1u), plural(MAX(input->replicas_wanted, 1u)),
                     search->devices, plural(search->devices));
}

/* Return the time of a micro-batch in a unit; kept outputs count if the first stage loads them.
 */
static double unit_seconds(const struct planner_input *input, unsigned unit)
{
    const struct planner_unit *costs = &input->units[unit];
    double kept = input->first_units_least > 0 ? costs->kept_seconds : 0;

    return costs->forward_seconds - kept + costs->backward_seconds;
}

/* Return the most stages that the units and the slots can make. */
static unsigned most_stages(const struct planner_input *input)
{
    unsigned first = MIN(MAX(input->first_units_least, 1u), input->unit_count);

    return MIN(input->unit_count - first + 1, MIN(input->slot_count, input->devices_max));
}

static int search_init(struct search *search, const struct planner_input *input)
{
    *search = (struct search){
        .input = input,
        .devices = MIN(input->slot_count, input->devices_max),
        .stages_max = most_stages(input),
        .least_memory_needed = SIZE_MAX,
    };
    if (search->stages_max == 0)
        return 0;
    search->costs = calloc(input->unit_count, sizeof(double));
    search->best_slots = calloc(input->slot_count, sizeof(unsigned));
    search->memory_least = calloc(input->slot_count, sizeof(size_t));
    search->restricted = calloc(RESTRICTED_MAX, sizeof(*search->restricted));
    unsigned *cuts = calloc(PLAN_RECOMPUTES * ((size_t)search->stages_max + 1), sizeof(unsigned));
    for (unsigned level = 0; cuts && level < PLAN_RECOMPUTES; level++)
        search->given[level].cuts = cuts + level * ((size_t)search->stages_max + 1);
    search->costs_of_stages = calloc(search->stages_max, sizeof(struct stage_cost));
    search->speeds = calloc(input->slot_count, sizeof(double));
    search->lanes = calloc((size_t)input->slot_count + 1, sizeof(unsigned));
    search->heads = calloc((size_t)input->slot_count + 1, sizeof(unsigned));
    search->buffers = calloc(2 * ((size_t)input->slot_count + 1), sizeof(unsigned));
    search->sums = calloc((size_t)input->slot_count + 1, sizeof(unsigned));
    search->subtrees = calloc((size_t)input->slot_count + 1, sizeof(double));
    if (!search->costs || !search->best_slots || !search->memory_least || !search->restricted ||
        !cuts || !search->costs_of_stages || !search->speeds || !search->lanes || !search->heads ||
        !search->sums || !search->buffers || !search->subtrees)
        return -ENOMEM;
    for (unsigned unit = 0; unit < input->unit_count; unit++)
        search->costs[unit] = unit_seconds(input, unit);
    rank_slots(search);
    search->restricted_count = 1;
    return partition_table_new(search->costs, input->unit_count, search->stages_max,
                               input->first_units_least, NULL, NULL, &search->restricted[0].table);
}

static void search_done(struct search *search)
{
    for (unsigned i = 0; i < search->restricted_count; i++)
        partition_table_free(search->restricted[i].table);
    free(search->costs);
    free(search->best_slots);
    free(search->memory_least);
    free(search->restricted);
    free(search->given[0].cuts);
    free(search->costs_of_stages);
    free(search->speeds);
    free(search->lanes);
    free(search->heads);
    free(search->sums);
    free(search->buffers);
    free(search->subtrees);
    free(search->candidates);
}

/* Find the best layout whose first stage has at least first_units_least units. */
static int run(const struct planner_input *input, struct plan_layout *layout,
               struct planner_choice *ret_choices, unsigned *ret_choice_count, struct error *error)
{
    struct search search;
    unsigned kept = 0;
    int status = search_init(&search, input);
    if (status == 0 && search.stages_max > 0)
        status = consider_all(&search);
    if (status == 0)
        status = find_best(&search, ret_choices ? PLANNER_CHOICES_MAX : 1, &kept);
    if (status == 0 && ret_choices)
        report_choices(&search, kept, ret_choices, ret_choice_count);
    if (status == 0)
        status = kept > 0 ? fill_plan(&search, &search.candidates[0], layout)
                          : explain_nothing(&search, error);
    else
        error_set(error, status, "planning %u units over %u slots: %s", input->unit_count,
                  input->slot_count, strerror(-status));
    search_done(&search);
    return status;
}

/* Return whether a layout that loads kept outputs has a shorter step than @seconds. */
static bool kept_is_faster(const struct planner_input *input, double seconds)
{
    struct plan_layout layout = {0};
    struct error unread = {0};
    bool is_faster =
        run(input, &layout, NULL, NULL, &unread) == 0 && layout.predicted_step_seconds < seconds;

    free_arrays(&layout);
    return is_faster;
}

int planner_run(const struct planner_input *input, struct plan_layout *layout,
                struct planner_choice *ret_choices, unsigned *ret_choice_count, struct error *error)
{
    struct planner_input loading = *input;
    int status = run(input, layout, ret_choices, ret_choice_count, error);

    loading.first_units_least = input->kept_alone ? 0 : input->kept.unit_count;
    if (loading.first_units_least == 0 || status == -ENOMEM ||
        !kept_is_faster(&loading, status == 0 ? layout->predicted_step_seconds : INFINITY))
        return status;
    error_clear(error);
    return run(&loading, layout, ret_choices, ret_choice_count, error);
}

int planner_stage_costs(const struct planner_input *input, const struct plan_layout *layout,
                        struct stage_cost *ret_costs, unsigned *ret_micro_batches)
{
    struct layout_shape shape;
    int status = shape_of_layout(input, layout, &shape);
    if (status < 0)
        return status;
    stage_costs(input, &shape, layout->stage_first_unit, ret_costs);
    *ret_micro_batches = shape.micro_batches;
    return 0;
}

int planner_predict(const struct planner_input *input, const struct plan_layout *layout,
                    double *ret_seconds)
{
    AUTO_FREE struct stage_cost *costs = calloc(layout->stage_count, sizeof(*costs));
    struct layout_shape shape;
    int status = !costs ? -ENOMEM : shape_of_layout(input, layout, &shape);
    if (status < 0)
        return status;
    struct time_prediction time;
    stage_costs(input, &shape, layout->stage_first_unit, costs);
    status = time_predict(input, &shape, costs, &time);
    if (status == 0)
        *ret_seconds = time.step_seconds;
    return status;
}
