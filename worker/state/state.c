#include "worker/state/state.h"

#include <errno.h>
#include <string.h>

#include "base/hex.h"
#include "base/json.h"
#include "elastic/job/job_spec.h"
#include "worker/state/optimizer.h"

#define DIGEST_DIGITS 16u

static struct model_rope_scaling rope_scaling(const struct job_rope_scaling *scaling)
{
    static const enum model_rope types[] = {[JOB_ROPE_PLAIN] = MODEL_ROPE_PLAIN,
                                            [JOB_ROPE_LINEAR] = MODEL_ROPE_LINEAR,
                                            [JOB_ROPE_LLAMA3] = MODEL_ROPE_LLAMA3};

    return (struct model_rope_scaling){
        .type = types[scaling->type],
        .factor = scaling->factor,
        .low_frequency_factor = scaling->low_frequency_factor,
        .high_frequency_factor = scaling->high_frequency_factor,
        .original_context = scaling->original_context,
    };
}

int state_model(const struct job_model *job_model, struct model_spec *ret_model,
                struct error *error)
{
    struct model_spec model = {
        .layers = job_model->layers,
        .width = job_model->width,
        .heads = job_model->heads,
        .context = job_model->context,
        .vocab = job_model->vocab,
        .tied = job_model->tied,
        .kv_heads = job_model->kv_heads,
        .head_width = job_model->head_width,
        .hidden = job_model->hidden,
        .qkv_bias = job_model->qkv_bias,
        .qk_norm = job_model->qk_norm,
        .rope_theta = job_model->rope_theta,
        .rope_scaling = rope_scaling(&job_model->rope_scaling),
        .norm_epsilon = job_model->norm_epsilon,
    };
    int status = model_family_named(job_model->family, &model.family, error);

    if (!status)
        status = model_spec_check(&model, error);
    if (!status)
        *ret_model = model;
    return status;
}

int state_new(const struct job_spec *spec, const struct kernel *kernel,
              struct kernel_device *device, struct state **ret_state, struct error *error)
{
    struct model_spec model;
    int status = state_model(&spec->model, &model, error);
    if (status)
        return status;

    unsigned unit_count = model_unit_count(&model);
    struct state *state = calloc(1, sizeof(*state));
    if (!state)
        return error_set(error, -ENOMEM, "no memory for the training state");
    *state = (struct state){
        .spec = spec, .model = model, .kernel = kernel, .device = device, .thread_count = 1};
    freeze_init(&state->freeze, &state->spec->elastic.freeze);
    state->units = calloc(unit_count, sizeof(*state->units));
    state->step_tensors =
        calloc((size_t)unit_count * UNIT_TENSORS_MAX, sizeof(*state->step_tensors));
    if (!state->units || !state->step_tensors || arena_new(kernel, device, &state->arena) ||
        pinned_new(kernel, device, &state->pinned)) {
        state_free(state);
        return error_set(error, -ENOMEM, "no memory for the training state");
    }
    state->unit_count = unit_count;
    for (unsigned unit = 0; unit < unit_count; unit++)
        model_unit_layout(&state->model, unit, &state->units[unit].layout);
    *ret_state = state;
    return 0;
}

void state_free(struct state *state)
{
    if (!state)
        return;
    if (state->units)
        state_drop_all(state);
    arena_free(state->arena);
    pinned_free(state->pinned);
    free(state->units);
    free(state->step_tensors);
    free(state);
}

unsigned state_settled_units(const struct state *state)
{
    unsigned settled = freeze_settled(&state->spec->elastic.freeze, &state->spec->model,
                                      state->freeze.frozen_layers);

    return model_frozen_units(&state->model, settled);
}

bool state_tied(const struct state *state)
{
    return state->model.tied && state->freeze.frozen_layers == 0;
}

bool state_mirrored(const struct state *state, const struct unit_tensor *tensor)
{
    return tensor->mirror && state_tied(state);
}

static void drop_moments(struct state *state, struct state_unit *unit)
{
    state->kernel->release(state->device, unit->first_moment);
    state->kernel->release(state->device, unit->second_moment);
    unit->first_moment = unit->second_moment = NULL;
}

void state_drop_unit(struct state *state, unsigned index)
{
    struct state_unit *unit = &state->units[index];

    if (unit->weights != unit->parameters)
        state->kernel->release(state->device, unit->weights);
    state->kernel->release(state->device, unit->parameters);
    unit->parameters = NULL;
    unit->weights = NULL;
    drop_moments(state, unit);
    unit->held = unit->reserved = false;
}

void state_drop_all(struct state *state)
{
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        state_drop_unit(state, unit);
}

static int take_weights(struct state *state, struct kernel_device *device, struct state_unit *unit)
{
    size_t size_bytes = unit->layout.count * state->kernel->activation_size;

    if (state->kernel->activation_size == sizeof(float)) {
        unit->weights = unit->parameters;
        return 0;
    }
    return state->kernel->allocate(device, size_bytes, &unit->weights);
}

void state_make_weights(struct state *state, unsigned index)
{
    struct state_unit *unit = &state->units[index];

    if (unit->weights != unit->parameters)
        state->kernel->weights(state->device, unit->weights, unit->parameters, unit->layout.count);
}

int state_reserve_unit(struct state *state, struct kernel_device *device, unsigned index,
                       bool trained, struct error *error)
{
    struct state_unit *unit = &state->units[index];
    size_t size_bytes = unit->layout.count * sizeof(float);

    if (unit->held || (unit->reserved && (unit->first_moment || !trained)))
        return 0;
    if (unit->reserved)
        state_drop_unit(state, index);
    if (state->kernel->allocate(device, size_bytes, (void **)&unit->parameters) ||
        take_weights(state, device, unit) ||
        (trained && (state->kernel->allocate(device, size_bytes, (void **)&unit->first_moment) ||
                     state->kernel->allocate(device, size_bytes, (void **)&unit->second_moment)))) {
        state_drop_unit(state, index);
        return error_set(
            error, -ENOMEM,
            "no memory for unit %u (%zu MiB): does something else use the memory, or is "
            "slot_memory_mb too large?",
            index, size_bytes * (trained ? 3 : 1) >> 20);
    }
    unit->reserved = true;
    return 0;
}

int state_take_unit(struct state *state, unsigned index, struct error *error)
{
    struct state_unit *unit = &state->units[index];
    bool trained = index >= state_settled_units(state);

    if (unit->held)
        state_drop_unit(state, index);
    int status = state_reserve_unit(state, state->device, index, trained, error);
    if (status)
        return status;
    if (!trained)
        drop_moments(state, unit);
    unit->reserved = false;
    unit->held = true;
    return 0;
}

void state_begin(struct state *state)
{
    state->applied_step = 0;
    state->data_digest = 0;
    state->holds = false;
    freeze_init(&state->freeze, &state->spec->elastic.freeze);
    memset(&state->committed, 0, sizeof(state->committed));
}

json_t *state_encode(const struct state *state)
{
    char digest[DIGEST_DIGITS + 1];

    hex_text(state->data_digest, DIGEST_DIGITS, digest);
    return json_pack("{s:o, s:s}", "freeze", freeze_encode(&state->freeze, state->model.layers),
                     "data", digest);
}

int state_decode(const json_t *tree, unsigned layers, struct freeze_state *ret_freeze,
                 uint64_t *ret_data_digest, struct error *error)
{
    char digest[DIGEST_DIGITS + 1];
    json_t *freeze;
    int status = json_get_object(tree, "freeze", &freeze, error);

    *ret_data_digest = 0;
    if (!status)
        status = freeze_decode(freeze, layers, ret_freeze, error);
    if (status || !json_has(tree, "data")) /* checkpoints of earlier versions lack the key */
        return status;
    status = json_get_text(tree, "data", digest, sizeof(digest), error);
    if (!status &&
        (strlen(digest) != DIGEST_DIGITS || !hex_parse(digest, DIGEST_DIGITS, ret_data_digest)))
        status =
            error_set(error, -EINVAL, "\"data\" must have %u hexadecimal digits", DIGEST_DIGITS);
    return status;
}

/* Initialize a unit's parameters, through the host if the device has memory of its own. */
static int initialize_unit(struct state *state, unsigned index)
{
    struct state_unit *unit = &state->units[index];
    size_t count = unit->layout.count;
    uint64_t seed = state->spec->train.seed;

    if (state->kernel->host_memory) {
        model_unit_initialize(&state->model, index, seed, state->thread_count, unit->parameters);
        return 0;
    }
    AUTO_FREE float *host = malloc(count * sizeof(float));
    if (!host)
        return -ENOMEM;
    model_unit_initialize(&state->model, index, seed, state->thread_count, host);
    state->kernel->upload(state->device, unit->parameters, host, count * sizeof(float));
    return 0;
}

int state_initialize(struct state *state, unsigned first, unsigned count, struct error *error)
{
    state_begin(state);
    for (unsigned unit = first; unit < first + count; unit++) {
        int status = state_take_unit(state, unit, error);
        if (!status && initialize_unit(state, unit))
            status = error_set(error, -ENOMEM, "no memory to initialize unit %u", unit);
        if (status)
            return status;
    }
    return 0;
}

/* Drop the moments of frozen units, or clear them if the units may thaw. */
static void freeze_moments(struct state *state, unsigned frozen_before)
{
    unsigned settled = state_settled_units(state);

    for (unsigned index = 0; index < state_frozen_units(state); index++) {
        struct state_unit *unit = &state->units[index];
        size_t size_bytes = unit->layout.count * sizeof(float);
        if (!unit->held) /* it may just be reserved, by another thread */
            continue;
        if (index < settled) {
            drop_moments(state, unit);
        } else if (index >= frozen_before) {
            state->kernel->zero(state->device, unit->first_moment, size_bytes);
            state->kernel->zero(state->device, unit->second_moment, size_bytes);
        }
    }
}

void state_apply(struct state *state, const struct step_record *record, float *const *gradients)
{
    assert(record->step == state->applied_step + 1);
    if (step_record_finite(record))
        optimizer_step(state, record, gradients);
    state->applied_step = record->step;
    state->committed = *record;
    state->holds = false;
    unsigned frozen_before = state_frozen_units(state);
    freeze_step(&state->freeze, &state->spec->elastic.freeze, &state->spec->model, record);
    freeze_moments(state, frozen_before);
}

void state_list_held(const struct state *state, bool *ret_held)
{
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        ret_held[unit] = state->units[unit].held;
}

void state_held_range(const struct state *state, unsigned from, unsigned *ret_first,
                      unsigned *ret_count)
{
    unsigned first = from, end;

    while (first < state->unit_count && !state->units[first].held)
        first++;
    for (end = first; end < state->unit_count && state->units[end].held;)
        end++;
    *ret_first = first;
    *ret_count = end - first;
}
