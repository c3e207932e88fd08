#include "worker/state/handover.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "worker/device/tags.h"

#define ARRAYS_MAX 3 /* parameters and two moments */

static unsigned unit_arrays(const struct state *state, unsigned unit, void *ret_arrays[ARRAYS_MAX])
{
    const struct state_unit *held = &state->units[unit];

    ret_arrays[0] = held->parameters;
    ret_arrays[1] = held->first_moment;
    ret_arrays[2] = held->second_moment;
    return held->first_moment ? 3 : 1;
}

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

/* The arrays of a unit in host memory, where device memory is not that: one copy for all workers
 * that the unit goes to. */
struct unit_copy {
    void *arrays[ARRAYS_MAX]; /* NULL: not made */
    unsigned receivers;       /* that have not got all of it */
};

struct handover {
    struct state *state;
    const struct plan *plan;
    unsigned rank;
    struct mesh *mesh;
    struct mesh_request **sends; /* ARRAYS_MAX of each move; NULL: none */
    struct unit_copy *copies;    /* by unit */
    unsigned taken, received;    /* moves before this one, if they are to this rank */
};

static const struct plan_move *move_of(const struct handover *handover, unsigned index)
{
    return &handover->plan->start.moves[index];
}

static int copy_unit(const struct state *state, unsigned unit, struct unit_copy *copy)
{
    void *arrays[ARRAYS_MAX];
    unsigned array_count = unit_arrays(state, unit, arrays);
    size_t size_bytes = state->units[unit].layout.count * sizeof(float);

    for (unsigned i = 0; i < array_count; i++) {
        copy->arrays[i] = malloc(size_bytes);
        if (!copy->arrays[i])
            return -ENOMEM;
        state->kernel->download(state->device, copy->arrays[i], arrays[i], size_bytes);
    }
    return state->kernel->synchronize(state->device, NULL);
}

static void drop_copy(struct unit_copy *copy)
{
    for (unsigned i = 0; i < ARRAYS_MAX; i++)
        free(copy->arrays[i]);
    *copy = (struct unit_copy){0};
}

/* Return the unit's arrays in host memory: in place, or as copies. */
static int bring_to_host(const struct handover *handover, unsigned unit,
                         void *ret_arrays[ARRAYS_MAX])
{
    const struct state *state = handover->state;
    struct unit_copy *copy = &handover->copies[unit];
    int status = 0;

    unit_arrays(state, unit, ret_arrays);
    if (state->kernel->host_memory)
        return 0;
    if (!copy->arrays[0])
        status = copy_unit(state, unit, copy);
    copy->receivers++;
    memcpy(ret_arrays, copy->arrays, sizeof(copy->arrays));
    return status;
}

static int send_unit(const struct handover *handover, unsigned index, struct error *error)
{
    const struct plan_move *move = move_of(handover, index);
    void *arrays[ARRAYS_MAX];
    unsigned array_count = unit_arrays(handover->state, move->unit, arrays);
    size_t size_bytes = handover->state->units[move->unit].layout.count * sizeof(float);
    int status = bring_to_host(handover, move->unit, arrays);

    if (status == -ENOMEM)
        return error_set(error, status,
                         "no memory to hand unit %u over: its %u arrays of %zu bytes each are "
                         "copied from the device",
                         move->unit, array_count, size_bytes);
    for (unsigned i = 0; !status && i < array_count; i++)
        status = mesh_send(handover->mesh, move->to_rank, tag_make(TAG_STATE, i, move->unit),
                           arrays[i], size_bytes, &handover->sends[ARRAYS_MAX * (size_t)index + i]);
    return status;
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

static int receive_array(const struct state *state, const struct plan_move *move, struct mesh *mesh,
                         unsigned index, void *array)
{
    size_t size_bytes = state->units[move->unit].layout.count * sizeof(float);
    AUTO_FREE void *copy = state->kernel->host_memory ? NULL : malloc(size_bytes);
    void *into = state->kernel->host_memory ? array : copy;
    struct mesh_request *request;
    int status = into ? mesh_receive(mesh, move->from_rank, tag_make(TAG_STATE, index, move->unit),
                                     into, size_bytes, &request)
                      : -ENOMEM;

    if (!status)
        status = mesh_wait(request, UINT64_MAX);
    if (!status && copy)
        state->kernel->upload(state->device, array, copy, size_bytes);
    return status;
}

static bool holds_nothing(const struct state *state)
{
    unsigned first, count;

    state_held_range(state, 0, &first, &count);
    return count == 0;
}

/* The heads first: they are small, and all ranks wait for them. */
static int send_all(const struct handover *handover, struct error *error)
{
    const struct state *state = handover->state;
    unsigned count = handover->plan->start.move_count;
    int status = 0;

    for (unsigned i = 0; !status && i < count; i++)
        if (move_of(handover, i)->from_rank == handover->rank)
            status = state->units[move_of(handover, i)->unit].held
                         ? send_head(state, move_of(handover, i), handover->mesh)
                         : -ENODATA;
    for (unsigned i = 0; !status && i < count; i++)
        if (move_of(handover, i)->from_rank == handover->rank)
            status = send_unit(handover, i, error);
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
        if (!status)
            status = state_take_unit(state, move_of(handover, i)->unit, error);
        if (!status)
            handover->taken = i + 1;
    }
    return status;
}

static int failed(const struct handover *handover, int status, struct error *error)
{
    mesh_abort(handover->mesh, "handing over state failed");
    if (error && error->code)
        return status;
    return error_set(error, status, "generation %" PRIu64 ": handing over state failed: %s",
                     handover->plan->generation, strerror(-status));
}

int handover_begin(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                   struct handover **ret_handover, struct error *error)
{
    struct handover *handover = malloc(sizeof(*handover));

    *ret_handover = NULL;
    if (!handover)
        return error_set(error, -ENOMEM, "no memory for a handover");
    *handover = (struct handover){.state = state, .plan = plan, .rank = rank, .mesh = mesh};
    handover->sends =
        calloc(ARRAYS_MAX * (size_t)plan->start.move_count + 1, sizeof(struct mesh_request *));
    handover->copies = calloc(state->unit_count, sizeof(*handover->copies));
    int status = handover->sends && handover->copies ? send_all(handover, error) : -ENOMEM;

    if (!status)
        status = take_heads(handover, error);
    if (status) {
        status = failed(handover, status, error);
        handover_close(handover);
        return status;
    }
    *ret_handover = handover;
    return 0;
}

static int receive_unit(const struct handover *handover, const struct plan_move *move)
{
    struct state *state = handover->state;
    void *arrays[ARRAYS_MAX];
    unsigned array_count = unit_arrays(state, move->unit, arrays);
    int status = 0;

    for (unsigned i = 0; !status && i < array_count; i++)
        status = receive_array(state, move, handover->mesh, i, arrays[i]);
    if (!status)
        state_make_weights(state, move->unit);
    return status;
}

int handover_receive(struct handover *handover, struct error *error)
{
    int status = 0;

    for (; handover->received < handover->taken; handover->received++) {
        if (move_of(handover, handover->received)->to_rank != handover->rank)
            continue;
        status = receive_unit(handover, move_of(handover, handover->received));
        if (status)
            return failed(handover, status, error);
    }
    return 0;
}

/* Wait until the unit of a move is out, for the last receiver of its copy. */
static int await_move(struct handover *handover, unsigned index)
{
    struct mesh_request **sends = &handover->sends[ARRAYS_MAX * (size_t)index];
    struct unit_copy *copy = &handover->copies[move_of(handover, index)->unit];
    bool any = false;
    int status = 0;

    for (unsigned i = 0; i < ARRAYS_MAX; i++) {
        int sent = sends[i] ? mesh_wait(sends[i], UINT64_MAX) : 0;
        any = any || sends[i];
        status = status ? status : sent;
        sends[i] = NULL;
    }
    if (any && copy->receivers > 0 && --copy->receivers == 0)
        drop_copy(copy);
    return status;
}

static int await_sends(struct handover *handover)
{
    int status = 0;

    for (unsigned i = 0;
         handover->sends && handover->copies && i < handover->plan->start.move_count; i++) {
        int sent = await_move(handover, i);
        status = status ? status : sent;
    }
    return status;
}

int handover_await_sent(struct handover *handover)
{
    return await_sends(handover);
}

void handover_close(struct handover *handover)
{
    if (!handover)
        return;
    await_sends(handover);
    for (unsigned i = handover->received; i < handover->taken; i++)
        if (move_of(handover, i)->to_rank == handover->rank)
            state_drop_unit(handover->state, move_of(handover, i)->unit);
    for (unsigned unit = 0; handover->copies && unit < handover->state->unit_count; unit++)
        drop_copy(&handover->copies[unit]); /* of a hand-over that failed on its way */
    free(handover->copies);
    free(handover->sends);
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
