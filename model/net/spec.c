#include "model/net/spec.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "model/net/unit.h"

static const char *const family_names[] = {[MODEL_GPT2] = "gpt2", [MODEL_LLAMA] = "llama"};

int model_family_named(const char *name, enum model_family *ret_family, struct error *error)
{
    for (size_t i = 0; i < ARRAY_COUNT(family_names); i++)
        if (strcmp(name, family_names[i]) == 0) {
            *ret_family = (enum model_family)i;
            return 0;
        }
    return error_set(error, -EINVAL,
                     "model.family: \"%s\" is not known to this build (gpt2, llama)", name);
}

struct range {
    const char *key;
    unsigned value, minimum, maximum;
};

static int check_ranges(const struct range *ranges, size_t count, struct error *error)
{
    for (size_t i = 0; i < count; i++)
        if (ranges[i].value < ranges[i].minimum || ranges[i].value > ranges[i].maximum)
            return error_set(error, -EINVAL, "model.%s: %u is outside %u to %u", ranges[i].key,
                             ranges[i].value, ranges[i].minimum, ranges[i].maximum);
    return 0;
}

static int check_gpt2(const struct model_spec *spec, struct error *error)
{
    if (spec->width % spec->heads != 0)
        return error_set(error, -EINVAL, "model.heads: width %u is not divisible by %u heads",
                         spec->width, spec->heads);
    return 0;
}

static int check_rope_scaling(const struct model_rope_scaling *scaling, struct error *error)
{
    if (scaling->type == MODEL_ROPE_PLAIN)
        return 0;
    if (!isfinite(scaling->factor) || scaling->factor < 1.0)
        return error_set(error, -EINVAL, "model.rope_scaling.factor: %g is below 1",
                         scaling->factor);
    if (scaling->type == MODEL_ROPE_LINEAR)
        return 0;
    double low = scaling->low_frequency_factor, high = scaling->high_frequency_factor;
    if (!isfinite(high) || !(low > 0.0) || !(high > low))
        return error_set(error, -EINVAL,
                         "model.rope_scaling.high_frequency_factor: %g is not above %g, or that "
                         "not above 0",
                         high, low);
    const struct range range = {"rope_scaling.original_context", scaling->original_context, 1,
                                MODEL_CONTEXT_MAX};
    return check_ranges(&range, 1, error);
}

static int check_llama(const struct model_spec *spec, struct error *error)
{
    const struct range ranges[] = {
        {"kv_heads", spec->kv_heads, 1, spec->heads},
        {"head_width", spec->head_width, 2, MODEL_WIDTH_MAX / spec->heads},
        {"hidden", spec->hidden, 1, MODEL_HIDDEN_MAX},
    };
    int status = check_ranges(ranges, ARRAY_COUNT(ranges), error);

    if (status < 0)
        return status;
    if (spec->heads % spec->kv_heads != 0)
        return error_set(error, -EINVAL,
                         "model.kv_heads: %u heads cannot share %u heads of keys and values evenly",
                         spec->heads, spec->kv_heads);
    if (spec->head_width % 2 != 0)
        return error_set(error, -EINVAL,
                         "model.head_width: %u is odd, and the rotary embedding turns pairs",
                         spec->head_width);
    if (spec->width % UNIT_TENSOR_ALIGN != 0)
        return error_set(error, -EINVAL, "model.width: %u is no multiple of %d, as llama needs",
                         spec->width, UNIT_TENSOR_ALIGN);
    if (spec->qkv_bias && (size_t)spec->kv_heads * spec->head_width % UNIT_TENSOR_ALIGN != 0)
        return error_set(error, -EINVAL,
                         "model.qkv_bias: %u heads of %u columns are no multiple of %d",
                         spec->kv_heads, spec->head_width, UNIT_TENSOR_ALIGN);
    if (spec->qkv_bias && spec->qk_norm)
        return error_set(error, -EINVAL, "model.qk_norm: no model has it and qkv_bias, too");
    if (!isfinite(spec->rope_theta) || spec->rope_theta < 1.0)
        return error_set(error, -EINVAL, "model.rope_theta: %g is below 1", spec->rope_theta);
    if (!isfinite(spec->norm_epsilon) || spec->norm_epsilon <= 0.0)
        return error_set(error, -EINVAL, "model.norm_epsilon: %g is not above 0",
                         spec->norm_epsilon);
    return check_rope_scaling(&spec->rope_scaling, error);
}

int model_spec_check(const struct model_spec *spec, struct error *error)
{
    const struct range ranges[] = {
        {"layers", spec->layers, 1, MODEL_LAYERS_MAX},
        {"width", spec->width, 1, MODEL_WIDTH_MAX},
        {"heads", spec->heads, 1, MODEL_WIDTH_MAX},
        {"context", spec->context, 1, MODEL_CONTEXT_MAX},
        {"vocab", spec->vocab, 2, MODEL_VOCAB_MAX},
    };
    int status = check_ranges(ranges, ARRAY_COUNT(ranges), error);

    if (status < 0)
        return status;
    switch (spec->family) {
    case MODEL_GPT2:
        return check_gpt2(spec, error);
    case MODEL_LLAMA:
        return check_llama(spec, error);
    }
    return error_set(error, -EINVAL, "model.family: %d is not a known family", (int)spec->family);
}
