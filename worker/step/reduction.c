#include "worker/step/reduction.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "comm/reduce/reduce.h"
#include "elastic/job/job_spec.h"
#include "worker/device/tags.h"

/* The sums of one trained unit; all zero for a frozen unit. */
struct unit_sums {
    struct reduce_bucket *bucket;
    struct host_copy *copies; /* place_count; NULL: the sums are made in device memory */
    float *places[LANE_TREE_SUBTREES_MAX]; /* place_count: the summands */
};

struct reduction {
    struct engine *engine; /* borrowed */
    unsigned place_count;  /* maximal subtrees of this replica's lanes; 1, for the result, without a
                              lane */
    struct unit_sums *units; /* unit_count of the engine */
};

static void add_on_device(void *context, float *output, const float *a, const float *b,
                          size_t count)
{
    const struct state *state = context;
    state->kernel->tree_add(state->device, output, a, b, count);
}

static int allocate_on_device(void *context, size_t size_bytes, void **ret_memory)
{
    const struct state *state = context;
    return arena_take(state->arena, size_bytes, ret_memory);
}

/* Free nothing: the arena takes back the memory of a generation at once. */
static void release_on_device(void *context, void *memory)
{
    (void)context;
    (void)memory;
}

static void copy_on_device(void *context, void *to, const void *from, size_t size_bytes)
{
    const struct state *state = context;
    state->kernel->copy(state->device, to, from, size_bytes);
}

static const struct reduce_memory device_memory = {
    .allocate = allocate_on_device, .release = release_on_device, .copy = copy_on_device};

static void add_on_host(void *context, float *output, const float *a, const float *b, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        output[i] = a[i] + b[i];
}

static struct carrier *carrier_of(const struct engine *engine)
{
    return engine->routes->carriers[ROUTE_REDUCTION];
}

bool reduction_on_device(const struct engine *engine)
{
    return engine->plan->layout.replica_count == 1 || engine->state->kernel->host_memory ||
           carrier_of(engine)->operations->device_memory;
}

/* The replicas of @rank's stage; the lists are owned. */
static int group_init(const struct plan_layout *layout, unsigned rank,
                      const struct step_division *division, struct reduce_group *ret_group)
{
    unsigned *ranks = calloc(layout->replica_count, sizeof(*ranks));
    uint16_t *owners = calloc(division->lanes, sizeof(*owners));

    *ret_group = (struct reduce_group){
        .lanes = division->lanes,
        .member_count = layout->replica_count,
        .self = rank / layout->stage_count,
        .ranks = ranks,
        .owners = owners,
    };
    if (!ranks || !owners)
        return -ENOMEM;
    for (unsigned replica = 0; replica < layout->replica_count; replica++)
        ranks[replica] = plan_layout_rank(layout, replica, rank % layout->stage_count);
    memcpy(owners, division->owners, division->lanes * sizeof(*owners));
    return 0;
}

static void group_done(struct reduce_group *group)
{
    free((void *)(uintptr_t)group->ranks);
    free((void *)(uintptr_t)group->owners);
}

size_t reduction_room_bytes(const struct state *state, const struct plan_layout *layout,
                            unsigned rank, unsigned trained_from)
{
    CLEANUP(group_done) struct reduce_group group = {0};
    AUTO_FREE struct step_division *division = malloc(sizeof(*division));
    unsigned stage = rank % layout->stage_count;
    size_t sum = 0;

    if (!division)
        return SIZE_MAX;
    step_division_plan(layout, state->spec->train.lanes, state->spec->train.micro_batches_per_lane,
                       division);
    if (group_init(layout, rank, division, &group))
        return SIZE_MAX;
    for (unsigned unit = MAX(layout->stage_first_unit[stage], trained_from);
         unit < layout->stage_first_unit[stage + 1]; unit++) {
        size_t part_bytes =
            arena_part_bytes(reduce_scratch_bytes(&group, state->units[unit].layout.count));
        if (checked_add(sum, part_bytes, &sum))
            return SIZE_MAX;
    }
    return sum;
}

static int copy_subtrees(struct reduction *reduction, unsigned unit, struct unit_sums *sums)
{
    const struct state *state = reduction->engine->state;
    float *const *subtrees = gradients_subtrees(reduction->engine->gradients, unit);
    int status = 0;

    sums->copies = calloc(reduction->place_count, sizeof(*sums->copies));
    if (!sums->copies)
        return -ENOMEM;
    for (unsigned i = 0; !status && i < reduction->place_count; i++) {
        status = host_copy_init(&sums->copies[i], state->pinned, subtrees[i],
                                state->units[unit].layout.count * sizeof(float), false);
        sums->places[i] = sums->copies[i].on_host;
    }
    return status;
}

static int make_unit(struct reduction *reduction, const struct reduce_group *group, unsigned unit)
{
    const struct engine *engine = reduction->engine;
    struct unit_sums *sums = &reduction->units[unit - engine->part.first_unit];
    float *const *subtrees = gradients_subtrees(engine->gradients, unit);

    for (unsigned i = 0; i < reduction->place_count; i++)
        sums->places[i] = subtrees[i];
    int status = reduction_on_device(engine) ? 0 : copy_subtrees(reduction, unit, sums);
    return status
               ? status
               : reduce_bucket_new(group, engine->state->units[unit].layout.count, &sums->bucket);
}

static int make_units(struct reduction *reduction)
{
    CLEANUP(group_done) struct reduce_group group;
    struct engine *engine = reduction->engine;
    unsigned end = engine->part.first_unit + engine->part.unit_count;
    bool on_device = reduction_on_device(engine);
    int status =
        group_init(&engine->plan->layout, engine->part.rank, engine->share.division, &group);

    if (status)
        return status;
    group.carrier = carrier_of(engine);
    group.add = on_device ? add_on_device : add_on_host;
    group.memory = on_device ? &device_memory : NULL;
    group.context = engine->state;
    reduction->units = calloc(engine->part.unit_count, sizeof(*reduction->units));
    if (!reduction->units)
        return -ENOMEM;
    reduction->place_count =
        MAX(1u, lane_tree_subtrees(group.lanes, group.owners, group.self, NULL, 0));
    for (unsigned unit = MAX(engine->part.first_unit, engine->part.trained_from);
         !status && unit < end; unit++)
        status = make_unit(reduction, &group, unit);
    return status;
}

int reduction_new(struct engine *engine, struct reduction **ret_reduction)
{
    struct reduction *reduction = calloc(1, sizeof(*reduction));

    if (!reduction)
        return -ENOMEM;
    reduction->engine = engine;
    int status = make_units(reduction);
    if (status)
        reduction_free(reduction);
    else
        *ret_reduction = reduction;
    return status;
}

void reduction_free(struct reduction *reduction)
{
    if (!reduction)
        return;
    for (unsigned i = 0; reduction->units && i < reduction->engine->part.unit_count; i++) {
        struct unit_sums *sums = &reduction->units[i];
        reduce_bucket_free(sums->bucket);
        for (unsigned k = 0; sums->copies && k < reduction->place_count; k++)
            host_copy_done(&sums->copies[k]);
        free(sums->copies);
    }
    free(reduction->units);
    free(reduction);
}

static uint64_t tag_of(const struct engine *engine, unsigned unit)
{
    return tag_make(TAG_REDUCE, engine->state->hold.step, unit);
}

int reduction_expect(struct reduction *reduction)
{
    const struct engine *engine = reduction->engine;
    int status = 0;

    for (unsigned i = engine->part.unit_count; !status && i-- > 0;) {
        unsigned unit = engine->part.first_unit + i;
        if (reduction->units[i].bucket)
            status = reduce_expect(reduction->units[i].bucket, tag_of(engine, unit),
                                   engine->state->units[unit].layout.count);
    }
    return status;
}

/* A depart function: the summands are in the memory in which they are added. */
static int begin_unit(void *context, unsigned unit)
{
    struct reduction *reduction = context;
    const struct engine *engine = reduction->engine;
    struct unit_sums *sums = &reduction->units[unit - engine->part.first_unit];

    return reduce_begin(sums->bucket, tag_of(engine, unit), sums->places,
                        engine->state->units[unit].layout.count);
}

int reduction_begin(struct reduction *reduction, unsigned unit)
{
    const struct engine *engine = reduction->engine;
    struct host_copy *copies = reduction->units[unit - engine->part.first_unit].copies;

    return copies ? send_queue_add(engine->channels.send_queue, copies, reduction->place_count,
                                   begin_unit, reduction, unit)
                  : begin_unit(reduction, unit);
}

int reduction_finish(struct reduction *reduction)
{
    const struct engine *engine = reduction->engine;
    int status = send_queue_flush(engine->channels.send_queue);

    for (unsigned i = engine->part.unit_count; !status && i-- > 0;)
        if (reduction->units[i].bucket)
            status = reduce_combine(reduction->units[i].bucket);
    for (unsigned i = engine->part.unit_count; !status && i-- > 0;) {
        struct unit_sums *sums = &reduction->units[i];
        if (sums->bucket)
            status = reduce_finish(sums->bucket, sums->places[0]);
        if (!status && sums->copies)
            host_copy_store(&sums->copies[0]);
    }
    return status;
}

bool reduction_combined(const struct reduction *reduction, unsigned unit)
{
    const struct reduce_bucket *bucket =
        reduction->units[unit - reduction->engine->part.first_unit].bucket;

    return bucket && reduce_combined(bucket);
}
