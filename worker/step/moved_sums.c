#include "worker/step/moved_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/job/job_spec.h"
#include "worker/device/tags.h"
#include "worker/step/bulk_transfer.h"

/* The index of a tag of TAG_SUMS, but for the sums themselves. */
enum sums_message { SUMS_OFFER, SUMS_WANTED, SUMS_RELEASE };

/* One sum on its way. */
struct transfer {
    const struct step_sum *sum; /* of a receive: in moved->sums */
    struct bulk_transfer messages;
};

struct transfers {
    struct transfer *list; /* owned */
    unsigned count, room, done;
};

struct moved_sums {
    struct state *state;
    const struct plan *plan;
    struct mesh *mesh;
    const struct kept_step *kept;
    const struct copied_sums *copies; /* of other ranks' sums, here; NULL: none */
    bool copies_are_in;               /* the chosen ones have been put into the gradients */
    unsigned rank, pair_count;
    uint64_t step;
    struct step_sums sums; /* own and offered ones */
    struct transfers sends, receives;
    bool *asked_by; /* per pair of the plan: this rank has to wait for its release */
    bool released;  /* the donors */
    bool waits;     /* in a call, during which the thread looks around and calls again */
};

static const struct job_training *training_of(const struct moved_sums *moved)
{
    return &moved->state->spec->train;
}

static size_t unit_bytes(const struct moved_sums *moved, unsigned unit)
{
    return moved->state->units[unit].layout.count * sizeof(float);
}

static uint64_t tag_of(const struct moved_sums *moved, enum sums_message message)
{
    return tag_make(TAG_SUMS, moved->step, message);
}

static uint64_t sum_tag(const struct moved_sums *moved, unsigned unit)
{
    return tag_make(TAG_SUM, moved->step, unit);
}

static const struct plan_move *pair_of(const struct moved_sums *moved, unsigned index)
{
    return &moved->plan->start.sums[index];
}

static bool is_worker(const struct moved_sums *moved, unsigned rank)
{
    return rank < moved->plan->layout.worker_count;
}

static struct step_sums_range range_of(const struct moved_sums *moved, unsigned rank)
{
    const struct plan_layout *layout = &moved->plan->layout;
    const unsigned *first = &layout->stage_first_unit[rank % layout->stage_count];

    return (struct step_sums_range){first[0], first[1]};
}

static bool is_last_stage(const struct moved_sums *moved, unsigned rank)
{
    return range_of(moved, rank).end_unit == moved->state->unit_count;
}

/* ---- offers ---- */

/* List what this rank has of the stage of @to_rank, unless the stage is its own. */
static int list_offer(const struct moved_sums *moved, unsigned to_rank, struct step_sums *offer)
{
    struct step_sums_range range = range_of(moved, to_rank);
    bool last = is_last_stage(moved, to_rank);
    int status = 0;

    if (!moved->kept || !moved->state->kernel->host_memory)
        return 0;
    if (!is_worker(moved, moved->rank))
        status = kept_step_list(moved->kept, &range, moved->rank, offer);
    else {
        struct step_sums_range own = range_of(moved, moved->rank);
        struct step_sums_range before = {range.first_unit, MIN(range.end_unit, own.first_unit)};
        struct step_sums_range behind = {MAX(range.first_unit, own.end_unit), range.end_unit};
        last = last && !is_last_stage(moved, moved->rank);
        status = kept_step_list(moved->kept, &before, moved->rank, offer);
        if (!status)
            status = kept_step_list(moved->kept, &behind, moved->rank, offer);
    }
    return !status && last && offer->count > 0 ? kept_step_list_losses(moved->kept, offer) : status;
}

static int send_message(const struct moved_sums *moved, unsigned rank, enum sums_message message,
                        const struct step_sums *sums)
{
    CLEANUP(bytes_done) struct bytes bytes = {0};
    struct words_writer writer = {.bytes = &bytes};
    int status = step_sums_pack(sums, training_of(moved)->lanes, &writer);

    return status ? status
                  : mesh_send(moved->mesh, rank, tag_of(moved, message), bytes.data,
                              bytes.size_bytes, NULL);
}

/* An offer that is too large for one message is none. */
static bool is_too_large(const struct moved_sums *moved, const struct step_sums *offer)
{
    size_t words = 2 + 4 * (size_t)offer->count + 3 * (size_t)training_of(moved)->lanes;

    return words * sizeof(uint64_t) > MESH_COPY_MAX_BYTES;
}

static int send_offers(const struct moved_sums *moved)
{
    int status = 0;

    for (unsigned i = 0; !status && i < moved->pair_count; i++) {
        CLEANUP(step_sums_done) struct step_sums offer = {0};
        if (pair_of(moved, i)->from_rank != moved->rank)
            continue;
        status = list_offer(moved, pair_of(moved, i)->to_rank, &offer);
        if (!status && is_too_large(moved, &offer))
            step_sums_done(&offer);
        if (!status)
            status = send_message(moved, pair_of(moved, i)->to_rank, SUMS_OFFER, &offer);
    }
    return status;
}

static int receive_message(const struct moved_sums *moved, unsigned rank, enum sums_message message,
                           struct step_sums *sums)
{
    AUTO_FREE void *data = NULL;
    size_t size_bytes;
    int status =
        mesh_receive_any(moved->mesh, rank, tag_of(moved, message), UINT64_MAX, &data, &size_bytes);
    struct words_reader reader = {.at = data, .count = size_bytes / 8};

    if (status)
        return status;
    if (size_bytes % 8)
        return -EBADMSG;
    status = step_sums_unpack(&reader, training_of(moved)->lanes,
                              training_of(moved)->micro_batches_per_lane, moved->state->unit_count,
                              rank, sums);
    return status || !reader.count ? status : -EBADMSG;
}

/* Return whether the device has room for all that is offered; nothing is taken otherwise. */
static bool has_room(const struct moved_sums *moved, const struct step_sums *offers)
{
    const struct plan_layout *layout = &moved->plan->layout;
    const struct memory_need need = memory_need(moved->state, layout, moved->rank, true);
    size_t arena_bytes = kept_step_arena_bytes(moved->kept, layout, moved->rank, &need);
    size_t more_bytes = arena_bytes - memory_arena_bytes(&need);

    for (unsigned i = 0; i < offers->count; i++)
        more_bytes += arena_part_bytes(unit_bytes(moved, offers->list[i].unit));
    return moved->state->kernel->host_memory && arena_bytes < SIZE_MAX &&
           memory_has_room(moved->state, &need, more_bytes);
}

static bool is_in(const struct step_sums_range *range, unsigned unit)
{
    return unit >= range->first_unit && unit < range->end_unit;
}

static int add_offers(struct moved_sums *moved, const struct step_sums *offers)
{
    struct step_sums_range own = range_of(moved, moved->rank);
    int status = 0;

    for (unsigned i = 0; !status && i < offers->count; i++) {
        if (!is_in(&own, offers->list[i].unit))
            return -EBADMSG;
        if (offers->list[i].unit >= state_frozen_units(moved->state))
            status = step_sums_add(&moved->sums, &offers->list[i]);
    }
    if (!status && offers->losses && !moved->sums.losses)
        status = step_sums_make_losses(&moved->sums, training_of(moved)->lanes);
    if (!status && offers->losses)
        step_sums_merge_losses(&moved->sums, offers, training_of(moved)->lanes);
    return status;
}

static int receive_offers(struct moved_sums *moved)
{
    CLEANUP(step_sums_done) struct step_sums offers = {0};
    int status = 0;

    for (unsigned i = 0; !status && i < moved->pair_count; i++)
        if (pair_of(moved, i)->to_rank == moved->rank)
            status = receive_message(moved, pair_of(moved, i)->from_rank, SUMS_OFFER, &offers);
    return status || !offers.count || !has_room(moved, &offers) ? status
                                                                : add_offers(moved, &offers);
}

/* Copies count like sums that this rank offers to itself. */
static int list_own(struct moved_sums *moved)
{
    struct step_sums_range own = range_of(moved, moved->rank);
    unsigned trained = MAX(own.first_unit, state_frozen_units(moved->state));
    bool last = is_last_stage(moved, moved->rank);
    int status = moved->kept ? kept_step_list(moved->kept, &own, moved->rank, &moved->sums) : 0;

    if (!status && moved->kept && last)
        status = kept_step_list_losses(moved->kept, &moved->sums);
    return status ? status
                  : copied_sums_list(moved->copies, trained, own.end_unit, moved->rank, last,
                                     &moved->sums);
}

static int exchange_offers(struct moved_sums *moved)
{
    int status = send_offers(moved);

    if (status || !is_worker(moved, moved->rank))
        return status;
    status = list_own(moved);
    return status ? status : receive_offers(moved);
}

int moved_sums_new(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                   const struct kept_step *kept, bool begins, struct moved_sums **ret_moved)
{
    struct moved_sums *moved = calloc(1, sizeof(*moved));
    bool current = kept && kept_step_is_current(kept, state);

    if (!moved)
        return -ENOMEM;
    *moved =
        (struct moved_sums){.state = state,
                            .plan = plan,
                            .mesh = mesh,
                            .kept = current ? kept : NULL,
                            .copies = current ? kept_step_copies(kept) : NULL,
                            .rank = rank,
                            .pair_count = begins ? plan->start.sums_count : 0,
                            .step = state->applied_step + 1,
                            .asked_by = calloc((size_t)plan->start.sums_count + 1, sizeof(bool))};
    int status = moved->asked_by ? exchange_offers(moved) : -ENOMEM;
    if (status)
        moved_sums_close(moved, NULL);
    else
        *ret_moved = moved;
    return status;
}

static struct step_sums_stage stage_of(const struct moved_sums *moved)
{
    struct step_sums_range own = range_of(moved, moved->rank);

    return (struct step_sums_stage){MAX(own.first_unit, state_frozen_units(moved->state)),
                                    own.end_unit, is_last_stage(moved, moved->rank)};
}

int moved_sums_facts(struct moved_sums *moved, struct step_facts *ret_facts)
{
    const struct step_sums_stage stage = stage_of(moved);

    return step_sums_facts(&moved->sums, &stage, training_of(moved)->lanes,
                           training_of(moved)->micro_batches_per_lane, ret_facts);
}

const struct step_sums *moved_sums_list(const struct moved_sums *moved)
{
    return &moved->sums;
}

/* ---- on their way ---- */

static struct bulk_transfer *add_transfer(struct transfers *transfers, const struct step_sum *sum)
{
    if (transfers->count == transfers->room) {
        unsigned room = 2 * transfers->room + 16;
        struct transfer *grown = realloc(transfers->list, room * sizeof(*grown));
        if (!grown)
            return NULL;
        transfers->list = grown;
        transfers->room = room;
    }
    struct transfer *transfer = &transfers->list[transfers->count++];
    *transfer = (struct transfer){.sum = sum};
    return &transfer->messages;
}

static int send_sum(struct moved_sums *moved, unsigned rank, const struct step_sum *sum)
{
    const float *data = moved->kept ? kept_step_sum(moved->kept, sum) : NULL;
    struct bulk_transfer *transfer = data ? add_transfer(&moved->sends, NULL) : NULL;

    if (!transfer)
        return data ? -ENOMEM : -EBADMSG;
    return bulk_transfer_send(transfer, moved->mesh, rank, sum_tag(moved, sum->unit), data,
                              unit_bytes(moved, sum->unit));
}

static int receive_sum(struct moved_sums *moved, const struct step_sum *sum, float *data)
{
    struct bulk_transfer *transfer = add_transfer(&moved->receives, sum);

    if (!transfer)
        return -ENOMEM;
    return bulk_transfer_receive(transfer, moved->mesh, sum->source, sum_tag(moved, sum->unit),
                                 data, unit_bytes(moved, sum->unit));
}

/* Ask each rank that has offered for what this one goes on with; backward needs the last units
 * first. */
static int ask(struct moved_sums *moved)
{
    int status = 0;

    for (unsigned i = 0; !status && i < moved->pair_count; i++) {
        CLEANUP(step_sums_done) struct step_sums wanted = {0};
        const struct plan_move *pair = pair_of(moved, i);
        if (pair->to_rank != moved->rank)
            continue;
        for (unsigned k = moved->sums.count; !status && k-- > 0;)
            if (moved->sums.list[k].chosen && moved->sums.list[k].offered &&
                moved->sums.list[k].source == pair->from_rank)
                status = step_sums_add(&wanted, &moved->sums.list[k]);
        if (!status)
            status = send_message(moved, pair->from_rank, SUMS_WANTED, &wanted);
    }
    return status;
}

static int give(struct moved_sums *moved)
{
    int status = 0;

    for (unsigned i = 0; !status && i < moved->pair_count; i++) {
        CLEANUP(step_sums_done) struct step_sums wanted = {0};
        unsigned to_rank = pair_of(moved, i)->to_rank;
        if (pair_of(moved, i)->from_rank != moved->rank)
            continue;
        status = receive_message(moved, to_rank, SUMS_WANTED, &wanted);
        moved->asked_by[i] = wanted.count > 0;
        for (unsigned k = 0; !status && k < wanted.count; k++)
            status = send_sum(moved, to_rank, &wanted.list[k]);
    }
    moved->kept = NULL;
    return status;
}

/* Choose what the division lets this rank go on with. */
static int choose(struct moved_sums *moved, const struct step_division *division)
{
    const struct step_sums_stage stage = stage_of(moved);
    unsigned replica = moved->rank / moved->plan->layout.stage_count;

    if (!division->step) {
        step_sums_done(&moved->sums);
        return 0;
    }
    step_sums_choose(&moved->sums, division, replica);
    return step_sums_suffice(&moved->sums, &stage, division, replica) ? 0 : -EBADMSG;
}

int moved_sums_settle(struct moved_sums *moved, const struct step_division *division)
{
    int status = division ? choose(moved, division) : 0;

    if (!status && division)
        status = ask(moved);
    return status ? status : give(moved);
}

/* Put the chosen copies of this rank into the gradients. */
static void put_copies(struct moved_sums *moved, const struct gradients *gradients)
{
    const struct kernel *kernel = moved->state->kernel;

    for (unsigned k = 0; k < moved->sums.count; k++) {
        const struct step_sum *sum = &moved->sums.list[k];
        if (sum->chosen && sum->copied)
            kernel->copy(moved->state->device, gradients_sum(gradients, sum->unit, sum->span),
                         copied_sums_data(moved->copies, sum), unit_bytes(moved, sum->unit));
    }
    moved->copies = NULL;
    moved->copies_are_in = true;
}

int moved_sums_arrive(struct moved_sums *moved, const struct gradients *gradients)
{
    int status = 0;

    put_copies(moved, gradients);
    for (unsigned k = moved->sums.count; !status && k-- > 0;) {
        const struct step_sum *sum = &moved->sums.list[k];
        if (sum->chosen && sum->offered && !sum->copied)
            status = receive_sum(moved, sum, gradients_sum(gradients, sum->unit, sum->span));
    }
    return status ? status : moved_sums_advance(moved);
}

/* ---- waiting ---- */

static int advance(struct transfers *transfers)
{
    int status = 0;

    while (!status && transfers->done < transfers->count) {
        struct bulk_transfer *transfer = &transfers->list[transfers->done].messages;
        status = bulk_transfer_settle(transfer, false);
        if (status || !bulk_transfer_is_done(transfer))
            break;
        transfers->done++;
    }
    return status;
}

bool moved_sums_have_arrived(const struct moved_sums *moved)
{
    return moved->receives.done == moved->receives.count;
}

bool moved_sums_are_over(const struct moved_sums *moved)
{
    return moved_sums_have_arrived(moved) && moved->sends.done == moved->sends.count;
}

/* A donor waits for those alone that have asked it for something. */
static int release_donors(struct moved_sums *moved)
{
    int status = 0;

    for (unsigned i = 0; !status && i < moved->pair_count; i++) {
        const struct plan_move *pair = pair_of(moved, i);
        if (pair->to_rank == moved->rank && !is_worker(moved, pair->from_rank) &&
            step_sums_chosen(&moved->sums, pair->from_rank) > 0)
            status =
                mesh_send(moved->mesh, pair->from_rank, tag_of(moved, SUMS_RELEASE), "", 0, NULL);
    }
    moved->released = true;
    return status;
}

int moved_sums_advance(struct moved_sums *moved)
{
    if (moved->waits)
        return 0;
    int status = advance(&moved->receives);

    if (!status)
        status = advance(&moved->sends);
    if (!status && moved_sums_have_arrived(moved) && !moved->released)
        status = release_donors(moved);
    return status;
}

int moved_sums_await_unit(struct moved_sums *moved, unsigned unit)
{
    int status = 0;

    moved->waits = true;
    for (unsigned i = moved->receives.done; !status && i < moved->receives.count; i++)
        if (moved->receives.list[i].sum->unit == unit)
            status = bulk_transfer_settle(&moved->receives.list[i].messages, true);
    moved->waits = false;
    return status;
}

int moved_sums_await_release(struct moved_sums *moved)
{
    int status = 0;

    for (unsigned i = 0; !status && i < moved->sends.count; i++)
        status = bulk_transfer_settle(&moved->sends.list[i].messages, true);
    for (unsigned i = 0; !status && i < moved->pair_count; i++) {
        AUTO_FREE void *data = NULL;
        size_t size_bytes;
        if (moved->asked_by[i])
            status = mesh_receive_any(moved->mesh, pair_of(moved, i)->to_rank,
                                      tag_of(moved, SUMS_RELEASE), UINT64_MAX, &data, &size_bytes);
    }
    return status;
}

/* ---- the end ---- */

/* Wait for all that was posted. */
static void close_transfers(struct transfers *transfers)
{
    for (unsigned i = 0; i < transfers->count; i++)
        bulk_transfer_close(&transfers->list[i].messages);
}

static bool has_arrived(const struct moved_sums *moved, const struct step_sum *sum)
{
    if (sum->copied)
        return moved->copies_are_in;
    for (unsigned i = 0; i < moved->receives.count; i++)
        if (moved->receives.list[i].sum == sum)
            return bulk_transfer_is_done(&moved->receives.list[i].messages);
    return false;
}

void moved_sums_close(struct moved_sums *moved, struct gradients *gradients)
{
    if (!moved)
        return;
    close_transfers(&moved->sends);
    close_transfers(&moved->receives);
    for (unsigned i = 0; gradients && i < moved->sums.count; i++) {
        const struct step_sum *sum = &moved->sums.list[i];
        if (sum->chosen && sum->offered && !has_arrived(moved, sum))
            gradients_missed(gradients, sum->unit, sum->span);
    }
    free(moved->sends.list);
    free(moved->receives.list);
    step_sums_done(&moved->sums);
    free(moved->asked_by);
    free(moved);
}
