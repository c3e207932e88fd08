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

/* An array in flight to another worker. */
struct sending {
    struct mesh_request *request;
    void *copy; /* the sent bytes, where device memory is not host memory; else NULL */
};

/* Return the unit's arrays in host memory: in place, or as copies that @sendings own. */
static int bring_to_host(const struct state *state, unsigned unit, struct sending *sendings,
                         void *ret_arrays[ARRAYS_MAX])
{
    unsigned array_count = unit_arrays(state, unit, ret_arrays);
    size_t size_bytes = state->units[unit].layout.count * sizeof(float);

    if (state->kernel->host_memory)
        return 0;
    for (unsigned i = 0; i < array_count; i++) {
        sendings[i].copy = malloc(size_bytes);
        if (!sendings[i].copy)
            return -ENOMEM;
        state->kernel->download(state->device, sendings[i].copy, ret_arrays[i], size_bytes);
        ret_arrays[i] = sendings[i].copy;
    }
    return state->kernel->synchronize(state->device, NULL);
}

/* @sendings: the ARRAYS_MAX entries of this move */
static int send_unit(const struct state *state, const struct plan_move *move, struct mesh *mesh,
                     struct sending *sendings)
{
    void *arrays[ARRAYS_MAX];
    unsigned array_count = unit_arrays(state, move->unit, arrays);
    size_t size_bytes = state->units[move->unit].layout.count * sizeof(float);
    int status = state->units[move->unit].held ? send_head(state, move, mesh) : -ENODATA;

    if (!status)
        status = bring_to_host(state, move->unit, sendings, arrays);
    for (unsigned i = 0; !status && i < array_count; i++)
        status = mesh_send(mesh, move->to_rank, tag_make(TAG_STATE, i, move->unit), arrays[i],
                           size_bytes, &sendings[i].request);
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

static int take_unit(struct state *state, const struct plan_move *move, struct mesh *mesh,
                     bool *fresh, struct error *error)
{
    void *arrays[ARRAYS_MAX];
    int status = take_head(state, move, mesh, fresh, error);

    if (!status)
        status = state_take_unit(state, move->unit, error);
    if (status)
        return status;
    unsigned array_count = unit_arrays(state, move->unit, arrays);
    for (unsigned i = 0; !status && i < array_count; i++)
        status = receive_array(state, move, mesh, i, arrays[i]);
    if (status)
        state_drop_unit(state, move->unit); /* a partial unit is useless */
    return status;
}

static bool holds_nothing(const struct state *state)
{
    unsigned first, count;

    state_held_range(state, 0, &first, &count);
    return count == 0;
}

int handover_run(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                 struct error *error)
{
    AUTO_FREE struct sending *sendings =
        calloc(ARRAYS_MAX * (size_t)plan->start.move_count + 1, sizeof(*sendings));
    bool fresh = holds_nothing(state);
    int status = sendings ? 0 : -ENOMEM;

    for (unsigned i = 0; !status && i < plan->start.move_count; i++)
        if (plan->start.moves[i].from_rank == rank)
            status =
                send_unit(state, &plan->start.moves[i], mesh, &sendings[ARRAYS_MAX * (size_t)i]);
    for (unsigned i = 0; !status && i < plan->start.move_count; i++)
        if (plan->start.moves[i].to_rank == rank)
            status = take_unit(state, &plan->start.moves[i], mesh, &fresh, error);
    if (status)
        mesh_abort(mesh, "handing over state failed");
    for (unsigned i = 0; sendings && i < ARRAYS_MAX * plan->start.move_count; i++) {
        int sent = sendings[i].request ? mesh_wait(sendings[i].request, UINT64_MAX) : 0;
        status = status ? status : sent;
        free(sendings[i].copy);
    }
    if (status && !(error && error->code))
        return error_set(error, status, "generation %" PRIu64 ": handing over state failed",
                         plan->generation);
    return status;
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
