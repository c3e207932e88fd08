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
    float *host; /* on the way to the device; kept, because fresh pages cost as much as reading */
    size_t host_count;
};

static int take_host_memory(struct reading *reading, const char *name, size_t count)
{
    if (count <= reading->host_count)
        return 0;
    free(reading->host);
    reading->host = malloc(count * sizeof(float));
    reading->host_count = reading->host ? count : 0;
    return reading->host ? 0 : error_set(reading->error, -ENOMEM, "no memory for tensor %s", name);
}

static int read_tensor(struct reading *reading, const char *name, enum manifest_role role,
                       float *into, size_t count)
{
    struct state *state = reading->state;
    int status = take_host_memory(reading, name, count);

    if (!status)
        status = checkpoint_read(reading->reader, name, role, reading->host, count, reading->error);
    if (status)
        return status;
    state->kernel->upload(state->device, into, reading->host, count * sizeof(float));
    /* The next tensor takes the same memory. */
    return state->kernel->synchronize(state->device, reading->error);
}

static int read_canonical(void *context, const struct canonical_tensor *tensor)
{
    struct reading *reading = context;

    return read_tensor(reading, tensor->tensor->name, tensor->role,
                       canonical_memory(reading->state, tensor), tensor->tensor->count);
}

/* One role of the head's copy of a tied table: from the embedding where it is held, else read. */
static int mirror_tensor(struct reading *reading, const struct canonical_tensor *mirror)
{
    struct state *state = reading->state;
    const struct unit_tensor *table = &state->units[0].layout.tensors[0];
    const struct canonical_tensor original = {table, 0, mirror->role, 0};
    float *to = canonical_memory(state, mirror);

    if (!state->units[0].held)
        return read_tensor(reading, table->name, mirror->role, to, table->count);
    state->kernel->copy(state->device, to, canonical_memory(state, &original),
                        table->count * sizeof(float));
    return 0;
}

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
            status = mirror_tensor(reading, &at);
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
    free(reading.host);
    return status;
}
