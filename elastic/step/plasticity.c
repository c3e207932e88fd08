#include "elastic/step/plasticity.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
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

/* Similarities that are not finite compare with nothing: measuring begins anew. */
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

static json_t *bits(double value)
{
    char text[BITS64_TEXT_SIZE];

    bits64_text(value, text);
    return json_string(text);
}

static json_t *encode_all(const double *values, unsigned count)
{
    json_t *array = json_array();

    for (unsigned i = 0; array && i < count; i++)
        if (json_array_append_new(array, bits(values[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

json_t *plasticity_encode(const struct plasticity *plasticity)
{
    return json_pack("{so so}", "before",
                     encode_all(plasticity->before, plasticity->has_before ? STEP_RECORD_PAIRS : 0),
                     "values", encode_all(plasticity->values, plasticity->count));
}

static int decode_all(const json_t *tree, const char *key, unsigned count_max, double *ret_values,
                      unsigned *ret_count, struct error *error)
{
    json_t *array;
    int status = json_get_array(tree, key, count_max, &array, error);
    size_t count = status ? 0 : json_array_size(array);

    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, i);
        if (!json_is_string(value) || !bits64_parse(json_string_value(value), &ret_values[i]) ||
            !isfinite(ret_values[i]))
            return error_set(error, -EINVAL,
                             "\"%s\"[%zu] must be the 16 hexadecimal digits of a number", key, i);
    }
    *ret_count = (unsigned)count;
    return status;
}

int plasticity_decode(const json_t *tree, struct plasticity *ret_plasticity, struct error *error)
{
    struct plasticity plasticity;
    unsigned pairs = 0;

    plasticity_init(&plasticity);
    int status = decode_all(tree, "before", STEP_RECORD_PAIRS, plasticity.before, &pairs, error);
    if (!status && pairs != 0 && pairs != STEP_RECORD_PAIRS)
        return error_set(error, -EINVAL, "\"before\" has %u values instead of %u", pairs,
                         STEP_RECORD_PAIRS);
    if (!status)
        status = decode_all(tree, "values", ARRAY_COUNT(plasticity.values), plasticity.values,
                            &plasticity.count, error);
    plasticity.has_before = pairs > 0;
    if (!status && plasticity.count > 0 && !plasticity.has_before)
        return error_set(error, -EINVAL, "\"values\" need what came \"before\"");
    for (unsigned i = 0; !status && i < plasticity.count; i++)
        if (plasticity.values[i] <= 0)
            return error_set(error, -EINVAL, "\"values\"[%u] must be positive", i);
    if (!status)
        *ret_plasticity = plasticity;
    return status;
}
