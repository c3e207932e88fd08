#include "worker/state/pretrained.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/read/model_folder.h"
#include "elastic/job/huggingface.h"
#include "elastic/job/job_spec.h"

/* The files must match the model that the job describes, for every source of its keys. */
static int check_config(const struct job_spec *spec, struct error *error)
{
    AUTO_JSON json_t *config = NULL;
    AUTO_JSON json_t *keys = NULL;
    AUTO_JSON json_t *job = job_spec_encode(spec);
    int status = job ? model_folder_config(spec->model.from, &config, error) : -ENOMEM;

    if (!status)
        status = huggingface_model(config, spec->model.context, &keys, error);
    return status ? status : huggingface_agree(keys, json_object_get(job, "model"), error);
}

/* Return a tensor's name in the folder: published GPT-2s lack the first part of the name, and a
 * tied head has no table but the embedding's. */
static const char *name_in(const struct model_folder *folder, const struct state *state,
                           const struct unit_tensor *tensor)
{
    const char *name = tensor->mirror ? state->units[0].layout.tensors[0].name : tensor->name;
    const char *dot = strchr(name, '.');

    return !model_folder_has(folder, name) && dot && model_folder_has(folder, dot + 1) ? dot + 1
                                                                                       : name;
}

static int read_unit(struct state *state, struct model_folder *folder, unsigned index,
                     struct error *error)
{
    const struct state_unit *unit = &state->units[index];
    AUTO_FREE float *host = calloc(unit->layout.count, sizeof(float));
    int status = host ? 0 : error_set(error, -ENOMEM, "no memory for unit %u", index);

    for (unsigned i = 0; !status && i < unit->layout.tensor_count; i++) {
        const struct unit_tensor *tensor = &unit->layout.tensors[i];
        status = model_folder_read(folder, name_in(folder, state, tensor), tensor->shape,
                                   tensor->rank, host + tensor->offset, error);
    }
    if (!status)
        state->kernel->upload(state->device, unit->parameters, host,
                              unit->layout.count * sizeof(float));
    return status;
}

int pretrained_units(struct state *state, unsigned first, unsigned count, struct error *error)
{
    struct model_folder *folder = NULL;
    const char *path = state->spec->model.from;
    int status = check_config(state->spec, error);

    state_begin(state);
    if (!status)
        status = model_folder_open(path, &folder, error);
    for (unsigned unit = first; !status && unit < first + count; unit++) {
        status = state_take_unit(state, unit, error);
        if (!status)
            status = read_unit(state, folder, unit, error);
        if (!status && state->listener.loaded)
            state->listener.loaded(state->listener.context,
                                   state->units[unit].layout.count * sizeof(float));
    }
    model_folder_close(folder);
    if (status) {
        error_prefix(error, "model.from %s%s: ", path,
                     status == -EACCES ? " (firnd's user may not read it)" : "");
        state_drop_all(state);
    }
    return status;
}
