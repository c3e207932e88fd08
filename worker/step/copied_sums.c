#include "worker/step/copied_sums.h"

#include <errno.h>
#include <stdlib.h>

#include "elastic/job/job_spec.h"
#include "protocol/sum_copies.h"

#define ALIGNMENT_BYTES 64

struct copy {
    struct step_sum sum;
    float *data; /* owned */
};

struct copied_sums {
    const struct state *state;
    uint64_t step;
    struct copy *list, *spare; /* spare: only the unit counts */
    unsigned count, room, spare_count, spare_room;
    struct step_sums losses; /* its list is empty */
};

int copied_sums_new(const struct state *state, struct copied_sums **ret_copies)
{
    struct copied_sums *copies = calloc(1, sizeof(*copies));

    if (!copies)
        return -ENOMEM;
    copies->state = state;
    *ret_copies = copies;
    return 0;
}

static bool has_room(struct copy **list, unsigned count, unsigned *room)
{
    if (count < *room)
        return true;
    struct copy *grown = realloc(*list, (2 * *room + 16) * sizeof(*grown));
    if (!grown)
        return false;
    *list = grown;
    *room = 2 * *room + 16;
    return true;
}

void copied_sums_free(struct copied_sums *copies)
{
    if (!copies)
        return;
    for (unsigned i = 0; i < copies->count; i++)
        free(copies->list[i].data);
    for (unsigned i = 0; i < copies->spare_count; i++)
        free(copies->spare[i].data);
    step_sums_done(&copies->losses);
    free(copies->list);
    free(copies->spare);
    free(copies);
}

void copied_sums_begin(struct copied_sums *copies)
{
    uint64_t step = copies->state->applied_step + 1;

    if (copies->step == step)
        return;
    for (unsigned i = 0; i < copies->count; i++)
        copied_sums_return_buffer(copies, copies->list[i].sum.unit, copies->list[i].data);
    copies->count = 0;
    step_sums_done(&copies->losses);
    copies->step = step;
}

/* ---- buffers ---- */

float *copied_sums_take_buffer(struct copied_sums *copies, unsigned unit)
{
    size_t size_bytes = copies->state->units[unit].layout.count * sizeof(float);
    void *buffer;

    for (unsigned i = 0; i < copies->spare_count; i++) {
        if (copies->spare[i].sum.unit != unit)
            continue;
        float *spare = copies->spare[i].data;
        copies->spare[i] = copies->spare[--copies->spare_count];
        return spare;
    }
    return posix_memalign(&buffer, ALIGNMENT_BYTES, size_bytes) ? NULL : buffer;
}

void copied_sums_return_buffer(struct copied_sums *copies, unsigned unit, float *buffer)
{
    if (!has_room(&copies->spare, copies->spare_count, &copies->spare_room))
        free(buffer);
    else if (buffer)
        copies->spare[copies->spare_count++] = (struct copy){.sum.unit = unit, .data = buffer};
}

/* ---- copies ---- */

static void drop(struct copied_sums *copies, unsigned index)
{
    copied_sums_return_buffer(copies, copies->list[index].sum.unit, copies->list[index].data);
    copies->list[index] = copies->list[--copies->count];
}

/* Drop the copies that are of no use beside @sum. */
static void drop_replaced(struct copied_sums *copies, const struct step_sum *sum)
{
    for (unsigned i = copies->count; i-- > 0;)
        if (sum_copies_replaces(sum, &copies->list[i].sum))
            drop(copies, i);
}

void copied_sums_drop_others(struct copied_sums *copies, const struct step_division *division,
                             unsigned replica)
{
    for (unsigned i = copies->count; i-- > 0;)
        if (!sum_copies_are_of_use(division, copies->list[i].sum.span, replica))
            drop(copies, i);
}

unsigned copied_sums_count(const struct copied_sums *copies)
{
    return copies->count;
}

int copied_sums_keep(struct copied_sums *copies, const struct step_sum *sum, float *buffer)
{
    if (!has_room(&copies->list, copies->count, &copies->room)) {
        copied_sums_return_buffer(copies, sum->unit, buffer);
        return -ENOMEM;
    }
    drop_replaced(copies, sum);
    copies->list[copies->count++] = (struct copy){*sum, buffer};
    return 0;
}

int copied_sums_keep_losses(struct copied_sums *copies, const struct step_sums *sums)
{
    unsigned lanes = copies->state->spec->train.lanes;

    if (!sums->losses)
        return 0;
    int status = step_sums_make_losses(&copies->losses, lanes);
    if (!status)
        step_sums_merge_losses(&copies->losses, sums, lanes);
    return status;
}

static int list_losses(const struct copied_sums *copies, struct step_sums *sums)
{
    unsigned lanes = copies->state->spec->train.lanes;
    int status = step_sums_make_losses(sums, lanes);

    if (!status)
        step_sums_merge_losses(sums, &copies->losses, lanes);
    return status;
}

int copied_sums_list(const struct copied_sums *copies, unsigned first_unit, unsigned end_unit,
                     unsigned rank, bool losses, struct step_sums *sums)
{
    int status = 0;

    if (!copies || copies->step != copies->state->applied_step + 1)
        return 0;
    for (unsigned i = 0; !status && i < copies->count; i++) {
        struct step_sum sum = copies->list[i].sum;
        sum.source = rank;
        sum.offered = sum.copied = true;
        sum.chosen = false;
        if (sum.unit >= first_unit && sum.unit < end_unit)
            status = step_sums_add(sums, &sum);
    }
    return !status && losses && copies->losses.losses ? list_losses(copies, sums) : status;
}

const float *copied_sums_data(const struct copied_sums *copies, const struct step_sum *sum)
{
    for (unsigned i = 0; i < copies->count; i++) {
        const struct step_sum *kept = &copies->list[i].sum;
        if (kept->unit == sum->unit && kept->span.first == sum->span.first &&
            kept->span.count == sum->span.count)
            return copies->list[i].data;
    }
    return NULL;
}
