#include "worker/step/gradients.h"

#include <errno.h>
#include <string.h>

#include "protocol/step_division.h"

/* Adopted sums, and a stack on top of them for the lanes that are left. */
#define SUMS_MAX (GRADIENTS_SUMS_MAX + 2 * LANE_TREE_SUBTREES_MAX)

struct gradients {
    const struct state *state; /* borrowed: kernel, device, unit layouts */
    unsigned first_unit, unit_count, trained_from;
    unsigned lanes, micro_batches; /* of the job; of a lane */
    unsigned depth;                /* buffers per unit */
    float **buffers;               /* unit_count * depth; NULL: frozen */
    struct lane_sum *sums;         /* unit_count * depth: the sums in the buffers */
    bool adopted;                  /* the first step begins with sums */
    struct lane_run passed;        /* the head that another replica passes on; end 0: none */
    unsigned subtree_count;        /* at least 1 */
    float **subtrees;              /* unit_count * subtree_count */
    float **reduced;               /* unit_count */
    float *unread;                 /* for micro-batches that a unit already has; NULL: none */
    struct arena_mark end;         /* of the buffers in the arena */
};

/* ---- sums of one unit, without the data ---- */

static bool holds(const struct lane_sum *sum, unsigned lane)
{
    return lane >= sum->span.first && lane < sum->span.first + sum->span.count;
}

static bool has(const struct lane_sum *sums, unsigned depth, unsigned lane, unsigned index)
{
    for (unsigned i = 0; i < depth; i++)
        if (holds(&sums[i], lane))
            return index < sums[i].micro_batches;
    return false;
}

/* Return the buffer of a lane: its own, or the first free one. */
static unsigned place_of(const struct lane_sum *sums, unsigned depth, unsigned lane)
{
    unsigned place = depth;

    for (unsigned i = depth; i-- > 0;) {
        if (holds(&sums[i], lane))
            return i;
        if (!sums[i].span.count)
            place = i;
    }
    assert(place < depth);
    return place;
}

/* Find two sums that are the children of one node, one of them at @place: the left one, the right
 * one and the node. */
static bool find_pair(const struct lane_sum *sums, unsigned depth, unsigned lanes, unsigned place,
                      unsigned *ret_left, unsigned *ret_right, struct lane_tree_span *ret_parent)
{
    for (unsigned i = 0; i < depth; i++) {
        if (!sums[i].span.count || sums[i].micro_batches != sums[place].micro_batches)
            continue;
        bool left = sums[i].span.first < sums[place].span.first;
        *ret_left = left ? i : place;
        *ret_right = left ? place : i;
        if (lane_tree_parent_of_pair(lanes, sums[*ret_left].span, sums[*ret_right].span,
                                     ret_parent))
            return true;
    }
    return false;
}

/* Merge the pair that place_of() left behind: the sum is in the left buffer. Return false if there
 * is none. */
static bool merge(struct lane_sum *sums, unsigned depth, unsigned lanes, unsigned *place,
                  unsigned *ret_left, unsigned *ret_right)
{
    struct lane_tree_span parent;

    if (!find_pair(sums, depth, lanes, *place, ret_left, ret_right, &parent))
        return false;
    sums[*ret_left].span = parent;
    sums[*ret_right] = (struct lane_sum){0};
    *place = *ret_left;
    return true;
}

/* Add a run to the sums; a head does not merge, because its lane is not complete. */
static void add_run(struct lane_sum *sums, unsigned depth, const struct step_division *division,
                    const struct lane_run *run, unsigned *ret_used)
{
    unsigned left, right, place = place_of(sums, depth, run->lane);

    sums[place] = (struct lane_sum){{run->lane, 1}, run->end};
    *ret_used = MAX(*ret_used, place + 1);
    while (run->end == division->micro_batches &&
           merge(sums, depth, division->lanes, &place, &left, &right))
        ;
}

/* Run the lanes without data: @sums becomes the content of the buffers at the end. Return the
 * number of buffers used. */
static unsigned play(struct lane_sum *sums, const struct step_division *division,
                     const struct lane_run *runs, unsigned run_count)
{
    unsigned used = 0;

    for (unsigned i = 0; i < SUMS_MAX; i++)
        if (sums[i].span.count)
            used = i + 1;
    for (unsigned i = 0; i < run_count; i++)
        if (!has(sums, SUMS_MAX, runs[i].lane, runs[i].end - 1))
            add_run(sums, SUMS_MAX, division, &runs[i], &used);
    return used;
}

/* Return the head that another replica passes on to @replica; end 0: none. */
static struct lane_run passed_head(const struct step_division *division, unsigned replica)
{
    for (unsigned lane = 0; lane < division->lanes; lane++)
        if (division->owners[lane] == replica && division->heads[lane] > 0)
            return (struct lane_run){lane, 0, division->heads[lane]};
    return (struct lane_run){0};
}

/* Give the head that is passed on its buffer from the beginning of a step: it may arrive early. */
static void expect_head(struct lane_sum *sums, const struct lane_run *passed)
{
    unsigned place = 0;

    if (!passed->end)
        return;
    while (sums[place].span.count)
        place++;
    sums[place] = (struct lane_sum){{passed->lane, 1}, passed->end};
}

unsigned gradients_depth(const struct step_division *division, unsigned replica)
{
    struct lane_run runs[LANE_TREE_LANES_MAX + 1], passed = passed_head(division, replica);
    struct lane_sum sums[SUMS_MAX] = {0};

    expect_head(sums, &passed);
    return MAX(1u, play(sums, division, runs, step_division_runs(division, replica, runs)));
}

/* ---- making them ---- */

static bool is_trained(const struct gradients *gradients, unsigned i)
{
    return gradients->first_unit + i >= gradients->trained_from;
}

static size_t unit_bytes(const struct gradients *gradients, unsigned i)
{
    return gradients->state->units[gradients->first_unit + i].layout.count * sizeof(float);
}

/* Return whether a micro-batch that is computed again is already in the sums. */
static bool is_ahead(const struct lane_sum *sums, const struct lane_run *runs, unsigned run_count)
{
    for (unsigned i = 0; i < run_count; i++)
        if (has(sums, SUMS_MAX, runs[i].lane, runs[i].start))
            return true;
    return false;
}

/* Return the index in options->kept of unit @i; -1: it has no buffers there. */
static int index_in_kept(const struct gradients_options *options, unsigned i)
{
    const struct gradients *kept = options->kept;
    unsigned unit = options->first_unit + i;

    if (!kept || unit < kept->first_unit || unit >= kept->first_unit + kept->unit_count)
        return -1;
    return (int)(unit - kept->first_unit);
}

/* The buffers that hold kept sums of unit @i keep their places; offered sums get free ones. */
static void begin_offered(const struct gradients_options *options, unsigned i,
                          struct lane_sum *sums)
{
    const struct step_sums *offered = options->offered;
    unsigned place = 0;

    for (unsigned k = 0; offered && k < offered->count; k++) {
        const struct step_sum *sum = &offered->list[k];
        if (!sum->chosen || !sum->offered || sum->unit != options->first_unit + i)
            continue;
        while (sums[place].span.count)
            place++;
        assert(place < GRADIENTS_SUMS_MAX);
        sums[place] = (struct lane_sum){sum->span, sum->micro_batches};
    }
}

/* Return whether the kept sum of @span is chosen; without offers all sums are. */
static bool is_chosen(const struct gradients_options *options, unsigned i,
                      struct lane_tree_span span)
{
    const struct step_sums *sums = options->offered;

    for (unsigned k = 0; sums && k < sums->count; k++)
        if (!sums->list[k].offered && sums->list[k].unit == options->first_unit + i &&
            sums->list[k].span.first == span.first && sums->list[k].span.count == span.count)
            return sums->list[k].chosen;
    return !sums;
}

/* The sums of unit @i at the beginning: those with which this replica goes on. */
static void begin_sums(const struct gradients_options *options, unsigned i,
                       struct lane_sum *ret_sums)
{
    const struct gradients *kept = options->kept;
    int index = index_in_kept(options, i);

    memset(ret_sums, 0, SUMS_MAX * sizeof(*ret_sums));
    for (unsigned k = 0; index >= 0 && k < kept->depth; k++) {
        const struct lane_sum *sum = &kept->sums[(unsigned)index * kept->depth + k];
        if (step_division_goes_on_with(options->division, sum->span, sum->micro_batches,
                                       options->replica) &&
            is_chosen(options, i, sum->span))
            ret_sums[k] = *sum;
    }
    begin_offered(options, i, ret_sums);
    struct lane_run passed = passed_head(options->division, options->replica);
    expect_head(ret_sums, &passed);
}

struct shape {
    struct lane_run runs[LANE_TREE_LANES_MAX + 1];
    unsigned run_count;
    unsigned depth;
    size_t unread_bytes; /* of the largest unit that is ahead of its replica; 0: none */
};

static void measure(const struct gradients *gradients, const struct gradients_options *options,
                    struct shape *shape)
{
    struct lane_sum sums[SUMS_MAX];

    shape->run_count = step_division_runs(options->division, options->replica, shape->runs);
    shape->depth = MAX(1u, options->kept ? options->kept->depth : 0);
    shape->unread_bytes = 0;
    for (unsigned i = 0; i < gradients->unit_count; i++) {
        if (!is_trained(gradients, i))
            continue;
        begin_sums(options, i, sums);
        if (!options->skips && is_ahead(sums, shape->runs, shape->run_count))
            shape->unread_bytes = MAX(shape->unread_bytes, unit_bytes(gradients, i));
        shape->depth =
            MAX(shape->depth, play(sums, options->division, shape->runs, shape->run_count));
        if (!options->kept && !options->offered)
            return; /* all units alike */
    }
}

/* Adopted buffers first: they are the first parts of the arena. */
static int take_buffers(struct gradients *gradients, const struct gradients_options *options,
                        const struct shape *shape)
{
    const struct gradients *kept = options->kept;
    unsigned kept_depth = kept ? kept->depth : 0, depth = gradients->depth;
    int status = 0;

    for (unsigned i = 0; i < gradients->unit_count; i++) {
        int index = index_in_kept(options, i);
        for (unsigned k = 0; index >= 0 && k < kept_depth; k++)
            gradients->buffers[i * depth + k] = kept->buffers[(unsigned)index * kept_depth + k];
    }
    for (unsigned i = 0; i < gradients->unit_count; i++)
        for (unsigned k = 0; k < depth && !status && is_trained(gradients, i); k++)
            if (!gradients->buffers[i * depth + k])
                status = arena_take(gradients->state->arena, unit_bytes(gradients, i),
                                    (void **)&gradients->buffers[i * depth + k]);
    gradients->end = arena_mark(gradients->state->arena);
    return status || !shape->unread_bytes ? status
                                          : arena_take(gradients->state->arena, shape->unread_bytes,
                                                       (void **)&gradients->unread);
}

/* Note the buffers that hold the subtrees of this replica's lanes after the last one, left to
 * right. */
static void find_subtrees(struct gradients *gradients, const struct gradients_options *options,
                          const struct lane_sum *sums, unsigned i)
{
    const uint16_t *owners = options->division->owners;
    float **subtrees = gradients->subtrees + (size_t)i * gradients->subtree_count;
    unsigned count = 0;

    subtrees[0] = gradients->buffers[i * gradients->depth];
    for (unsigned lane = 0; lane < gradients->lanes;) {
        unsigned k = owners[lane] == options->replica ? 0 : gradients->depth;
        while (k < gradients->depth && !holds(&sums[k], lane))
            k++;
        if (k < gradients->depth)
            subtrees[count++] = gradients->buffers[i * gradients->depth + k];
        lane = k < gradients->depth ? sums[k].span.first + sums[k].span.count : lane + 1;
    }
    assert(MAX(1u, count) == gradients->subtree_count);
    gradients->reduced[i] = subtrees[0];
}

static void lay_out(struct gradients *gradients, const struct gradients_options *options,
                    const struct shape *shape)
{
    struct lane_sum sums[SUMS_MAX];

    for (unsigned i = 0; i < gradients->unit_count; i++) {
        if (!is_trained(gradients, i))
            continue;
        begin_sums(options, i, sums);
        memcpy(gradients->sums + (size_t)i * gradients->depth, sums,
               gradients->depth * sizeof(*sums));
        play(sums, options->division, shape->runs, shape->run_count);
        find_subtrees(gradients, options, sums, i);
    }
}

static int make(struct gradients *gradients, const struct gradients_options *options)
{
    const struct step_division *division = options->division;
    unsigned count = gradients->unit_count;
    struct shape shape;

    measure(gradients, options, &shape);
    gradients->depth = shape.depth;
    gradients->subtree_count =
        MAX(1u, lane_tree_subtrees(division->lanes, division->owners, options->replica, NULL, 0));
    gradients->buffers = calloc((size_t)count * shape.depth, sizeof(float *));
    gradients->sums = calloc((size_t)count * shape.depth, sizeof(*gradients->sums));
    gradients->subtrees = calloc((size_t)count * gradients->subtree_count, sizeof(float *));
    gradients->reduced = calloc(count, sizeof(float *));
    if (!gradients->buffers || !gradients->sums || !gradients->subtrees || !gradients->reduced)
        return -ENOMEM;
    int status = take_buffers(gradients, options, &shape);
    if (!status)
        lay_out(gradients, options, &shape);
    return status;
}

int gradients_new(const struct gradients_options *options, struct gradients **ret_gradients,
                  struct error *error)
{
    struct gradients *gradients = calloc(1, sizeof(*gradients));
    int status = -ENOMEM;

    if (gradients) {
        *gradients = (struct gradients){.state = options->state,
                                        .first_unit = options->first_unit,
                                        .unit_count = options->unit_count,
                                        .trained_from = state_frozen_units(options->state),
                                        .lanes = options->division->lanes,
                                        .micro_batches = options->division->micro_batches,
                                        .passed = passed_head(options->division, options->replica),
                                        .adopted = options->kept || options->offered};
        status = make(gradients, options);
    }
    gradients_free(options->kept);
    if (status) {
        gradients_free(gradients);
        return error_set(error, status, "no memory for the gradients of %u units",
                         options->unit_count);
    }
    *ret_gradients = gradients;
    return 0;
}

void gradients_free(struct gradients *gradients)
{
    if (!gradients)
        return;
    free(gradients->buffers);
    free(gradients->sums);
    free(gradients->subtrees);
    free(gradients->reduced);
    free(gradients);
}

/* ---- a step ---- */

static unsigned index_of(const struct gradients *gradients, unsigned unit)
{
    assert(unit - gradients->first_unit < gradients->unit_count);
    return unit - gradients->first_unit;
}

static struct lane_sum *sums_of(const struct gradients *gradients, unsigned unit)
{
    return gradients->sums + (size_t)index_of(gradients, unit) * gradients->depth;
}

static float **buffers_of(const struct gradients *gradients, unsigned unit)
{
    return gradients->buffers + (size_t)index_of(gradients, unit) * gradients->depth;
}

void gradients_begin(struct gradients *gradients)
{
    bool adopted = gradients->adopted;

    gradients->adopted = false;
    if (adopted)
        return;
    memset(gradients->sums, 0,
           (size_t)gradients->unit_count * gradients->depth * sizeof(*gradients->sums));
    for (unsigned i = 0; i < gradients->unit_count; i++)
        if (is_trained(gradients, i))
            expect_head(gradients->sums + (size_t)i * gradients->depth, &gradients->passed);
}

bool gradients_has(const struct gradients *gradients, unsigned unit, unsigned lane, unsigned index)
{
    return has(sums_of(gradients, unit), gradients->depth, lane, index);
}

float *gradients_buffer(struct gradients *gradients, unsigned unit, unsigned lane, unsigned index)
{
    const struct state *state = gradients->state;
    const struct lane_sum *sums = sums_of(gradients, unit);

    if (has(sums, gradients->depth, lane, index)) {
        assert(gradients->unread);
        return gradients->unread;
    }
    float *buffer = buffers_of(gradients, unit)[place_of(sums, gradients->depth, lane)];
    if (index == 0)
        state->kernel->zero(state->device, buffer,
                            unit_bytes(gradients, index_of(gradients, unit)));
    return buffer;
}

void gradients_added(struct gradients *gradients, unsigned unit, unsigned lane, unsigned index)
{
    const struct state *state = gradients->state;
    struct lane_sum *sums = sums_of(gradients, unit);
    float **buffers = buffers_of(gradients, unit);
    unsigned left, right;

    if (has(sums, gradients->depth, lane, index))
        return;
    unsigned place = place_of(sums, gradients->depth, lane);
    sums[place] = (struct lane_sum){{lane, 1}, index + 1};
    if (index + 1 < gradients->micro_batches)
        return;
    while (merge(sums, gradients->depth, gradients->lanes, &place, &left, &right))
        state->kernel->tree_add(state->device, buffers[left], buffers[left], buffers[right],
                                state->units[unit].layout.count);
}

float *const *gradients_subtrees(struct gradients *gradients, unsigned unit)
{
    return gradients->subtrees + (size_t)index_of(gradients, unit) * gradients->subtree_count;
}

float *const *gradients_reduced(struct gradients *gradients)
{
    return gradients->reduced;
}

/* ---- sums kept of a step ---- */

void gradients_spoil(struct gradients *gradients, unsigned unit)
{
    memset(sums_of(gradients, unit), 0, gradients->depth * sizeof(*gradients->sums));
}

bool gradients_same_units(const struct gradients *gradients, unsigned first_unit,
                          unsigned unit_count)
{
    return gradients->first_unit == first_unit && gradients->unit_count == unit_count;
}

bool gradients_are_current(const struct gradients *gradients)
{
    return gradients->trained_from == state_frozen_units(gradients->state);
}

static bool covers(const struct gradients *gradients, unsigned unit)
{
    return unit >= gradients->first_unit && unit < gradients->first_unit + gradients->unit_count;
}

unsigned gradients_sums(const struct gradients *gradients, unsigned unit, struct lane_sum *ret_sums)
{
    unsigned count = 0;

    if (gradients->depth > GRADIENTS_SUMS_MAX || !covers(gradients, unit))
        return 0;
    const struct lane_sum *sums = sums_of(gradients, unit);
    for (unsigned i = 0; i < gradients->depth; i++)
        if (sums[i].span.count)
            ret_sums[count++] = sums[i];
    return count;
}

/* Return the place of the sum of @span of @unit; depth: none. */
static unsigned find_sum(const struct gradients *gradients, unsigned unit,
                         struct lane_tree_span span)
{
    const struct lane_sum *sums = sums_of(gradients, unit);
    unsigned k = 0;

    while (k < gradients->depth &&
           (sums[k].span.first != span.first || sums[k].span.count != span.count))
        k++;
    return k;
}

float *gradients_sum(const struct gradients *gradients, unsigned unit, struct lane_tree_span span)
{
    unsigned k = covers(gradients, unit) ? find_sum(gradients, unit, span) : gradients->depth;

    return k < gradients->depth ? buffers_of(gradients, unit)[k] : NULL;
}

void gradients_missed(struct gradients *gradients, unsigned unit, struct lane_tree_span span)
{
    unsigned k = find_sum(gradients, unit, span);

    if (k < gradients->depth)
        sums_of(gradients, unit)[k] = (struct lane_sum){0};
}

void gradients_end_arena(struct gradients *gradients)
{
    arena_end_at(gradients->state->arena, gradients->end);
}
