#include "worker/state/handover.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "protocol/unit_arrivals.h"
#include "worker/device/tags.h"

#define ARRAYS_MAX    3                 /* parameters and two moments */
#define MESSAGE_BYTES ((size_t)4 << 20) /* a message of the step waits for at most one of these */
#define STAGED_BYTES  ((size_t)128 << 20)

/* An array of a unit, copied to host memory if device memory is separate: one copy serves all
 * receivers. */
struct copy {
    void *data;
    unsigned users;
};

/* One array of one unit on its way to or from another rank. */
struct transfer {
    const struct plan_move *move;
    unsigned array;                 /* 0: the parameters */
    struct copy *copy;              /* NULL: from or into the unit itself */
    struct mesh_request **requests; /* owned, of its messages, ended by NULL; NULL: not posted
                                       yet */
    unsigned done;                  /* completed messages */
    bool drops;                     /* the unit is held already: receive and drop */
};

/* All transfers of one direction, in the order in which all ranks post them: arrays, then units. */
struct transfers {
    struct transfer *list;
    unsigned count, posted, done; /* transfers before `posted` are posted, those before `done` are
                                     completed */
    size_t staged_bytes;          /* posted and not completed */
};

struct handover {
    struct state *state;
    const struct plan *plan;
    unsigned rank;
    struct mesh *mesh;
    unsigned taken; /* memory is taken for the moves to this rank before this one */
    struct transfers sends, receives;
    struct unit_arrivals arrivals;
    bool waits;  /* a call is waiting, and advances the transfers */
    int failure; /* the first error; 0: none */
};

static const struct plan_move *move_of(const struct handover *handover, unsigned index)
{
    return &handover->plan->start.moves[index];
}

static void *unit_array(const struct state *state, unsigned unit, unsigned array)
{
    const struct state_unit *held = &state->units[unit];
    float *const arrays[ARRAYS_MAX] = {held->parameters, held->first_moment, held->second_moment};

    return arrays[array];
}

static size_t unit_bytes(const struct state *state, unsigned unit)
{
    return state->units[unit].layout.count * sizeof(float);
}

/* ---- the list of transfers ---- */

static int compare_moves(const void *a, const void *b)
{
    const struct plan_move *one = *(const struct plan_move *const *)a,
                           *other = *(const struct plan_move *const *)b;

    if (one->unit != other->unit)
        return one->unit < other->unit ? -1 : 1;
    return one < other ? -1 : one > other;
}

/* List the moves from or to this rank, by units. */
static int list_moves(const struct handover *handover, bool sends,
                      const struct plan_move ***ret_moves, unsigned *ret_count)
{
    unsigned total = handover->plan->start.move_count, count = 0;
    const struct plan_move **moves = calloc((size_t)total + 1, sizeof(const struct plan_move *));

    if (!moves)
        return -ENOMEM;
    for (unsigned i = 0; i < total; i++) {
        const struct plan_move *move = move_of(handover, i);
        if ((sends ? move->from_rank : move->to_rank) == handover->rank)
            moves[count++] = move;
    }
    qsort(moves, count, sizeof(const struct plan_move *), compare_moves);
    *ret_moves = moves;
    *ret_count = count;
    return 0;
}

/* List the transfers of units that this rank holds, or has taken. */
static int list_transfers(const struct handover *handover, bool sends,
                          struct transfers *ret_transfers)
{
    AUTO_FREE const struct plan_move **moves = NULL;
    unsigned count;
    int status = list_moves(handover, sends, &moves, &count);

    if (status)
        return status;
    ret_transfers->list = calloc(ARRAYS_MAX * (size_t)count + 1, sizeof(*ret_transfers->list));
    if (!ret_transfers->list)
        return -ENOMEM;
    for (unsigned array = 0; array < ARRAYS_MAX; array++)
        for (unsigned i = 0; i < count; i++)
            if (unit_array(handover->state, moves[i]->unit, array))
                ret_transfers->list[ret_transfers->count++] = (struct transfer){
                    .move = moves[i],
                    .array = array,
                    .drops = !sends && unit_arrivals_is_copy(&handover->arrivals, moves[i]->unit)};
    return 0;
}

static unsigned message_count(const struct handover *handover, const struct transfer *transfer)
{
    return (unsigned)((unit_bytes(handover->state, transfer->move->unit) + MESSAGE_BYTES - 1) /
                      MESSAGE_BYTES);
}

static struct copy *copy_new(size_t size_bytes)
{
    struct copy *copy = calloc(1, sizeof(*copy));

    if (!copy)
        return NULL;
    *copy = (struct copy){.data = malloc(size_bytes), .users = 1};
    if (copy->data)
        return copy;
    free(copy);
    return NULL;
}

static void copy_release(struct copy *copy)
{
    if (!copy || --copy->users > 0)
        return;
    free(copy->data);
    free(copy);
}

/* Free the requests and the copy of a transfer; its messages are completed. */
static void transfer_done(struct transfer *transfer)
{
    free(transfer->requests);
    copy_release(transfer->copy);
    transfer->requests = NULL;
    transfer->copy = NULL;
}

/* ---- posting ---- */

static bool same_array(const struct transfer *one, const struct transfer *other)
{
    return one->array == other->array && one->move->unit == other->move->unit;
}

/* Copy the array of a send to the host. The previous transfer may have a copy of it. */
static int download(const struct handover *handover, struct transfer *transfer)
{
    const struct state *state = handover->state;
    unsigned unit = transfer->move->unit;
    struct transfer *before = transfer > handover->sends.list ? transfer - 1 : NULL;

    if (before && before->copy && same_array(before, transfer)) {
        transfer->copy = before->copy;
        transfer->copy->users++;
        return 0;
    }
    transfer->copy = copy_new(unit_bytes(state, unit));
    if (!transfer->copy)
        return -ENOMEM;
    state->kernel->download(state->device, transfer->copy->data,
                            unit_array(state, unit, transfer->array), unit_bytes(state, unit));
    return state->kernel->synchronize(state->device, NULL);
}

/* Return whether the array passes through a copy. */
static bool is_staged(const struct handover *handover, const struct transfer *transfer)
{
    return !handover->state->kernel->host_memory || transfer->drops;
}

static int prepare(const struct handover *handover, bool sends, struct transfer *transfer)
{
    const struct state *state = handover->state;

    transfer->requests =
        calloc((size_t)message_count(handover, transfer) + 1, sizeof(struct mesh_request *));
    if (!transfer->requests)
        return -ENOMEM;
    if (!is_staged(handover, transfer))
        return 0;
    if (sends)
        return download(handover, transfer);
    transfer->copy = copy_new(unit_bytes(state, transfer->move->unit));
    return transfer->copy ? 0 : -ENOMEM;
}

static int post_messages(const struct handover *handover, bool sends, struct transfer *transfer)
{
    const struct plan_move *move = transfer->move;
    size_t left_bytes = unit_bytes(handover->state, move->unit);
    char *data = transfer->copy ? transfer->copy->data
                                : unit_array(handover->state, move->unit, transfer->array);
    uint64_t tag = tag_make(TAG_STATE, transfer->array, move->unit);
    int status = 0;

    for (unsigned i = 0; !status && left_bytes > 0; i++) {
        size_t size_bytes = MIN(left_bytes, MESSAGE_BYTES);
        status = sends ? mesh_send_bulk(handover->mesh, move->to_rank, tag, data, size_bytes,
                                        &transfer->requests[i])
                       : mesh_receive(handover->mesh, move->from_rank, tag, data, size_bytes,
                                      &transfer->requests[i]);
        data += size_bytes;
        left_bytes -= size_bytes;
    }
    return status;
}

static bool has_room(const struct handover *handover, const struct transfers *transfers)
{
    return !is_staged(handover, &transfers->list[transfers->posted]) ||
           transfers->posted == transfers->done || transfers->staged_bytes < STAGED_BYTES;
}

static int post(const struct handover *handover, bool sends, struct transfers *transfers)
{
    int status = 0;

    while (!status && transfers->posted < transfers->count && has_room(handover, transfers)) {
        struct transfer *transfer = &transfers->list[transfers->posted++];
        assert(transfer->move);
        transfers->staged_bytes += unit_bytes(handover->state, transfer->move->unit);
        status = prepare(handover, sends, transfer);
        if (!status)
            status = post_messages(handover, sends, transfer);
    }
    return status;
}

/* ---- arriving ---- */

/* Store an array that has arrived in full. */
static void land(struct handover *handover, const struct transfer *transfer)
{
    struct state *state = handover->state;
    unsigned unit = transfer->move->unit;
    if (transfer->drops)
        return;
    bool last = transfer->array + 1 == ARRAYS_MAX || !unit_array(state, unit, transfer->array + 1);

    if (transfer->copy)
        state->kernel->upload(state->device, unit_array(state, unit, transfer->array),
                              transfer->copy->data, unit_bytes(state, unit));
    if (transfer->array == 0) {
        state_make_weights(state, unit);
        unit_arrivals_parameters(&handover->arrivals, unit);
    }
    if (last)
        unit_arrivals_whole(&handover->arrivals, unit);
}

/* Return the first message that is not completed; NULL: nothing is posted. */
static struct mesh_request *first_request(const struct transfers *transfers)
{
    if (transfers->done == transfers->posted)
        return NULL;
    const struct transfer *transfer = &transfers->list[transfers->done];

    return transfer->requests ? transfer->requests[transfer->done] : NULL;
}

/* Take the results of the completed messages. */
static int settle(struct handover *handover, bool sends, struct transfers *transfers)
{
    struct mesh_request *request;
    int status = 0;

    while (!status && (request = first_request(transfers)) && mesh_test(request)) {
        struct transfer *transfer = &transfers->list[transfers->done];
        transfer->requests[transfer->done++] = NULL;
        status = mesh_wait(request, UINT64_MAX);
        if (status || transfer->done < message_count(handover, transfer))
            continue;
        if (!sends)
            land(handover, transfer);
        transfers->staged_bytes -= unit_bytes(handover->state, transfer->move->unit);
        transfers->done++;
        transfer_done(transfer);
    }
    return status;
}

static int advance(struct handover *handover)
{
    int status = handover->failure; /* an earlier advance could not report it */

    if (!status)
        status = settle(handover, false, &handover->receives);
    if (!status)
        status = settle(handover, true, &handover->sends);
    if (!status)
        status = post(handover, false, &handover->receives);
    if (!status)
        status = post(handover, true, &handover->sends);
    handover->failure = status;
    return status;
}

/* The mesh may call this while this thread waits (mesh_meanwhile()), also in await(). */
int handover_advance(struct handover *handover)
{
    return handover->waits ? 0 : advance(handover);
}

static bool has_unit(const struct handover *handover, unsigned unit)
{
    return unit_arrivals_may_compute(&handover->arrivals, unit);
}

static bool is_over(const struct handover *handover, unsigned unit)
{
    (void)unit;
    return handover->receives.done == handover->receives.count &&
           handover->sends.done == handover->sends.count;
}

/* Advance both directions while waiting: the other end may wait for one before it serves the
 * other. */
static int await(struct handover *handover,
                 bool (*reached)(const struct handover *handover, unsigned unit), unsigned unit)
{
    int status = 0;

    while (!reached(handover, unit)) {
        status = advance(handover);
        if (status || reached(handover, unit))
            break;
        struct mesh_request *const requests[] = {first_request(&handover->receives),
                                                 first_request(&handover->sends)};
        handover->waits = true;
        mesh_await_any(handover->mesh, requests, ARRAY_COUNT(requests));
        handover->waits = false;
    }
    return status;
}

bool handover_has_arrived(const struct handover *handover)
{
    return unit_arrivals_are_complete(&handover->arrivals);
}

int handover_await_unit(struct handover *handover, unsigned unit)
{
    return await(handover, has_unit, unit);
}

int handover_finish(struct handover *handover)
{
    return await(handover, is_over, 0);
}

/* ---- heads ---- */

static int send_head(const struct state *state, const struct plan_move *move, struct mesh *mesh)
{
    AUTO_JSON json_t *head = state_encode(state);
    json_t *step = json_integer((json_int_t)state->applied_step);
    bool whole = head && !json_object_set_new(head, "applied_step", step);
    AUTO_FREE char *text = whole ? json_text(head) : NULL;

    if (!text)
        return -ENOMEM;
    return mesh_send(mesh, move->to_rank, tag_make(TAG_STATE_HEAD, 0, move->unit), text,
                     strlen(text), NULL);
}

/* A worker without state adopts the first head; later heads must agree. */
static int take_head(struct state *state, const struct plan_move *move, struct mesh *mesh,
                     bool *fresh, struct error *error)
{
    AUTO_FREE void *text = NULL;
    AUTO_JSON json_t *head = NULL;
    struct freeze_state freeze;
    uint64_t applied_step, data_digest;
    size_t size_bytes = 0;
    int status = mesh_receive_any(mesh, move->from_rank, tag_make(TAG_STATE_HEAD, 0, move->unit),
                                  UINT64_MAX, &text, &size_bytes);

    if (!status)
        status = json_parse(text, size_bytes, "state head", &head, error);
    if (!status)
        status = json_get_u64(head, "applied_step", UINT64_MAX, &applied_step, error);
    if (!status)
        status = state_decode(head, state->model.layers, &freeze, &data_digest, error);
    if (status)
        return status;
    if (*fresh) {
        state->applied_step = applied_step;
        state->data_digest = data_digest;
        state->freeze = freeze;
        memset(&state->committed, 0, sizeof(state->committed));
        *fresh = false;
    }
    if (state->applied_step != applied_step || state->freeze.frozen_layers != freeze.frozen_layers)
        return error_set(error, -EBADMSG,
                         "unit %u comes at step %" PRIu64
                         " with %u frozen layers, but this worker is at step %" PRIu64 " with %u",
                         move->unit, applied_step, freeze.frozen_layers, state->applied_step,
                         state->freeze.frozen_layers);
    return 0;
}

static bool holds_nothing(const struct state *state)
{
    unsigned first, count;

    state_held_range(state, 0, &first, &count);
    return count == 0;
}

static int send_heads(const struct handover *handover)
{
    const struct state *state = handover->state;
    int status = 0;

    for (unsigned i = 0; !status && i < handover->plan->start.move_count; i++)
        if (move_of(handover, i)->from_rank == handover->rank)
            status = state->units[move_of(handover, i)->unit].held
                         ? send_head(state, move_of(handover, i), handover->mesh)
                         : -ENODATA;
    return status;
}

static int take_heads(struct handover *handover, struct error *error)
{
    struct state *state = handover->state;
    bool fresh = holds_nothing(state);
    int status = 0;

    for (unsigned i = 0; !status && i < handover->plan->start.move_count; i++) {
        if (move_of(handover, i)->to_rank != handover->rank)
            continue;
        status = take_head(state, move_of(handover, i), handover->mesh, &fresh, error);
        if (!status && !unit_arrivals_is_copy(&handover->arrivals, move_of(handover, i)->unit))
            status = state_take_unit(state, move_of(handover, i)->unit, error);
        if (!status)
            handover->taken = i + 1;
    }
    return status;
}

/* ---- beginning and end ---- */

static int failed(const struct handover *handover, int status, struct error *error)
{
    mesh_abort(handover->mesh, "handing over state failed");
    if (error && error->code)
        return status;
    return error_set(error, status, "generation %" PRIu64 ": handing over state failed: %s",
                     handover->plan->generation, strerror(-status));
}

/* The sends are posted before this rank waits for heads: another rank may wait for these units. */
static int begin(struct handover *handover, struct error *error)
{
    int status = send_heads(handover);

    if (!status)
        status = list_transfers(handover, true, &handover->sends);
    if (!status)
        status = post(handover, true, &handover->sends);
    if (!status)
        status = take_heads(handover, error);
    if (!status)
        status = list_transfers(handover, false, &handover->receives);
    return status ? status : advance(handover);
}

int handover_begin(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                   struct handover **ret_handover, struct error *error)
{
    struct handover *handover = malloc(sizeof(*handover));
    bool held[STEP_RECORD_UNITS_MAX];

    *ret_handover = NULL;
    if (!handover)
        return error_set(error, -ENOMEM, "no memory for a handover");
    *handover = (struct handover){.state = state, .plan = plan, .rank = rank, .mesh = mesh};
    state_list_held(state, held);
    unit_arrivals_begin(&handover->arrivals, plan, rank, held);
    int status = begin(handover, error);
    if (status) {
        status = failed(handover, status, error);
        handover_close(handover);
        return status;
    }
    *ret_handover = handover;
    return 0;
}

/* Wait for all posted messages. */
static void close_transfers(struct transfers *transfers)
{
    for (unsigned i = transfers->done; i < transfers->posted; i++) {
        struct transfer *transfer = &transfers->list[i];
        while (transfer->requests && transfer->requests[transfer->done])
            (void)!mesh_wait(transfer->requests[transfer->done++], UINT64_MAX);
        transfer_done(transfer);
    }
    free(transfers->list);
}

void handover_close(struct handover *handover)
{
    if (!handover)
        return;
    close_transfers(&handover->sends);
    close_transfers(&handover->receives);
    for (unsigned i = 0; i < handover->taken; i++) {
        const struct plan_move *move = move_of(handover, i);
        if (move->to_rank == handover->rank &&
            !unit_arrivals_is_copy(&handover->arrivals, move->unit))
            state_drop_unit(handover->state, move->unit);
    }
    free(handover);
}

/* A pair of donor and receiver has one release for all its moves: at the pair's first move. */
static bool first_of_pair(const struct plan_start *start, unsigned index)
{
    for (unsigned i = 0; i < index; i++)
        if (start->moves[i].from_rank == start->moves[index].from_rank &&
            start->moves[i].to_rank == start->moves[index].to_rank)
            return false;
    return true;
}

int handover_release(const struct plan *plan, unsigned rank, struct mesh *mesh)
{
    int status = 0;

    for (unsigned i = 0; !status && i < plan->start.move_count; i++) {
        const struct plan_move *move = &plan->start.moves[i];
        if (move->to_rank == rank && move->from_rank >= plan->layout.worker_count &&
            first_of_pair(&plan->start, i))
            status = mesh_send(mesh, move->from_rank, tag_make(TAG_RELEASE, 0, 0), "", 0, NULL);
    }
    return status;
}

int handover_await_release(const struct plan_start *start, unsigned rank, struct mesh *mesh)
{
    int status = 0;

    for (unsigned i = 0; !status && i < start->move_count; i++) {
        AUTO_FREE void *data = NULL;
        size_t size_bytes;
        if (start->moves[i].from_rank == rank && first_of_pair(start, i))
            status = mesh_receive_any(mesh, start->moves[i].to_rank, tag_make(TAG_RELEASE, 0, 0),
                                      UINT64_MAX, &data, &size_bytes);
    }
    return status;
}
