#include "elastic/step/plasticity.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/json.h"

void plasticity_init(struct plasticity *plasticity)
{
    *plasticity = (struct plasticity){0};
}

/* Return the product of the rows @i and @k that are added to the stream. */
static double dot(const float *inputs, const float *rows, size_t width, unsigned i, unsigned k)
{
    double sum = 0;

    for (size_t at = 0; at < width; at++)
        sum += ((double)rows[i * width + at] - (double)inputs[i * width + at]) *
               ((double)rows[k * width + at] - (double)inputs[k * width + at]);
    return sum;
}

void plasticity_similarities(const float *inputs, const float *rows, size_t width,
                             double *ret_similarities)
{
    double norms[PLASTICITY_ROWS];
    unsigned pair = 0;

    for (unsigned i = 0; i < PLASTICITY_ROWS; i++) {
        norms[i] = sqrt(dot(inputs, rows, width, i, i));
        for (unsigned k = 0; k < i; k++, pair++) {
            double scale = norms[i] * norms[k];
            double product = dot(inputs, rows, width, i, k);
            ret_similarities[pair] = step_record_known(scale == 0 ? 0 : product / scale);
        }
    }
}

static double mean_squared_difference(const double *a, const double *b)
{
    double sum = 0;

    for (unsigned i = 0; i < STEP_RECORD_PAIRS; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum / STEP_RECORD_PAIRS;
}

static bool is_finite(const double *similarities)
{
    for (unsigned i = 0; i < STEP_RECORD_PAIRS; i++)
        if (!isfinite(similarities[i]))
            return false;
    return true;
}

/* Similarities that are not finite cannot be compared: measuring restarts. */
void plasticity_take(struct plasticity *plasticity, const double *similarities)
{
    const unsigned room = ARRAY_COUNT(plasticity->values);

    plasticity->shown = 0;
    if (!is_finite(similarities)) {
        plasticity_init(plasticity);
        return;
    }
    if (plasticity->has_before) {
        double value = mean_squared_difference(similarities, plasticity->before);
        if (value == 0)
            return;
        memmove(plasticity->values + 1, plasticity->values, (room - 1) * sizeof(double));
        plasticity->values[0] = plasticity->shown = value;
        plasticity->count = MIN(plasticity->count + 1, room);
    }
    plasticity->has_before = true;
    memcpy(plasticity->before, similarities, sizeof(plasticity->before));
}

static double sum_of(const double *values, unsigned count)
{
    double sum = 0;

    for (unsigned i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

bool plasticity_is_calm(const struct plasticity *plasticity, unsigned patience, double tolerance)
{
    if (plasticity->count < 2 * patience)
        return false;
    double last = sum_of(plasticity->values, patience);
    double before = sum_of(plasticity->values + patience, patience);
    return fabs(last - before) <= tolerance * fmax(last, before);
}

void plasticity_next_layer(struct plasticity *plasticity)
{
    *plasticity = (struct plasticity){.shown = plasticity->shown};
}

json_t *plasticity_encode(const struct plasticity *plasticity)
{
    AUTO_JSON json_t *tree = json_object();

    if (!tree ||
        json_put_bits64_array(tree, "before", plasticity->before,
                              plasticity->has_before ? STEP_RECORD_PAIRS : 0) ||
        json_put_bits64_array(tree, "values", plasticity->values, plasticity->count))
        return NULL;
    return json_incref(tree);
}

/* Values are squares, and there are none without similarities. */
static int check(const struct plasticity *plasticity, size_t pairs, struct error *error)
{
    if (pairs != STEP_RECORD_PAIRS && (pairs > 0 || plasticity->count > 0))
        return error_set(error, -EINVAL, "\"before\" has %zu values instead of %u", pairs,
                         STEP_RECORD_PAIRS);
    if (!is_finite(plasticity->before))
        return error_set(error, -EINVAL, "\"before\" must be numbers");
    for (unsigned i = 0; i < plasticity->count; i++)
        if (!isfinite(plasticity->values[i]) || plasticity->values[i] <= 0)
            return error_set(error, -EINVAL, "\"values\"[%u] must be a positive number", i);
    return 0;
}

int plasticity_decode(const json_t *tree, struct plasticity *ret_plasticity, struct error *error)
{
    struct plasticity plasticity;
    size_t pairs = 0, count = 0;

    plasticity_init(&plasticity);
    int status =
        json_get_bits64_array(tree, "before", STEP_RECORD_PAIRS, plasticity.before, &pairs, error);
    if (!status)
        status = json_get_bits64_array(tree, "values", ARRAY_COUNT(plasticity.values),
                                       plasticity.values, &count, error);
    plasticity.has_before = pairs > 0;
    plasticity.count = (unsigned)count;
    if (!status)
        status = check(&plasticity, pairs, error);
    if (!status)
        *ret_plasticity = plasticity;
    return status;
}
