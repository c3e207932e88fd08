#include "elastic/step/plasticity.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/json.h"

void plasticity_init(struct plasticity *plasticity)
{
    *plasticity = (struct plasticity){.value = -1};
}

/* Of the rows @i and @k that are added to the stream. */
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
void plasticity_take(struct plasticity *plasticity, const double *similarities, double tolerance)
{
    double value = -1, before = plasticity->value;

    if (!is_finite(similarities)) {
        plasticity_init(plasticity);
        return;
    }
    if (plasticity->has_before)
        value = mean_squared_difference(similarities, plasticity->before);
    if (value == 0)
        return;
    bool calm = value > 0 && before > 0 && fabs(value - before) <= tolerance * fmax(value, before);
    plasticity->calm = calm ? plasticity->calm + 1 : 0;
    plasticity->value = value;
    plasticity->has_before = true;
    memcpy(plasticity->before, similarities, sizeof(plasticity->before));
}

void plasticity_next_layer(struct plasticity *plasticity)
{
    plasticity->has_before = false;
    plasticity->calm = 0;
}

static json_t *bits(double value)
{
    char text[BITS64_TEXT_SIZE];

    bits64_text(value, text);
    return json_string(text);
}

json_t *plasticity_encode(const struct plasticity *plasticity)
{
    AUTO_JSON json_t *before = json_array();

    for (unsigned i = 0; plasticity->has_before && i < STEP_RECORD_PAIRS; i++)
        if (json_array_append_new(before, bits(plasticity->before[i])))
            return NULL;
    return json_pack("{sO so sI}", "before", before, "value", bits(plasticity->value), "calm",
                     (json_int_t)plasticity->calm);
}

static int get_bits(const json_t *value, const char *key, double *ret_value, struct error *error)
{
    if (!json_is_string(value) || !bits64_parse(json_string_value(value), ret_value) ||
        !isfinite(*ret_value))
        return error_set(error, -EINVAL, "\"%s\" must be the 16 hexadecimal digits of a number",
                         key);
    return 0;
}

static int get_before(const json_t *tree, struct plasticity *ret_plasticity, struct error *error)
{
    json_t *before;
    int status = json_get_array(tree, "before", STEP_RECORD_PAIRS, &before, error);
    size_t count = status ? 0 : json_array_size(before);

    if (count > 0 && count != STEP_RECORD_PAIRS)
        return error_set(error, -EINVAL, "\"before\" has %zu values instead of %u", count,
                         STEP_RECORD_PAIRS);
    for (size_t i = 0; !status && i < count; i++)
        status = get_bits(json_array_get(before, i), "before", &ret_plasticity->before[i], error);
    ret_plasticity->has_before = count > 0;
    return status;
}

int plasticity_decode(const json_t *tree, struct plasticity *ret_plasticity, struct error *error)
{
    struct plasticity plasticity;

    plasticity_init(&plasticity);
    int status = get_before(tree, &plasticity, error);
    if (!status)
        status = get_bits(json_object_get(tree, "value"), "value", &plasticity.value, error);
    if (!status)
        status = json_get_unsigned(tree, "calm", UINT32_MAX, &plasticity.calm, error);
    if (!status)
        *ret_plasticity = plasticity;
    return status;
}
