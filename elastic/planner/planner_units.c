/*
 * Costs of units before any measurement, per micro-batch: the multiplications of the matrix
 * products and the arrays that backward needs.
 */
#include "elastic/planner/planner.h"

#include <math.h>
#include <string.h>

#include "elastic/job/job_model_cost.h"
#include "elastic/planner/process_memory.h"
#include "elastic/step/freeze.h"

/* Parameters of one unit: matrices; with gpt2 also positions, biases and the norm's second vector;
 * with llama models that have them also the biases of queries, keys and values, or the norms of
 * heads. */
static double parameter_count(const struct job_model *model, unsigned unit)
{
    double width = model->width, vocab = model->vocab, context = model->context;
    unsigned last = 2 * model->layers + 1;
    bool llama = job_model_is_llama(model);
    double norm = llama ? width : 2 * width;
    if (unit == 0)
        return (vocab + (llama ? 0 : context)) * width;
    if (unit == last)
        return vocab * width + norm;
    struct job_unit_widths widths = job_unit_widths(model, unit);
    double biases = widths.wide + width;
    if (llama)
        biases = model->qkv_bias && unit % 2 == 1 ? widths.wide : 0;
    if (model->qk_norm && unit % 2 == 1)
        norm += 2 * (double)model->head_width;
    return width * widths.wide + widths.mixed * width + biases + norm;
}

size_t planner_parameter_bytes(const struct job_model *model, unsigned unit)
{
    return (size_t)parameter_count(model, unit) * sizeof(float);
}

/* model/net/unit.h: logits have rows of whole lines. */
static double logits_stride(double vocab)
{
    const double align = 64;
    return ceil(vocab / align) * align;
}

/* Return the bytes kept from forward to backward, input stream included: activations of @size bytes
 * each, and tokens, statistics and losses of 4 bytes each. */
static double activation_bytes(const struct job_model *model, unsigned unit, double tokens,
                               double size)
{
    double width = model->width, vocab = model->vocab, words = sizeof(float);
    double norm = words * (job_model_is_llama(model) ? 1 : 2);
    unsigned last = 2 * model->layers + 1;
    if (unit == 0)
        return tokens * words;
    if (unit == last)
        return tokens * (size * (2 * width + logits_stride(vocab)) + norm + 2 * words);
    struct job_unit_widths widths = job_unit_widths(model, unit);
    double heads = unit % 2 == 1 ? model->heads : 0;
    return tokens * (size * (2 * width + widths.wide + widths.mixed) + norm + words * heads);
}

/* model/net/stage.c: two work buffers of backward, the gradients of the incoming and the outgoing
 * stream, and, if heads have norms, the normalized rows of a sublayer. */
static double scratch_bytes(const struct job_model *model, double tokens, double size)
{
    double width = model->width;
    struct job_unit_widths attention = job_unit_widths(model, 1), mlp = job_unit_widths(model, 2);
    double heads = model->heads + model->kv_heads, words = sizeof(float);
    double normed = model->qk_norm ? size * attention.wide + words * heads : 0;
    return tokens *
           (size * (fmax(width, attention.mixed) + fmax(attention.wide, mlp.mixed) + 2 * width) +
            normed);
}

/* kernels/kernel.h: two bytes for each score of a sample, up to 4 GiB, less the 256 MiB that firnd
 * leaves. Libraries compute attention in bf16 alone. */
size_t planner_workspace_bytes(const struct job_model *model, size_t activation_size)
{
    const double left = 256.0 * (1 << 20), most = 4096.0 * (1 << 20);
    double scores = (double)model->heads * model->context * model->context;

    return activation_size == sizeof(float) ? 0 : (size_t)fmax(fmin(2 * scores, most) - left, 0);
}

/* model/net/stage.h: sublayers can be recomputed, table and head cannot. */
static enum plan_recompute recomputed_from(const struct job_model *model, unsigned unit)
{
    if (unit == 0 || unit == 2 * model->layers + 1)
        return PLAN_RECOMPUTE_NONE;
    return unit % 2 == 1 ? PLAN_RECOMPUTE_ATTENTION : PLAN_RECOMPUTE_FULL;
}

/* Return the seconds of the gradients of weights: as many multiplications as the products of a
 * forward. Table and head are not split. */
static double weight_seconds(const struct job_model *model, unsigned unit, double tokens,
                             const struct slot_rates *rates)
{
    struct job_unit_widths widths = job_unit_widths(model, unit);

    if (unit == 0 || unit == 2 * model->layers + 1)
        return 0;
    return 2 * tokens * model->width * (widths.wide + widths.mixed) / rates->flops_per_second;
}

/* model/net/stage_private.h: the gradients of norms, each padded as in the unit. */
static size_t norm_bytes(const struct job_model *model, unsigned unit)
{
    const size_t align = 16;
    size_t norm = (model->width + align - 1) / align * align;
    size_t head = (model->head_width + align - 1) / align * align;

    if (unit == 0)
        return 0;
    size_t count = job_model_is_llama(model) ? norm : 2 * norm;
    return (count + (model->qk_norm && unit % 2 == 1 ? 2 * head : 0)) * sizeof(float);
}

void planner_units(const struct job_model *model, const struct job_training *training,
                   unsigned frozen_layers, const struct slot_rates *rates,
                   struct planner_unit *ret_units)
{
    double size = (double)rates->activation_size;
    double tokens = (double)training->micro_batch * model->context;
    unsigned count = 2 * model->layers + 2;
    unsigned frozen_units = job_model_frozen_units(frozen_layers);
    for (unsigned unit = 0; unit < count; unit++) {
        bool trained = unit >= frozen_units;
        double forward = job_unit_forward_flops(model, unit, tokens) / rates->flops_per_second;
        ret_units[unit] = (struct planner_unit){
            .forward_seconds = forward,
            .backward_seconds = trained ? 2 * forward : 0,
            .weight_seconds = trained ? weight_seconds(model, unit, tokens, rates) : 0,
            .parameter_bytes = planner_parameter_bytes(model, unit),
            .activation_bytes = (size_t)activation_bytes(model, unit, tokens, size),
            .boundary_bytes = (size_t)(tokens * model->width) * rates->activation_size,
            .weight_bytes = rates->activation_size == sizeof(float)
                                ? 0
                                : (size_t)parameter_count(model, unit) * rates->activation_size,
            .scratch_bytes = (size_t)scratch_bytes(model, tokens, size) +
                             planner_workspace_bytes(model, rates->activation_size),
            .link_bytes =
                rates->host_memory ? (size_t)(tokens * model->width) * rates->activation_size : 0,
            .tied_bytes = model->tied && frozen_units == 0 && (unit == 0 || unit + 1 == count)
                              ? (size_t)model->vocab * model->width * sizeof(float)
                              : 0,
            .norm_bytes = trained ? norm_bytes(model, unit) : 0,
            .samples = training->micro_batch,
            .trained = trained,
            .head = unit + 1 == count,
            .again = recomputed_from(model, unit),
        };
    }
}

void planner_thaw(struct planner_unit *units, const struct job_spec *spec, unsigned frozen_layers)
{
    unsigned settled = freeze_settled(&spec->elastic.freeze, &spec->model, frozen_layers);

    for (unsigned unit = job_model_frozen_units(settled); !units[unit].trained; unit++) {
        units[unit].thaws = true;
        units[unit].norm_bytes = norm_bytes(&spec->model, unit);
    }
}

void planner_keep(struct planner_input *input, struct planner_unit *units,
                  const struct planner_kept *kept)
{
    input->kept = *kept;
    for (unsigned unit = 0; unit < MIN(kept->unit_count, input->unit_count); unit++)
        units[unit].kept_seconds =
            units[unit].trained ? 0 : kept->share * units[unit].forward_seconds;
}

static struct slot_rates rates_of(const struct planner_slot *slots, unsigned slot_count,
                                  enum job_precision precision)
{
    unsigned gpus = 0;
    bool one_node = true;
    struct slot_measured best = {0};

    for (unsigned i = 0; i < slot_count; i++) {
        gpus += slots[i].gpu;
        one_node = one_node && strcmp(slots[i].node, slots[0].node) == 0;
        slot_measured_raise(&best, &slots[i].measured);
    }
    struct slot_rates rates = slot_rates(slot_count > 0 && gpus == slot_count, precision);
    if (gpus == 0 || gpus == slot_count)
        slot_rates_correct(&rates, gpus == 0 ? JOB_PRECISION_F32 : precision, &best, one_node);
    return rates;
}

static unsigned most_threads(const struct planner_slot *slots, unsigned slot_count)
{
    unsigned most = 0;

    for (unsigned i = 0; i < slot_count; i++)
        most = MAX(most, slots[i].threads);
    return most;
}

static bool any_gpu(const struct planner_slot *slots, unsigned slot_count)
{
    for (unsigned i = 0; i < slot_count; i++)
        if (slots[i].gpu)
            return true;
    return false;
}

void planner_job(const struct job_spec *spec, unsigned frozen_layers,
                 const struct planner_slot *slots, unsigned slot_count, struct planner_unit *units,
                 struct planner_input *ret_input)
{
    const struct slot_rates rates = rates_of(slots, slot_count, spec->train.precision);

    planner_units(&spec->model, &spec->train, frozen_layers, &rates, units);
    planner_thaw(units, spec, frozen_layers);
    *ret_input = (struct planner_input){
        .units = units,
        .unit_count = job_model_unit_count(&spec->model),
        .slots = slots,
        .slot_count = slot_count,
        .updated_bytes_second = rates.updated_bytes_second,
        .lanes = spec->train.lanes,
        .micro_batches_per_lane = spec->train.micro_batches_per_lane,
        .link_bytes_per_second = rates.link_bytes_per_second,
        .link_latency_seconds = rates.link_latency_seconds,
        .shares_lanes = !any_gpu(slots, slot_count),
        .defers_nothing = spec->elastic.pipeline == JOB_PIPELINE_1F1B,
        .kept_alone = !rates.host_memory, /* worker/step/frozen_prefix.h */
        .process_bytes =
            rates.host_memory ? process_bytes(&spec->model, most_threads(slots, slot_count)) : 0,
    };
}
