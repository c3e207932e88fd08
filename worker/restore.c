#include "worker/restore.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/reader.h"
#include "worker/canonical.h"

struct reading {
    struct state *state;
    struct checkpoint_reader *reader;
    struct error *error;
};

static int read_tensor(struct reading *reading, const char *name, enum manifest_role role,
                       float *into, size_t count)
{
    struct state *state = reading->state;
    AUTO_FREE float *host = malloc(count * sizeof(float));
    int status = host ? checkpoint_read(reading->reader, name, role, host, count, reading->error)
                      : error_set(reading->error, -ENOMEM, "no memory for tensor %s", name);

    if (!status)
        state->kernel->upload(state->device, into, host, count * sizeof(float));
    return status;
}

static int read_canonical(void *context, const struct canonical_tensor *tensor)
{
    struct reading *reading = context;

    return read_tensor(reading, tensor->tensor->name, tensor->role,
                       canonical_memory(reading->state, tensor), tensor->tensor->count);
}

/* The head's copy of a tied table comes from the embedding's tensor. */
static int read_mirror(struct reading *reading)
{
    struct state *state = reading->state;
    unsigned head = state->unit_count - 1;
    const struct unit_layout *layout = &state->units[head].layout;
    int status = 0;

    for (unsigned i = 0; !status && i < layout->tensor_count; i++) {
        const struct unit_tensor *tensor = &layout->tensors[i];
        if (!state_mirrored(state, tensor))
            continue;
        for (unsigned role = 0; !status && role < 3; role++) {
            struct canonical_tensor at = {tensor, head, (enum manifest_role)role, 0};
            status = read_tensor(reading, state->units[0].layout.tensors[0].name, at.role,
                                 canonical_memory(state, &at), tensor->count);
        }
    }
    return status;
}

static int take_head(struct state *state, const struct manifest *manifest, struct error *error)
{
    json_t *freeze;
    int status = json_get_object(manifest->state, "freeze", &freeze, error);

    if (!status)
        status = freeze_decode(freeze, state->model.layers, &state->freeze, error);
    if (status)
        return status;
    state->applied_step = manifest->step;
    state->holds = false;
    memset(&state->committed, 0, sizeof(state->committed));
    return 0;
}

static int read_units(struct reading *reading, unsigned first, unsigned count)
{
    struct state *state = reading->state;
    int status = take_head(state, checkpoint_manifest(reading->reader), reading->error);

    for (unsigned unit = first; !status && unit < first + count; unit++)
        status = state_take_unit(state, unit, reading->error);
    if (!status)
        status = canonical_visit(state, first, count, read_canonical, reading);
    if (!status && first + count == state->unit_count)
        status = read_mirror(reading);
    return status;
}

int restore_units(struct state *state, const char *path, unsigned first, unsigned count,
                  struct error *error)
{
    struct reading reading = {.state = state, .error = error};
    int status = checkpoint_open(path, &reading.reader, error);

    if (status)
        return status;
    state_drop_outside(state, 0, 0);
    status = read_units(&reading, first, count);
    if (status) {
        error_prefix(error, "restoring from %s: ", path);
        state_drop_outside(state, 0, 0);
    }
    checkpoint_close(reading.reader);
    return status;
}
