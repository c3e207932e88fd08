#include "worker/step/sum_copies.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "elastic/job/job_spec.h"
#include "protocol/sum_copies.h"
#include "worker/device/tags.h"
#include "worker/step/bulk_transfer.h"
#include "worker/step/kept_step.h"
#include "worker/step/moved_sums.h"

/* The index of a tag of TAG_COPIES. */
enum copies_message { COPIES_ASKED, COPIES_SENT };

/* One sum on its way. */
struct transfer {
    struct step_sum sum;
    float *data; /* owned, until it is kept */
    struct bulk_transfer messages;
};

/* The sums of one list. */
struct batch {
    struct transfer *list;   /* owned; NULL: nothing is under way */
    unsigned count, done;    /* done: in their order */
    unsigned kept;           /* of a list that arrives */
    struct step_sums losses; /* of a list that arrives; its own list is empty */
};

struct sum_copies {
    struct engine *engine;
    struct copied_sums *kept;
    unsigned keeper, owner;    /* ranks: who keeps this one's, and whose this one keeps */
    uint64_t began_ns, due_ns; /* of the copy under way; of the next one */
    uint64_t links_ns;         /* processor time of the links, when it was begun */
    uint64_t staging_ns;       /* of this thread: the time in which it was staged */
    struct batch sends, receives;
    struct step_sums asked;             /* what the keeper has, when it last asked */
    bool has_asked, stopped, has_ended; /* has_ended: the owner, in this step */
    bool busy; /* in a call, during which the thread may look around and call again */
};

int sum_copies_new(struct engine *engine, struct sum_copies **ret_copies, struct error *error)
{
    const struct plan_layout *layout = &engine->plan->layout;
    unsigned replica = engine->part.replica, stage = engine->part.stage_index;
    unsigned keeper = sum_copies_keeper(layout, replica);

    *ret_copies = NULL;
    if (keeper == replica)
        return 0;
    if (!engine->state->kernel->host_memory)
        return error_set(error, -ENOTSUP,
                         "this worker's device has memory of its own, and the plan wants copies of "
                         "its sums: only CPU slots make them");
    struct sum_copies *copies = calloc(1, sizeof(*copies));
    if (!copies)
        return -ENOMEM;
    copies->engine = engine;
    copies->keeper = plan_layout_rank(layout, keeper, stage);
    copies->owner = plan_layout_rank(layout, sum_copies_owner(layout, replica), stage);
    int status = copied_sums_new(engine->state, &copies->kept);
    if (status)
        free(copies);
    else
        *ret_copies = copies;
    return status;
}

static const struct job_training *training_of(const struct sum_copies *copies)
{
    return &copies->engine->state->spec->train;
}

static unsigned first_unit(const struct sum_copies *copies) /* trained */
{
    return MAX(copies->engine->part.first_unit, copies->engine->part.trained_from);
}

static unsigned end_unit(const struct sum_copies *copies)
{
    return copies->engine->part.first_unit + copies->engine->part.unit_count;
}

static uint64_t list_tag(const struct sum_copies *copies, enum copies_message message)
{
    return tag_make(TAG_COPIES, copies->engine->state->hold.step, message);
}

static uint64_t sum_tag(const struct sum_copies *copies, unsigned index)
{
    return tag_make(TAG_COPY, copies->engine->state->hold.step, index);
}

static size_t sum_bytes(const struct sum_copies *copies, unsigned unit)
{
    return copies->engine->state->units[unit].layout.count * sizeof(float);
}

/* ---- lists ---- */

/* A list that is too large for one message is not sent: *ret_sent tells. */
static int send_list(const struct sum_copies *copies, enum copies_message message,
                     const struct step_sums *sums, bool *ret_sent)
{
    unsigned rank = message == COPIES_ASKED ? copies->owner : copies->keeper;
    CLEANUP(bytes_done) struct bytes bytes = {0};
    struct words_writer writer = {.bytes = &bytes};
    int status = step_sums_pack(sums, training_of(copies)->lanes, &writer);

    *ret_sent = !status && bytes.size_bytes <= MESH_COPY_MAX_BYTES;
    return status || !*ret_sent ? status
                                : mesh_send(copies->engine->mesh, rank, list_tag(copies, message),
                                            bytes.data, bytes.size_bytes, NULL);
}

/* Take a list, if it is here or @waits. */
static int take_list(struct sum_copies *copies, enum copies_message message, bool waits,
                     struct step_sums *sums, bool *ret_taken)
{
    unsigned rank = message == COPIES_ASKED ? copies->keeper : copies->owner;
    AUTO_FREE void *data = NULL;
    size_t size_bytes;
    int status = mesh_receive_any(copies->engine->mesh, rank, list_tag(copies, message),
                                  waits ? UINT64_MAX : 1, &data, &size_bytes);

    *ret_taken = !status;
    if (status)
        return status == -ETIMEDOUT && !waits ? 0 : status;
    struct words_reader reader = {.at = data, .count = size_bytes / 8};
    if (size_bytes % 8)
        return -EBADMSG;
    status = step_sums_unpack(&reader, training_of(copies)->lanes,
                              training_of(copies)->micro_batches_per_lane,
                              copies->engine->state->unit_count, rank, sums);
    return status || !reader.count ? status : -EBADMSG;
}

/* ---- batches ---- */

static int make_batch(struct sum_copies *copies, const struct step_sums *sums, struct batch *batch)
{
    batch->list = calloc(sums->count, sizeof(*batch->list));
    if (!batch->list)
        return -ENOMEM;
    for (; batch->count < sums->count; batch->count++) {
        struct transfer *transfer = &batch->list[batch->count];
        transfer->sum = sums->list[batch->count];
        transfer->data = copied_sums_take_buffer(copies->kept, transfer->sum.unit);
        if (!transfer->data)
            return -ENOMEM;
    }
    return 0;
}

static bool is_under_way(const struct batch *batch)
{
    return batch->done < batch->count;
}

/* End a batch: all that was posted is through, or the mesh has failed. */
static void end_batch(struct sum_copies *copies, struct batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++) {
        bulk_transfer_close(&batch->list[i].messages);
        copied_sums_return_buffer(copies->kept, batch->list[i].sum.unit, batch->list[i].data);
    }
    free(batch->list);
    step_sums_done(&batch->losses);
    *batch = (struct batch){0};
}

/* Note what is through, in its order. Return: as mesh_wait() */
static int settle(struct batch *batch, bool waits)
{
    int status = 0;

    while (!status && is_under_way(batch)) {
        struct bulk_transfer *messages = &batch->list[batch->done].messages;
        status = bulk_transfer_settle(messages, waits);
        if (status || !bulk_transfer_is_done(messages))
            break;
        batch->done++;
    }
    return status;
}

/* ---- the keeper ---- */

static int ask(struct sum_copies *copies)
{
    CLEANUP(step_sums_done) struct step_sums has = {0};
    const struct step_sums nothing = {0};
    bool sent;
    int status =
        copied_sums_list(copies->kept, first_unit(copies), end_unit(copies), 0, false, &has);

    if (!status)
        status = send_list(copies, COPIES_ASKED, &has, &sent);
    return status || sent ? status : send_list(copies, COPIES_ASKED, &nothing, &sent);
}

static int receive_batch(struct sum_copies *copies, struct step_sums *sums)
{
    struct batch *batch = &copies->receives;
    int status = 0;

    for (unsigned i = 0; i < sums->count; i++)
        if (sums->list[i].unit < first_unit(copies) || sums->list[i].unit >= end_unit(copies))
            return -EBADMSG;
    status = make_batch(copies, sums, batch);
    for (unsigned i = 0; !status && i < batch->count; i++)
        status = bulk_transfer_receive(&batch->list[i].messages, copies->engine->mesh,
                                       copies->owner, sum_tag(copies, i), batch->list[i].data,
                                       sum_bytes(copies, batch->list[i].sum.unit));
    batch->losses.losses = sums->losses;
    sums->losses = NULL;
    return status;
}

/* Keep the sums that have arrived since the last call, and the losses when all have. */
static int keep_arrived(struct sum_copies *copies)
{
    struct batch *batch = &copies->receives;
    int status = 0;

    for (; !status && batch->kept < batch->done; batch->kept++) {
        struct transfer *transfer = &batch->list[batch->kept];
        status = copied_sums_keep(copies->kept, &transfer->sum, transfer->data);
        transfer->data = NULL;
    }
    if (!status && batch->list && !is_under_way(batch))
        status = copied_sums_keep_losses(copies->kept, &batch->losses);
    return status;
}

/* Receive what the owner has sent. */
static int advance_keeper(struct sum_copies *copies, bool waits)
{
    CLEANUP(step_sums_done) struct step_sums sums = {0};
    bool taken = false;
    int status = 0;

    if (!copies->receives.list && !copies->has_ended)
        status = take_list(copies, COPIES_SENT, waits, &sums, &taken);
    copies->has_ended = copies->has_ended || (taken && !sums.count);
    if (!status && sums.count > 0)
        status = receive_batch(copies, &sums);
    if (!status)
        status = settle(&copies->receives, waits);
    if (!status)
        status = keep_arrived(copies);
    if (status || !copies->receives.list || is_under_way(&copies->receives))
        return status;
    end_batch(copies, &copies->receives);
    return ask(copies);
}

/* ---- the owner ---- */

static unsigned threads_of(const struct sum_copies *copies)
{
    return MAX(1u, copies->engine->state->thread_count);
}

/* @from_ns: as of sum_copies_due_ns() */
static void await_due(struct sum_copies *copies, uint64_t from_ns)
{
    copies->due_ns = sum_copies_due_ns(&copies->engine->plan->layout, from_ns,
                                       &copies->engine->state->copy_cost);
}

/* What the links took is not known where their thread has ended. */
static void note_cost(struct sum_copies *copies)
{
    uint64_t now_ns = mesh_thread_ns(copies->engine->mesh);
    bool is_known = copies->links_ns && now_ns > copies->links_ns;

    copies->engine->state->copy_cost.cost_ns =
        copies->staging_ns + (is_known ? (now_ns - copies->links_ns) / threads_of(copies) : 0);
}

/* A head that another replica passes on is in its buffer once this one has gone on with it. */
static bool may_be_missing(const struct engine *engine, const struct lane_sum *sum)
{
    const struct step_division *division = engine->share.division;
    unsigned lane = sum->span.first, head = division->heads[lane];

    return sum->span.count == 1 && head > 0 && sum->micro_batches == head &&
           division->owners[lane] == engine->part.replica;
}

static int list_own(const struct sum_copies *copies, struct step_sums *own)
{
    const struct engine *engine = copies->engine;
    struct lane_sum found[GRADIENTS_SUMS_MAX];
    int status = 0;

    for (unsigned unit = first_unit(copies); unit < end_unit(copies); unit++) {
        unsigned count = gradients_sums(engine->gradients, unit, found);
        for (unsigned i = 0; !status && i < count; i++)
            if (!may_be_missing(engine, &found[i]))
                status =
                    step_sums_add(own, &(struct step_sum){.unit = unit,
                                                          .source = engine->part.rank,
                                                          .span = found[i].span,
                                                          .micro_batches = found[i].micro_batches});
    }
    return status;
}

static int send_batch(struct sum_copies *copies)
{
    const struct engine *engine = copies->engine;
    struct batch *batch = &copies->sends;
    int status = 0;

    for (unsigned i = 0; !status && i < batch->count; i++) {
        struct transfer *transfer = &batch->list[i];
        size_t size_bytes = sum_bytes(copies, transfer->sum.unit);
        engine->state->kernel->copy(
            engine->state->device, transfer->data,
            gradients_sum(engine->gradients, transfer->sum.unit, transfer->sum.span), size_bytes);
        status = bulk_transfer_send(&transfer->messages, engine->mesh, copies->keeper,
                                    sum_tag(copies, i), transfer->data, size_bytes);
    }
    return status;
}

/* Copy what the keeper lacks. Without memory or with too much for a list nothing is copied now. */
static int copy_missing(struct sum_copies *copies)
{
    CLEANUP(step_sums_done) struct step_sums own = {0}, missing = {0};
    uint64_t now_ns = clock_monotonic_ns();
    bool sent = false;
    int status = list_own(copies, &own);

    if (!status)
        status = sum_copies_missing(&own, &copies->asked, &missing);
    if (!status && missing.count > 0 && engine_is_last_stage(copies->engine))
        status = kept_step_losses_of(copies->engine, &missing);
    await_due(copies, now_ns);
    if (status || !missing.count)
        return status;
    if (!make_batch(copies, &missing, &copies->sends))
        status = send_list(copies, COPIES_SENT, &missing, &sent);
    if (status || !sent) {
        end_batch(copies, &copies->sends);
        return status;
    }
    copies->has_asked = false;
    copies->began_ns = now_ns;
    copies->links_ns = mesh_thread_ns(copies->engine->mesh);
    status = send_batch(copies);
    copies->staging_ns = clock_monotonic_ns() - now_ns;
    copies->engine->state->copy_cost.began_ns = now_ns; /* it costs as much as the last, so far */
    return status;
}

static bool may_copy(const struct sum_copies *copies)
{
    const struct moved_sums *moved = copies->engine->arrivals.sums;

    return copies->has_asked && !copies->stopped && !copies->sends.list &&
           clock_monotonic_ns() >= copies->due_ns && (!moved || moved_sums_have_arrived(moved));
}

static int take_request(struct sum_copies *copies, bool waits)
{
    CLEANUP(step_sums_done) struct step_sums asked = {0};
    bool taken;
    int status = take_list(copies, COPIES_ASKED, waits, &asked, &taken);

    if (status || !taken)
        return status;
    step_sums_done(&copies->asked);
    copies->asked = asked;
    asked = (struct step_sums){0};
    copies->has_asked = true;
    return 0;
}

static int advance_owner(struct sum_copies *copies, bool waits)
{
    int status = settle(&copies->sends, waits);

    if (!status && copies->sends.list && !is_under_way(&copies->sends)) {
        note_cost(copies);
        await_due(copies, copies->began_ns);
        end_batch(copies, &copies->sends);
    }
    if (!status && !copies->has_asked)
        status = take_request(copies, waits);
    return !status && may_copy(copies) ? copy_missing(copies) : status;
}

/* ---- a step ---- */

void sum_copies_adopt(struct sum_copies *copies, struct copied_sums *kept)
{
    if (!copies || !kept) {
        copied_sums_free(kept);
        return;
    }
    copied_sums_free(copies->kept);
    copies->kept = kept;
}

int sum_copies_begin(struct sum_copies *copies)
{
    if (!copies)
        return 0;
    bool goes_on = copies->engine->share.division->step == copies->engine->state->hold.step;
    copied_sums_begin(copies->kept);
    copied_sums_drop_others(copies->kept, copies->engine->share.division,
                            copies->owner / copies->engine->plan->layout.stage_count);
    step_sums_done(&copies->asked);
    copies->has_asked = copies->stopped = copies->has_ended = false;
    await_due(copies, goes_on ? 0 : clock_monotonic_ns());
    return ask(copies);
}

int sum_copies_advance(struct sum_copies *copies)
{
    if (!copies || copies->busy)
        return 0;
    copies->busy = true;
    int status = advance_keeper(copies, false);
    if (!status)
        status = advance_owner(copies, false);
    copies->busy = false;
    if (status && !mesh_broken(copies->engine->mesh)) {
        char reason[96];
        snprintf(reason, sizeof(reason), "copying sums failed: %s", strerror(-status));
        mesh_abort(copies->engine->mesh, reason);
    }
    return status;
}

void sum_copies_stop(struct sum_copies *copies)
{
    if (copies)
        copies->stopped = true;
}

/* All end their parts as owners first, and then wait as keepers: nobody waits for one that waits.
 */
int sum_copies_finish(struct sum_copies *copies)
{
    const struct step_sums nothing = {0};
    bool sent;

    if (!copies)
        return 0;
    copies->busy = copies->stopped = true;
    int status = send_list(copies, COPIES_SENT, &nothing, &sent);
    while (!status && (!copies->has_ended || copies->receives.list))
        status = advance_keeper(copies, true);
    if (!status)
        status = advance_owner(copies, true);
    copies->busy = false;
    return status;
}

/* ---- the end ---- */

void sum_copies_close(struct sum_copies *copies)
{
    if (!copies)
        return;
    if (is_under_way(&copies->sends) || is_under_way(&copies->receives))
        mesh_abort(copies->engine->mesh, "a step was given up"); /* nothing, if it has failed */
    (void)settle(&copies->receives, true); /* what has arrived before the links broke is good */
    (void)keep_arrived(copies);
    end_batch(copies, &copies->sends);
    end_batch(copies, &copies->receives);
}

bool sum_copies_keeps_any(const struct sum_copies *copies)
{
    return copies && copies->kept && copied_sums_count(copies->kept) > 0;
}

struct copied_sums *sum_copies_take(struct sum_copies *copies)
{
    struct copied_sums *kept = copies ? copies->kept : NULL;

    if (copies)
        copies->kept = NULL;
    return kept;
}

void sum_copies_free(struct sum_copies *copies)
{
    if (!copies)
        return;
    copied_sums_free(copies->kept);
    step_sums_done(&copies->asked);
    free(copies);
}
