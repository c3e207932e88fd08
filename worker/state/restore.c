#include "worker/state/restore.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/read/load.h"
#include "elastic/job/job_spec.h"
#include "worker/state/canonical.h"

/*
 * Requests are collected and then read all at once, so that reads of the whole restore overlap. If
 * the device has memory of its own, they are read and uploaded one unit at a time.
 */
struct reading {
    struct state *state;
    struct checkpoint_reader *reader;
    struct error *error;
    struct checkpoint_wish *wishes;
    unsigned wish_count;
    float *host; /* staging for uploads; kept, because fresh pages cost as much as reading */
    size_t host_count;
};

static void wish(struct reading *reading, const char *name, enum manifest_role role, float *into,
                 size_t count)
{
    reading->wishes[reading->wish_count++] =
        (struct checkpoint_wish){.name = name, .role = role, .data = into, .count = count};
}

static int wish_canonical(void *context, const struct canonical_tensor *tensor)
{
    struct reading *reading = context;

    wish(reading, tensor->tensor->name, tensor->role, canonical_memory(reading->state, tensor),
         tensor->tensor->count);
    return 0;
}

static int load(struct reading *reading)
{
    const char *why;
    const struct checkpoint_load_options options = {.io = io_probe(&why),
                                                    .listener = reading->state->listener};

    return checkpoint_load(reading->reader, &options, reading->wishes, reading->wish_count, NULL,
                           reading->error);
}

static int take_host_memory(struct reading *reading)
{
    size_t count = 0;

    for (unsigned i = 0; i < reading->wish_count; i++)
        count += reading->wishes[i].count;
    if (count <= reading->host_count)
        return 0;
    free(reading->host);
    reading->host = malloc(count * sizeof(float));
    reading->host_count = reading->host ? count : 0;
    return reading->host ? 0
                         : error_set(reading->error, -ENOMEM, "no memory for %zu elements", count);
}

/* Read the requests into host memory and upload them to the device. */
static int load_and_upload(struct reading *reading, float **targets)
{
    struct state *state = reading->state;
    int status = take_host_memory(reading);
    float *host = reading->host;

    if (status)
        return status;
    for (unsigned i = 0; i < reading->wish_count; i++) {
        targets[i] = reading->wishes[i].data;
        reading->wishes[i].data = host;
        host += reading->wishes[i].count;
    }
    status = load(reading);
    for (unsigned i = 0; !status && i < reading->wish_count; i++)
        state->kernel->upload(state->device, targets[i], reading->wishes[i].data,
                              reading->wishes[i].count * sizeof(float));
    /* Wait: the next unit reuses the host memory. */
    return status ? status : state->kernel->synchronize(state->device, reading->error);
}

static int grant_wishes(struct reading *reading)
{
    int status;

    if (reading->state->kernel->host_memory) {
        status = load(reading);
    } else {
        AUTO_FREE float **targets = calloc(reading->wish_count + 1, sizeof(float *));
        status = targets ? load_and_upload(reading, targets)
                         : error_set(reading->error, -ENOMEM, "no memory to restore");
    }
    reading->wish_count = 0;
    return status;
}

/* Fill one role of the head's copy of a tied table: from the embedding if held, else read. */
static void mirror_tensor(struct reading *reading, const struct canonical_tensor *mirror)
{
    struct state *state = reading->state;
    const struct unit_tensor *table = &state->units[0].layout.tensors[0];
    const struct canonical_tensor original = {table, 0, mirror->role, 0};
    float *to = canonical_memory(state, mirror);

    if (!state->units[0].held)
        wish(reading, table->name, mirror->role, to, table->count);
    else
        state->kernel->copy(state->device, to, canonical_memory(state, &original),
                            table->count * sizeof(float));
}

static int read_mirror(struct reading *reading)
{
    struct state *state = reading->state;
    unsigned head = state->unit_count - 1;
    const struct unit_layout *layout = &state->units[head].layout;

    for (unsigned i = 0; i < layout->tensor_count; i++) {
        const struct unit_tensor *tensor = &layout->tensors[i];
        if (!state_mirrored(state, tensor))
            continue;
        for (unsigned role = 0; role < 3; role++) {
            struct canonical_tensor at = {tensor, head, (enum manifest_role)role, 0};
            mirror_tensor(reading, &at);
        }
    }
    return grant_wishes(reading);
}

static bool same(const json_t *a, const json_t *b, const char *section, const char *key)
{
    a = json_object_get(a, section);
    b = json_object_get(b, section);
    return key ? json_equal(json_object_get(a, key), json_object_get(b, key)) : json_equal(a, b);
}

/* Forget values that cannot be compared: a job that continues from another job's checkpoint on the
 * user's request may have other data, or another evaluation. */
static int forget(struct state *state, const struct manifest *manifest)
{
    AUTO_JSON json_t *mine = job_spec_encode(state->spec);

    if (!mine)
        return -ENOMEM;
    if (!same(mine, manifest->spec, "data", NULL)) {
        state->data_digest = 0;
        freeze_forget_data(&state->freeze);
    }
    if (!same(mine, manifest->spec, "elastic", "freeze") ||
        !same(mine, manifest->spec, "train", "micro_batch") ||
        !same(mine, manifest->spec, "train", "precision"))
        plasticity_init(&state->freeze.plasticity);
    return 0;
}

static int take_head(struct state *state, const struct manifest *manifest, struct error *error)
{
    int status = state_decode(manifest->state, state->model.layers, &state->freeze,
                              &state->data_digest, error);

    if (!status)
        status = forget(state, manifest);
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

    for (unsigned unit = first; !status && unit < first + count; unit++) {
        status = state_take_unit(state, unit, reading->error);
        if (!status)
            canonical_visit(state, unit, 1, wish_canonical, reading);
        if (!status && !state->kernel->host_memory)
            status = grant_wishes(reading);
    }
    if (!status)
        status = grant_wishes(reading);
    if (!status && first + count == state->unit_count)
        status = read_mirror(reading);
    return status;
}

static int make_room(struct reading *reading)
{
    size_t most = 0;

    for (unsigned unit = 0; unit < reading->state->unit_count; unit++)
        most += 3 * (size_t)reading->state->units[unit].layout.tensor_count;
    reading->wishes = calloc(most, sizeof(*reading->wishes));
    return reading->wishes ? 0 : error_set(reading->error, -ENOMEM, "no memory to restore");
}

static int restore_from(struct state *state, struct checkpoint_reader *reader, const char *path,
                        unsigned first, unsigned count, struct error *error)
{
    struct reading reading = {.state = state, .reader = reader, .error = error};
    int status = make_room(&reading);

    if (!status)
        status = read_units(&reading, first, count);
    if (status) {
        error_prefix(error, "restoring from %s: ", path);
        state_drop_all(state);
    }
    checkpoint_close(reader);
    free(reading.wishes);
    free(reading.host);
    return status;
}

int restore_units(struct state *state, const char *path, unsigned first, unsigned count,
                  struct error *error)
{
    struct checkpoint_reader *reader;
    int status = checkpoint_open_to_load(path, &reader, error);

    return status ? status : restore_from(state, reader, path, first, count, error);
}

int restore_copies(struct state *state, const struct checkpoint_source *source, unsigned first,
                   unsigned count, struct error *error)
{
    struct checkpoint_reader *reader;
    int status = checkpoint_open_copies(source, &reader, error);

    return status ? status : restore_from(state, reader, source->folder, first, count, error);
}
