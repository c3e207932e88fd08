#include "model/spec.h"

#include <errno.h>

static int check_range(const char *key, unsigned value, unsigned minimum, unsigned maximum,
                       struct error *error)
{
    if (value >= minimum && value <= maximum)
        return 0;
    return error_set(error, -EINVAL, "model.%s: %u is outside %u to %u", key, value, minimum,
                     maximum);
}

int model_spec_check(const struct model_spec *spec, struct error *error)
{
    const struct {
        const char *key;
        unsigned value, minimum, maximum;
    } ranges[] = {
        {"layers", spec->layers, 1, MODEL_LAYERS_MAX},
        {"width", spec->width, 1, MODEL_WIDTH_MAX},
        {"heads", spec->heads, 1, MODEL_WIDTH_MAX},
        {"context", spec->context, 1, MODEL_CONTEXT_MAX},
        {"vocab", spec->vocab, 2, MODEL_VOCAB_MAX},
    };

    if (spec->family != MODEL_GPT2)
        return error_set(error, -EINVAL, "model.family: %d is not a known family",
                         (int)spec->family);
    for (size_t i = 0; i < ARRAY_COUNT(ranges); i++) {
        int r = check_range(ranges[i].key, ranges[i].value, ranges[i].minimum, ranges[i].maximum,
                            error);
        if (r < 0)
            return r;
    }
    if (spec->width % spec->heads != 0)
        return error_set(error, -EINVAL, "model.heads: width %u is not divisible by %u heads",
                         spec->width, spec->heads);
    return 0;
}
