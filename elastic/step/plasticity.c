#include "elastic/step/plasticity.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/json.h"

void plasticity_init(struct plasticity *plasticity)
{
    *plasticity = (struct plasticity){.last = -1};
}

static double dot(const float *a, const float *b, size_t width)
{
    double sum = 0;

    for (size_t i = 0; i < width; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

void plasticity_similarities(const float *rows, size_t width, double *ret_similarities)
{
    double norms[PLASTICITY_ROWS];
    unsigned pair = 0;

    for (unsigned i = 0; i < PLASTICITY_ROWS; i++) {
        const float *row = rows + i * width;
        norms[i] = sqrt(dot(row, row, width));
        for (unsigned k = 0; k < i; k++, pair++) {
            double scale = norms[i] * norms[k];
            double product = dot(row, rows + k * width, width);
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

/* A measurement that is not finite compares with nothing: it begins anew. */
bool plasticity_measured(struct plasticity *plasticity, const double *similarities,
                         double tolerance, unsigned patience)
{
    double difference = mean_squared_difference(similarities, plasticity->before);
    bool compares = plasticity->has_before && isfinite(difference);

    memcpy(plasticity->before, similarities, sizeof(plasticity->before));
    plasticity->has_before = isfinite(mean_squared_difference(similarities, similarities));
    plasticity->last = compares ? difference : -1;
    if (!compares) {
        plasticity->calm = 0;
        return false;
    }
    plasticity->most = fmax(plasticity->most, difference);
    if (difference > tolerance * plasticity->most)
        plasticity->calm = 0;
    else
        plasticity->calm++;
    return plasticity->calm >= patience;
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
    return json_pack("{sO so so sI}", "before", before, "last", bits(plasticity->last), "most",
                     bits(plasticity->most), "calm", (json_int_t)plasticity->calm);
}

static int get_bits(const json_t *value, const char *key, double *ret_value, struct error *error)
{
    if (!json_is_string(value) || !bits64_parse(json_string_value(value), ret_value))
        return error_set(error, -EINVAL, "\"%s\" must be 16 hexadecimal digits", key);
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
        status = get_bits(json_object_get(tree, "last"), "last", &plasticity.last, error);
    if (!status)
        status = get_bits(json_object_get(tree, "most"), "most", &plasticity.most, error);
    if (!status)
        status = json_get_unsigned(tree, "calm", UINT32_MAX, &plasticity.calm, error);
    if (!status)
        *ret_plasticity = plasticity;
    return status;
}
