#include "elastic/step/freeze.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "elastic/job/job_model_cost.h"

void freeze_init(struct freeze_state *state, const struct job_freezing *freezing)
{
    *state = (struct freeze_state){.frozen_layers = freezing->from_start};
    plasticity_init(&state->plasticity);
}

static void accumulate(struct freeze_state *state, const struct step_record *record,
                       unsigned layers)
{
    for (unsigned layer = 0; layer < layers; layer++) {
        double attention = record->unit_squares[1 + 2 * layer];
        double mlp = record->unit_squares[2 + 2 * layer];
        state->layer_squares[layer] += attention + mlp;
    }
}

/* Return the trained layer with the smallest gradients. */
static unsigned calmest_layer(const struct freeze_state *state, unsigned layers)
{
    unsigned calmest = state->frozen_layers;
    for (unsigned layer = calmest + 1; layer < layers; layer++)
        if (state->layer_squares[layer] < state->layer_squares[calmest])
            calmest = layer;
    return calmest;
}

/* Round up to whole layers; the slack keeps 0.07 * 100 = 7.000000000000001 at 7. */
static unsigned whole_layers(double layers)
{
    return (unsigned)ceil(layers - 1e-9);
}

/* Return the number of layers that may be frozen after this decision. */
static unsigned most_after(const struct freeze_state *state, const struct job_freezing *freezing,
                           const struct job_model *model)
{
    double frozen = state->frozen_layers;

    return whole_layers(frozen + freezing->alpha * (model->layers - frozen));
}

static unsigned decide_gradient(const struct freeze_state *state,
                                const struct job_freezing *freezing, const struct job_model *model)
{
    if (state->frozen_layers >= model->layers)
        return model->layers;
    return MIN(most_after(state, freezing, model), calmest_layer(state, model->layers) + 1);
}

/*
 * Compute layers * (1 - alpha)^t by repeated multiplication: the same bits on every machine, unlike
 * pow(). Stop early when the remainder is below the slack.
 */
static unsigned decide_schedule(const struct freeze_state *state,
                                const struct job_freezing *freezing, const struct job_model *model)
{
    double left = model->layers;
    for (uint64_t t = 0; t < state->decisions && left > 1e-9; t++)
        left *= 1 - freezing->alpha;
    return whole_layers(model->layers - left);
}

static unsigned decide_budget(const struct freeze_state *state, const struct job_freezing *freezing,
                              const struct job_model *model)
{
    unsigned frozen = state->frozen_layers, most = most_after(state, freezing, model);

    while (frozen < most && job_model_step_share(model, frozen) > freezing->budget)
        frozen++;
    return frozen;
}

static unsigned decide_plasticity(const struct freeze_state *state,
                                  const struct job_freezing *freezing)
{
    return state->frozen_layers +
           plasticity_is_calm(&state->plasticity, freezing->patience, freezing->tolerance);
}

static unsigned decide_by_policy(const struct freeze_state *state,
                                 const struct job_freezing *freezing, const struct job_model *model)
{
    switch (freezing->policy) {
    case JOB_FREEZE_NONE:
        break;
    case JOB_FREEZE_GRADIENT:
        return decide_gradient(state, freezing, model);
    case JOB_FREEZE_SCHEDULE:
        return decide_schedule(state, freezing, model);
    case JOB_FREEZE_PLASTICITY:
        return decide_plasticity(state, freezing);
    case JOB_FREEZE_BUDGET:
        return decide_budget(state, freezing, model);
    }
    return state->frozen_layers;
}

static unsigned most_frozen(const struct job_freezing *freezing, const struct job_model *model)
{
    return model->layers - MIN(freezing->keep_active, model->layers);
}

static void decide(struct freeze_state *state, const struct job_freezing *freezing,
                   const struct job_model *model)
{
    unsigned frozen_before = state->frozen_layers;

    state->decisions++;
    unsigned frozen = MIN(decide_by_policy(state, freezing, model), most_frozen(freezing, model));
    state->frozen_layers = MAX(frozen_before, frozen);
    if (state->frozen_layers != frozen_before)
        plasticity_next_layer(&state->plasticity);
    memset(state->layer_squares, 0, sizeof(state->layer_squares));
}

static bool is_time_to_decide(const struct job_freezing *freezing, uint64_t step)
{
    return step > freezing->after && (step - freezing->after) % freezing->every == 0;
}

bool freeze_measures(const struct freeze_state *state, const struct job_freezing *freezing,
                     const struct job_model *model, uint64_t step)
{
    return freezing->policy == JOB_FREEZE_PLASTICITY && is_time_to_decide(freezing, step) &&
           state->frozen_layers < most_frozen(freezing, model);
}

/* A loss that is not finite is worse than any other. */
static void validate(struct freeze_state *state, const struct step_record *record)
{
    double loss = step_record_validation_loss(record, 1);

    state->last_validation = isfinite(loss) ? loss : INFINITY;
    if (isfinite(loss) && (state->best_validation <= 0 || loss < state->best_validation))
        state->best_validation = loss;
}

/* Return whether the loss is above the best one by more than @margin of it; 0: there is no margin
 */
static bool is_worse(const struct freeze_state *state, double margin)
{
    return margin > 0 && state->last_validation > state->best_validation * (1 + margin);
}

unsigned freeze_settled(const struct job_freezing *freezing, const struct job_model *model,
                        unsigned frozen_layers)
{
    unsigned settled = MAX(freezing->from_start, model->tied ? 1U : 0U);

    return freezing->thaw > 0 ? MIN(frozen_layers, settled) : frozen_layers;
}

static void thaw(struct freeze_state *state, const struct job_freezing *freezing,
                 const struct job_model *model, uint64_t step)
{
    unsigned settled = freeze_settled(freezing, model, state->frozen_layers);

    for (unsigned layer = settled; layer < state->frozen_layers; layer++)
        state->layer_thawed[layer] = step;
    state->frozen_layers = settled;
    state->decisions = 0;
    plasticity_init(&state->plasticity);
    memset(state->layer_squares, 0, sizeof(state->layer_squares));
}

void freeze_step(struct freeze_state *state, const struct job_freezing *freezing,
                 const struct job_model *model, const struct step_record *record)
{
    assert(model->layers <= FREEZE_LAYERS_MAX);
    assert(record->unit_count == job_model_unit_count(model));
    if (freezing->policy == JOB_FREEZE_NONE)
        return;
    if ((freezing->guard > 0 || freezing->thaw > 0) && record->evaluated)
        validate(state, record);
    if (is_worse(state, freezing->thaw)) {
        thaw(state, freezing, model, record->step);
        return;
    }
    if (record->step <= freezing->after)
        return;
    if (step_record_finite(record))
        accumulate(state, record, model->layers);
    if (record->has_similarities)
        plasticity_take(&state->plasticity, record->similarities);
    if (is_time_to_decide(freezing, record->step) && !is_worse(state, freezing->guard))
        decide(state, freezing, model);
}

/* The embedding freezes and thaws with the first layer; the head never freezes. */
uint64_t freeze_unit_steps(const struct freeze_state *state, const struct job_model *model,
                           unsigned unit, uint64_t step)
{
    unsigned layer = unit == 0 ? 0 : (unit - 1) / 2;
    uint64_t thawed = layer < model->layers ? state->layer_thawed[layer] : 0;

    return step > thawed ? step - thawed : step;
}

void freeze_forget_data(struct freeze_state *state)
{
    plasticity_init(&state->plasticity);
    state->best_validation = state->last_validation = 0;
}

/* A state without plasticity has no key. */
static int put_plasticity(json_t *tree, const struct plasticity *plasticity)
{
    if (!plasticity->has_before)
        return 0;
    return json_object_set_new(tree, "plasticity", plasticity_encode(plasticity));
}

/* A state in which nothing has thawed has no key. */
static int put_thaws(json_t *tree, const struct freeze_state *state, unsigned layers)
{
    AUTO_JSON json_t *thaws = json_array();
    uint64_t newest = 0;

    for (unsigned layer = 0; layer < layers; layer++) {
        newest = MAX(newest, state->layer_thawed[layer]);
        if (json_array_append_new(thaws, json_integer((json_int_t)state->layer_thawed[layer])))
            return -ENOMEM;
    }
    return newest > 0 ? json_object_set(tree, "layer_thawed", thaws) : 0;
}

json_t *freeze_encode(const struct freeze_state *state, unsigned layers)
{
    AUTO_JSON json_t *tree = json_pack("{sI sI}", "frozen_layers", (json_int_t)state->frozen_layers,
                                       "decisions", (json_int_t)state->decisions);

    if (!tree || json_put_bits64_array(tree, "layer_squares", state->layer_squares, layers) ||
        (state->last_validation > 0 &&
         (json_put_bits64(tree, "best_validation", state->best_validation) ||
          json_put_bits64(tree, "last_validation", state->last_validation))) ||
        put_thaws(tree, state, layers) || put_plasticity(tree, &state->plasticity))
        return NULL;
    return json_incref(tree);
}

/* A loss that was not measured has no key. */
static int get_loss(const json_t *tree, const char *key, double *ret_loss, struct error *error)
{
    int status = json_has(tree, key) ? json_get_bits64(tree, key, ret_loss, error) : 0;

    if (!status && !(*ret_loss >= 0))
        return error_set(error, -EINVAL, "\"%s\" must not be negative", key);
    return status;
}

static int get_thaws(const json_t *tree, unsigned layers, uint64_t *ret_steps, struct error *error)
{
    json_t *thaws;

    if (!json_has(tree, "layer_thawed"))
        return 0;
    int status = json_get_array(tree, "layer_thawed", layers, &thaws, error);
    if (status)
        return status;
    if (json_array_size(thaws) != layers)
        return error_set(error, -EINVAL, "\"layer_thawed\" has %zu values for %u layers",
                         json_array_size(thaws), layers);
    for (unsigned layer = 0; layer < layers; layer++) {
        const json_t *step = json_array_get(thaws, layer);
        if (!json_is_integer(step) || json_integer_value(step) < 0)
            return error_set(error, -EINVAL, "\"layer_thawed\"[%u] must be a step", layer);
        ret_steps[layer] = (uint64_t)json_integer_value(step);
    }
    return 0;
}

int freeze_decode(const json_t *tree, unsigned layers, struct freeze_state *ret_state,
                  struct error *error)
{
    struct freeze_state state = {0};
    size_t squares = 0;
    const json_t *plasticity = json_object_get(tree, "plasticity");
    assert(layers <= FREEZE_LAYERS_MAX);
    plasticity_init(&state.plasticity);
    int status = json_get_unsigned(tree, "frozen_layers", layers, &state.frozen_layers, error);
    if (status == 0)
        status = json_get_u64(tree, "decisions", INT64_MAX, &state.decisions, error);
    if (status == 0)
        status = get_loss(tree, "best_validation", &state.best_validation, error);
    if (status == 0)
        status = get_loss(tree, "last_validation", &state.last_validation, error);
    if (status == 0)
        status = get_thaws(tree, layers, state.layer_thawed, error);
    if (status == 0 && plasticity)
        status = plasticity_decode(plasticity, &state.plasticity, error);
    if (status == 0)
        status = json_get_bits64_array(tree, "layer_squares", layers, state.layer_squares, &squares,
                                       error);
    if (status < 0)
        return status;
    if (squares != layers)
        return error_set(error, -EINVAL, "\"layer_squares\" has %zu values for %u layers", squares,
                         layers);
    *ret_state = state;
    return 0;
}
