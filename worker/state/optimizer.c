#include "worker/state/optimizer.h"

#include "elastic/job/job_spec.h"
#include "elastic/job/learning_rate.h"

/* Return the factor that scales the global norm down to the clip. */
static float clip_scale(const struct job_optimizer *optimizer, const struct step_record *record)
{
    double norm = step_record_norm(record), clip = optimizer->clip;

    if (clip <= 0 || !(norm > clip))
        return 1.0f;
    return (float)(clip / norm);
}

/* Return the stream of random numbers that rounds a tensor: its place in the model, the same on
 * every layout. The 6 is the former maximum of tensors per unit; it keeps the streams of older
 * jobs. */
static uint64_t rounding_stream(const struct state *state, unsigned index, unsigned tensor)
{
    const unsigned first = 6;

    if (tensor < first)
        return (uint64_t)index * first + tensor;
    return (uint64_t)state->unit_count * first + (uint64_t)index * UNIT_TENSORS_MAX + tensor;
}

/* List the tensors of one unit. Return their number. */
static unsigned list_tensors(const struct state *state, unsigned index, const float *gradient,
                             struct kernel_adamw_tensor *tensors)
{
    const struct state_unit *unit = &state->units[index];

    for (unsigned i = 0; i < unit->layout.tensor_count; i++) {
        const struct unit_tensor *tensor = &unit->layout.tensors[i];
        tensors[i] = (struct kernel_adamw_tensor){
            .parameter = unit->parameters + tensor->offset,
            .first_moment = unit->first_moment + tensor->offset,
            .second_moment = unit->second_moment + tensor->offset,
            .gradient = gradient + tensor->offset,
            .weight = (char *)unit->weights + tensor->offset * state->kernel->activation_size,
            .count = tensor->count,
            .stream = rounding_stream(state, index, i),
            .decay = tensor->decay};
    }
    return unit->layout.tensor_count;
}

void optimizer_step(struct state *state, const struct step_record *record, float *const *gradients)
{
    const struct job_spec *spec = state->spec;
    struct kernel_adamw options = {
        .lr = (float)learning_rate_at(&spec->train, record->step),
        .beta1 = (float)spec->train.optimizer.beta1,
        .beta2 = (float)spec->train.optimizer.beta2,
        .epsilon = (float)spec->train.optimizer.epsilon,
        .weight_decay = (float)spec->train.optimizer.weight_decay,
        .gradient_scale = clip_scale(&spec->train.optimizer, record),
        .step = record->step,
    };
    unsigned count = 0;

    for (unsigned unit = state_frozen_units(state); unit < state->unit_count; unit++) {
        uint64_t step = freeze_unit_steps(&state->freeze, &spec->model, unit, record->step);
        if (!gradients[unit])
            continue;
        if (count > 0 && step != options.step) { /* some layers have thawed later than others */
            state->kernel->adamw(state->device, state->step_tensors, count, &options);
            count = 0;
        }
        options.step = step;
        count += list_tensors(state, unit, gradients[unit], state->step_tensors + count);
    }
    state->kernel->adamw(state->device, state->step_tensors, count, &options);
}
