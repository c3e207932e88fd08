#include "elastic/job/job_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define SHOWN_BYTES_MAX 48

_Static_assert(offsetof(struct job_spec, train.optimizer.beta2) ==
                   offsetof(struct job_spec, train.optimizer.beta1) + sizeof(double),
               "betas are stored side by side");
_Static_assert(sizeof(enum job_format) == sizeof(unsigned), "choices are stored as unsigned");

static void *place(const struct schema_key *key, struct job_spec *spec)
{
    return (char *)spec + key->offset;
}

static const void *place_const(const struct schema_key *key, const struct job_spec *spec)
{
    return (const char *)spec + key->offset;
}

static bool in_range(const struct schema_key *key, double value)
{
    if (key->above_min ? value <= key->min : value < key->min)
        return false;
    return key->below_max ? value < key->max : value <= key->max;
}

static bool decode_real(const struct schema_key *key, const json_t *value, double *ret_real)
{
    if (!json_is_number(value) || !in_range(key, json_number_value(value)))
        return false;
    *ret_real = json_number_value(value);
    return true;
}

/* YAML reads 1e4 as a real number, but users mean a whole number: accept both spellings. */
static bool decode_whole(const struct schema_key *key, const json_t *value, uint64_t *ret_whole)
{
    double real;
    if (!decode_real(key, value, &real) || real != floor(real))
        return false;
    *ret_whole = json_is_integer(value) ? (uint64_t)json_integer_value(value) : (uint64_t)real;
    return true;
}

static bool decode_text(const json_t *value, size_t size_min, size_t text_size, char *ret_text)
{
    if (!json_is_string(value))
        return false;
    size_t length = json_string_length(value);
    if (length < size_min || length >= text_size)
        return false;
    memcpy(ret_text, json_string_value(value), length + 1);
    return true;
}

static bool decode_name(const json_t *value, char *ret_name)
{
    return json_is_string(value) && name_valid(json_string_value(value)) &&
           decode_text(value, 1, NAME_SIZE, ret_name);
}

static bool decode_paths(const struct schema_key *key, const json_t *value,
                         struct job_paths *ret_paths)
{
    if (json_is_string(value)) {
        ret_paths->count = 1;
        return decode_text(value, 1, JOB_PATH_SIZE, ret_paths->paths[0]);
    }
    size_t count = json_array_size(value), count_min = schema_required(key) ? 1 : 0;
    if (!json_is_array(value) || count < count_min || count > JOB_PATHS_MAX)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!decode_text(json_array_get(value, i), 1, JOB_PATH_SIZE, ret_paths->paths[i]))
            return false;
    ret_paths->count = (unsigned)count;
    return true;
}

static bool decode_share_or_path(const struct schema_key *key, const json_t *value,
                                 struct job_data *data)
{
    if (json_is_string(value))
        return decode_text(value, 1, JOB_PATH_SIZE, data->validation_path);
    return decode_real(key, value, &data->validation_share);
}

static bool decode_pair(const struct schema_key *key, const json_t *value, double *ret_pair)
{
    double pair[2];
    if (json_array_size(value) != 2 || !decode_real(key, json_array_get(value, 0), &pair[0]) ||
        !decode_real(key, json_array_get(value, 1), &pair[1]))
        return false;
    memcpy(ret_pair, pair, sizeof(pair));
    return true;
}

static bool decode_choice(const struct schema_key *key, const json_t *value, unsigned *ret_index)
{
    if (!json_is_string(value))
        return false;
    for (unsigned i = 0; key->choices[i]; i++)
        if (strcmp(key->choices[i], json_string_value(value)) == 0) {
            *ret_index = i;
            return true;
        }
    return false;
}

static bool decode_unsigned(const struct schema_key *key, const json_t *value, unsigned *ret_value)
{
    uint64_t whole;
    if (!decode_whole(key, value, &whole))
        return false;
    *ret_value = (unsigned)whole;
    return true;
}

static bool decode_batches(const struct schema_key *key, const json_t *value, unsigned *ret_value)
{
    const char *text = json_string_value(value);
    if (!text)
        return decode_unsigned(key, value, ret_value);
    *ret_value = strcmp(text, "all") == 0 ? JOB_BATCHES_ALL : JOB_BATCHES_AUTO;
    return strcmp(text, "all") == 0 || strcmp(text, "auto") == 0;
}

static json_t *encode_batches(unsigned value)
{
    if (value == JOB_BATCHES_ALL || value == JOB_BATCHES_AUTO)
        return json_string(value == JOB_BATCHES_ALL ? "all" : "auto");
    return json_integer((json_int_t)value);
}

/* Accept a bucket name of S3: 3 to 63 of [a-z0-9.-], a letter or digit at both ends; or an empty
 * text. */
static bool decode_bucket(const json_t *value, char *ret_bucket)
{
    const char *text = json_string_value(value);
    size_t length = text ? json_string_length(value) : 1;
    if (length == 0)
        return decode_text(value, 0, NAME_SIZE, ret_bucket);
    if (length < 3 || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") != length ||
        strchr(".-", text[0]) || strchr(".-", text[length - 1]))
        return false;
    return decode_text(value, 3, NAME_SIZE, ret_bucket);
}

bool job_value_decode(const struct schema_key *key, const json_t *value, struct job_spec *spec)
{
    void *at = place(key, spec);
    unsigned index;
    switch (key->type) {
    case SCHEMA_NAME:
        return decode_name(value, at);
    case SCHEMA_PATH:
        return decode_text(value, 0, JOB_PATH_SIZE, at);
    case SCHEMA_BUCKET:
        return decode_bucket(value, at);
    case SCHEMA_PATHS:
        return decode_paths(key, value, at);
    case SCHEMA_SHARE_OR_PATH:
        return decode_share_or_path(key, value, &spec->data);
    case SCHEMA_UNSIGNED:
        return decode_unsigned(key, value, at);
    case SCHEMA_BATCHES:
        return decode_batches(key, value, at);
    case SCHEMA_COUNT:
        return decode_whole(key, value, at);
    case SCHEMA_REAL:
        return decode_real(key, value, at);
    case SCHEMA_REAL_PAIR:
        return decode_pair(key, value, at);
    case SCHEMA_FLAG:
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value);
    case SCHEMA_CHOICE:
        return decode_choice(key, value, at);
    case SCHEMA_WORD:
        return decode_choice(key, value, &index) && decode_text(value, 1, JOB_WORD_SIZE, at);
    }
    return false;
}

static json_t *encode_paths(const struct job_paths *paths)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < paths->count; i++)
        if (json_array_append_new(array, json_string(paths->paths[i])) < 0)
            return NULL;
    return json_incref(array);
}

json_t *job_value_encode(const struct schema_key *key, const struct job_spec *spec)
{
    const void *at = place_const(key, spec);
    switch (key->type) {
    case SCHEMA_NAME:
    case SCHEMA_PATH:
    case SCHEMA_BUCKET:
    case SCHEMA_WORD:
        return json_string(at);
    case SCHEMA_PATHS:
        return encode_paths(at);
    case SCHEMA_SHARE_OR_PATH:
        if (spec->data.validation_path[0] != '\0')
            return json_string(spec->data.validation_path);
        return json_real(spec->data.validation_share);
    case SCHEMA_UNSIGNED:
        return json_integer((json_int_t)(*(const unsigned *)at));
    case SCHEMA_BATCHES:
        return encode_batches(*(const unsigned *)at);
    case SCHEMA_COUNT:
        return json_integer((json_int_t)(*(const uint64_t *)at));
    case SCHEMA_REAL:
        return json_real(*(const double *)at);
    case SCHEMA_REAL_PAIR:
        return json_pack("[ff]", ((const double *)at)[0], ((const double *)at)[1]);
    case SCHEMA_FLAG:
        return json_boolean(*(const bool *)at);
    case SCHEMA_CHOICE:
        return json_string(key->choices[*(const unsigned *)at]);
    }
    return NULL;
}

void job_value_describe(const json_t *value, char ret_text[JOB_FOUND_SIZE])
{
    AUTO_FREE char *json = NULL;
    switch (json_typeof(value)) {
    case JSON_STRING:
        snprintf(ret_text, JOB_FOUND_SIZE, "the text \"%.*s\"%s", SHOWN_BYTES_MAX,
                 json_string_value(value),
                 json_string_length(value) > SHOWN_BYTES_MAX ? "..." : "");
        return;
    case JSON_OBJECT:
        snprintf(ret_text, JOB_FOUND_SIZE, "a section");
        return;
    case JSON_NULL:
        snprintf(ret_text, JOB_FOUND_SIZE, "nothing");
        return;
    default:
        /* Show numbers and short lists as written, long lists only by their length. */
        json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        if (json && strlen(json) <= SHOWN_BYTES_MAX)
            snprintf(ret_text, JOB_FOUND_SIZE, "%s", json);
        else
            snprintf(ret_text, JOB_FOUND_SIZE, "a list of %zu", json_array_size(value));
    }
}

bool job_value_is_default(const struct schema_key *key, const json_t *value)
{
    AUTO_JSON json_t *usual =
        key->default_json ? json_loads(key->default_json, JSON_DECODE_ANY, NULL) : NULL;
    return usual && json_equal(usual, value);
}
