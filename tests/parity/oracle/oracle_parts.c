#include "parity/oracle/oracle_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const double *oracle_tensor(const struct oracle *oracle, unsigned unit, const char *name)
{
    struct unit_layout layout;
    model_unit_layout(&oracle->spec, unit, &layout);
    for (unsigned i = 0; i < layout.tensor_count; i++) {
        size_t length = strlen(layout.tensors[i].name), suffix = strlen(name);
        if (length >= suffix && strcmp(layout.tensors[i].name + length - suffix, name) == 0)
            return oracle->parameters[unit] + layout.tensors[i].offset;
    }
    assert(false && "no such tensor");
    return NULL;
}

void oracle_attend(double *output, size_t width, const double *q, const double *k, const double *v,
                   size_t stride, size_t context, size_t size)
{
    double *scores = calloc(context, sizeof(double));

    for (size_t t = 0; t < context; t++) {
        double sum = 0.0;
        for (size_t u = 0; u <= t; u++) {
            scores[u] = 0.0;
            for (size_t i = 0; i < size; i++)
                scores[u] += q[t * stride + i] * k[u * stride + i];
            scores[u] = exp(scores[u] / sqrt((double)size));
            sum += scores[u];
        }
        for (size_t i = 0; i < size; i++) {
            output[t * width + i] = 0.0;
            for (size_t u = 0; u <= t; u++)
                output[t * width + i] += scores[u] / sum * v[u * stride + i];
        }
    }
    free(scores);
}
