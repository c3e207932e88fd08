#include "elastic/job/job_rules.h"

#include <inttypes.h>
#include <math.h>

#include "elastic/job/job_model_cost.h"
#include "elastic/job/job_spec.h"

/* This limit keeps products of a step's tokens and a few bytes far from overflow. */
#define STEP_TOKENS_MAX (1ull << 40)
/* Samples are counted in 64 bits; JSON readers are exact to 53. */
#define JOB_SAMPLES_MAX (1ull << 53)
#define BYTE_VALUES     256

#define GPT2_NORM_EPSILON     1e-5
#define ROPE_THETA_UNUSED     10000.0 /* default of a key that gpt2 does not use */
#define LLAMA_WIDTH_STEP      16      /* matrices and biases of one product are contiguous */
#define LLAMA_HEADS_WIDTH_MAX 65536

#define EVICT_FACTOR_MIN 1.2

/* Return the largest divisor of @width up to @heads; 1 always divides it. */
static unsigned divisor_at_most(unsigned width, unsigned heads)
{
    while (heads > 1 && (heads > width || width % heads != 0))
        heads--;
    return heads;
}

/* Return the smallest divisor of @width from @heads on; the width always divides itself. */
static unsigned divisor_at_least(unsigned width, unsigned heads)
{
    while (heads < width && width % heads != 0)
        heads++;
    return heads < width ? heads : width;
}

static void fixed_by_gpt2(struct job_problems *problems, const char *key, double found,
                          double fixed)
{
    if (found < fixed || found > fixed)
        job_problem(problems, key, "%g cannot be chosen with gpt2, where it is %g here", found,
                    fixed);
}

static void check_gpt2(struct job_problems *problems, const struct job_model *model)
{
    unsigned width = model->width, heads = model->heads;
    fixed_by_gpt2(problems, "model.kv_heads", model->kv_heads, heads);
    fixed_by_gpt2(problems, "model.head_width", model->head_width, (double)width / heads);
    fixed_by_gpt2(problems, "model.hidden", model->hidden, 4.0 * width);
    fixed_by_gpt2(problems, "model.rope_theta", model->rope_theta, ROPE_THETA_UNUSED);
    if (model->qkv_bias)
        job_problem(problems, "model.qkv_bias", "gpt2 has all its biases without being told");
    if (model->qk_norm)
        job_problem(problems, "model.qk_norm", "gpt2 has no norms of heads");
    if (model->rope_scaling.type != JOB_ROPE_PLAIN)
        job_problem(problems, "model.rope_scaling.type",
                    "gpt2 has no rotary embedding that could be scaled");
    fixed_by_gpt2(problems, "model.norm_epsilon", model->norm_epsilon, GPT2_NORM_EPSILON);
}

/* A parameter that the chosen scaling does not use is a mistake in the job file. */
static void check_rope_scaling(struct job_problems *problems,
                               const struct job_rope_scaling *scaling)
{
    double low = scaling->low_frequency_factor;
    double high = scaling->high_frequency_factor;
    if (scaling->type == JOB_ROPE_PLAIN && scaling->factor > 1)
        job_problem(problems, "model.rope_scaling.factor",
                    "%g means nothing without model.rope_scaling.type", scaling->factor);
    if (high <= low)
        job_problem(problems, "model.rope_scaling.high_frequency_factor",
                    "%g is not above low_frequency_factor %g", high, low);
}

/* Check the requirements of model/net/spec.c and report them with the keys of a job file. */
static void check_llama(struct job_problems *problems, const struct job_model *model)
{
    if (model->width % LLAMA_WIDTH_STEP != 0)
        job_problem(problems, "model.width", "%u is no multiple of %d, as llama needs",
                    model->width, LLAMA_WIDTH_STEP);
    if (model->heads % model->kv_heads != 0)
        job_problem(problems, "model.kv_heads", "%u do not divide model.heads %u", model->kv_heads,
                    model->heads);
    if (model->head_width % 2 != 0)
        job_problem(problems, "model.head_width",
                    "%u is odd, and the rotary embedding turns pairs of columns",
                    model->head_width);
    if ((uint64_t)model->heads * model->head_width > LLAMA_HEADS_WIDTH_MAX)
        job_problem(problems, "model.head_width",
                    "%u heads of %u columns are more than %d together", model->heads,
                    model->head_width, LLAMA_HEADS_WIDTH_MAX);
    unsigned kv_width = model->kv_heads * model->head_width;
    if (model->qkv_bias && kv_width % LLAMA_WIDTH_STEP != 0)
        job_problem(problems, "model.qkv_bias",
                    "%u heads of keys of %u columns are no multiple of %d, as biases need",
                    model->kv_heads, model->head_width, LLAMA_WIDTH_STEP);
    if (model->qkv_bias && model->qk_norm)
        job_problem(problems, "model.qk_norm", "no model has it and model.qkv_bias, too");
    check_rope_scaling(problems, &model->rope_scaling);
}

static void check_family(struct job_problems *problems, const struct job_spec *spec)
{
    unsigned width = spec->model.width, heads = spec->model.heads;
    bool llama = job_model_is_llama(&spec->model);
    if (llama ? spec->model.head_width == 0 : heads > width || width % heads != 0)
        job_problem(problems, "model.heads",
                    "%u heads do not divide model.width %u; the nearest that do are %u and %u",
                    heads, width, divisor_at_most(width, heads), divisor_at_least(width, heads));
    else if (llama)
        check_llama(problems, &spec->model);
    else
        check_gpt2(problems, &spec->model);
}

static void check_vocabulary(struct job_problems *problems, const struct job_spec *spec)
{
    if (spec->data.format == JOB_FORMAT_BYTES && spec->model.vocab < BYTE_VALUES)
        job_problem(problems, "model.vocab",
                    "%u tokens are too few for data.format bytes, which has %d", spec->model.vocab,
                    BYTE_VALUES);
}

static void check_freezing(struct job_problems *problems, const struct job_spec *spec)
{
    if (spec->elastic.freeze.keep_active > spec->model.layers)
        job_problem(problems, "elastic.freeze.keep_active",
                    "%u is more than the %u of model.layers", spec->elastic.freeze.keep_active,
                    spec->model.layers);
    else if (spec->elastic.freeze.from_start >
             spec->model.layers - spec->elastic.freeze.keep_active)
        job_problem(
            problems, "elastic.freeze.from_start",
            "%u and the %u of elastic.freeze.keep_active are more than the %u of model.layers",
            spec->elastic.freeze.from_start, spec->elastic.freeze.keep_active, spec->model.layers);
}

static void check_guard(struct job_problems *problems, const struct job_spec *spec)
{
    if (spec->elastic.freeze.guard > 0 && spec->evaluate.every == 0)
        job_problem(
            problems, "elastic.freeze.guard",
            "a guard follows the validation loss, which evaluate.every 0 never measures: set "
            "evaluate.every");
}

static void check_thaw(struct job_problems *problems, const struct job_spec *spec)
{
    if (spec->elastic.freeze.thaw <= 0)
        return;
    if (spec->elastic.freeze.policy == JOB_FREEZE_NONE)
        job_problem(
            problems, "elastic.freeze.thaw",
            "with elastic.freeze.policy none no layer freezes that could thaw: choose a policy");
    else if (spec->evaluate.every == 0)
        job_problem(
            problems, "elastic.freeze.thaw",
            "layers thaw by the validation loss, which evaluate.every 0 never measures: set "
            "evaluate.every");
}

/* Plasticity is measured in evaluations: the steps of decisions must be among those of evaluations.
 */
static void check_plasticity(struct job_problems *problems, const struct job_spec *spec)
{
    const struct job_freezing *freeze = &spec->elastic.freeze;
    uint64_t every = spec->evaluate.every;

    if (freeze->policy != JOB_FREEZE_PLASTICITY)
        return;
    if (every == 0)
        job_problem(
            problems, "elastic.freeze.policy",
            "plasticity is measured in evaluations, which evaluate.every 0 never makes: set "
            "evaluate.every");
    else if (freeze->every % every)
        job_problem(problems, "elastic.freeze.every",
                    "plasticity is measured in evaluations: %" PRIu64
                    " must be a multiple of the %" PRIu64 " of evaluate.every",
                    freeze->every, every);
    else if (freeze->after % every)
        job_problem(problems, "elastic.freeze.after",
                    "plasticity is measured in evaluations: %" PRIu64
                    " must be a multiple of the %" PRIu64 " of evaluate.every",
                    freeze->after, every);
}

static void check_budget(struct job_problems *problems, const struct job_spec *spec)
{
    const struct job_freezing *freeze = &spec->elastic.freeze;
    unsigned most = spec->model.layers - MIN(freeze->keep_active, spec->model.layers);
    double least = job_model_step_share(&spec->model, most);

    if (freeze->policy == JOB_FREEZE_BUDGET && freeze->budget < least)
        job_problem(problems, "elastic.freeze.budget",
                    "%g is less than the %.3f that a step costs with all layers frozen but the %u "
                    "of elastic.freeze.keep_active: set that at the least, or keep fewer layers "
                    "active",
                    freeze->budget, ceil(least * 1000) / 1000, freeze->keep_active);
}

static void check_sizes(struct job_problems *problems, const struct job_spec *spec)
{
    uint64_t samples, tokens, all;
    if (__builtin_mul_overflow((uint64_t)spec->train.lanes * spec->train.micro_batch,
                               (uint64_t)spec->train.micro_batches_per_lane, &samples) ||
        __builtin_mul_overflow(samples, (uint64_t)spec->model.context, &tokens) ||
        tokens > STEP_TOKENS_MAX)
        job_problem(problems, "train.micro_batch",
                    "lanes x micro_batch x micro_batches_per_lane x model.context is more than "
                    "2^40 tokens a step");
    else if (__builtin_mul_overflow(samples, spec->train.steps, &all) || all > JOB_SAMPLES_MAX)
        job_problem(problems, "train.steps", "the whole job would read more than 2^53 samples");
    if (spec->train.optimizer.warmup > spec->train.steps)
        job_problem(problems, "train.optimizer.warmup", "%llu steps are more than train.steps %llu",
                    (unsigned long long)spec->train.optimizer.warmup,
                    (unsigned long long)spec->train.steps);
}

/* The optimizer and the norms compute in 32 bits, where 1 / 0 would be NaN in the second step. */
static void check_precision(struct job_problems *problems, const struct job_spec *spec)
{
    const struct job_optimizer *optimizer = &spec->train.optimizer;
    if ((float)optimizer->beta1 >= 1 || (float)optimizer->beta2 >= 1)
        job_problem(problems, "train.optimizer.betas", "[%.9g, %.9g] has a 1 in 32 bits",
                    optimizer->beta1, optimizer->beta2);
    if ((float)optimizer->epsilon <= 0)
        job_problem(problems, "train.optimizer.eps", "%g is 0 in 32 bits", optimizer->epsilon);
    if ((float)spec->model.norm_epsilon <= 0)
        job_problem(problems, "model.norm_epsilon", "%g is 0 in 32 bits", spec->model.norm_epsilon);
}

/* With a factor closer to 1 normal variation would evict workers. */
static void check_eviction(struct job_problems *problems, const struct job_spec *spec)
{
    double factor = spec->elastic.evict_stragglers.factor;
    if (factor != 0 && factor < EVICT_FACTOR_MIN)
        job_problem(problems, "elastic.evict_stragglers.factor",
                    "%.16g times is within the noise of measuring; needs 0 (never), or at least %g",
                    factor, EVICT_FACTOR_MIN);
}

/* A masked training loss and an unmasked validation loss are not comparable. */
static void check_masks(struct job_problems *problems, const struct job_spec *spec)
{
    bool own_validation = spec->data.validation_path[0] != '\0';
    bool own_mask = spec->data.validation_mask[0] != '\0';
    bool masked = spec->data.mask.count > 0;
    if (masked && own_validation && !own_mask)
        job_problem(problems, "data.validation_mask",
                    "is missing: data.mask says which tokens of data.path count in the loss, and "
                    "data.validation is a path of its own");
    else if (own_mask && !(masked && own_validation))
        job_problem(problems, "data.validation_mask",
                    "belongs to data.mask and a path at data.validation; a share of data.path has "
                    "that one's mask");
}

static void check_devices(struct job_problems *problems, const struct job_spec *spec)
{
    if (spec->elastic.devices_min > spec->elastic.devices_max)
        job_problem(problems, "elastic.devices.min", "%u is more than elastic.devices.max %u",
                    spec->elastic.devices_min, spec->elastic.devices_max);
}

static void check_evaluation(struct job_problems *problems, const struct job_spec *spec)
{
    if (spec->evaluate.every > 0 && spec->data.validation_share == 0 &&
        spec->data.validation_path[0] == '\0')
        job_problem(problems, "evaluate.every",
                    "nothing is held out to evaluate on: data.validation is 0");
}

/* The keys that a rule reads, as prefixes. The rule is skipped unless all of them have a usable
 * value. */
static const struct rule {
    void (*check)(struct job_problems *problems, const struct job_spec *spec);
    const char *reads[3];
} rules[] = {
    {check_family, {"model."}},
    {check_vocabulary, {"model.vocab", "data.format"}},
    {check_freezing, {"elastic.freeze.keep_active", "elastic.freeze.from_start", "model.layers"}},
    {check_guard, {"elastic.freeze.guard", "evaluate.every"}},
    {check_thaw, {"elastic.freeze.thaw", "elastic.freeze.policy", "evaluate.every"}},
    {check_plasticity, {"elastic.freeze.", "evaluate.every"}},
    {check_budget, {"elastic.freeze.", "model."}},
    {check_sizes, {"train.", "model.context"}},
    {check_precision, {"train.optimizer.", "model.norm_epsilon"}},
    {check_eviction, {"elastic.evict_stragglers."}},
    {check_masks, {"data."}},
    {check_devices, {"elastic.devices."}},
    {check_evaluation, {"evaluate.every", "data.validation"}},
};

static bool can_be_asked(const struct rule *rule, const struct job_problems *problems)
{
    for (unsigned i = 0; i < sizeof(rule->reads) / sizeof(rule->reads[0]); i++)
        if (rule->reads[i] && !job_problems_good(problems, rule->reads[i]))
            return false;
    return true;
}

void job_rules_check(struct job_problems *problems, const struct job_spec *spec)
{
    for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (can_be_asked(&rules[i], problems))
            rules[i].check(problems, spec);
}
