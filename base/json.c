#include "base/json.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

/*
 * Jansson recurses as deep as the text nests (2048 by default), also when it frees. Counting
 * brackets outside strings first bounds the stack for untrusted text.
 */
static bool too_deep(const char *text, size_t size_bytes)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < size_bytes; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{') && ++depth > JSON_DEPTH_MAX)
            return true;
        else if (!in_string && (c == ']' || c == '}') && depth > 0)
            depth--;
    }
    return false;
}

/*
 * Jansson (2.14) does not always report out of memory. Parsing may call the text malformed, or lose
 * a character and continue. Dumping may omit a key and continue. Its allocations go through this
 * function, so that this file detects failures.
 */
static _Thread_local bool memory_was_short;

static void *allocate(size_t size_bytes)
{
    void *memory = malloc(size_bytes);
    if (!memory)
        memory_was_short = true;
    return memory;
}

__attribute__((constructor)) static void watch_allocations(void)
{
    json_set_alloc_funcs(allocate, free);
}

int json_parse(const char *text, size_t size_bytes, const char *where, json_t **ret_value,
               struct error *error)
{
    if (too_deep(text, size_bytes))
        return error_set(error, -EINVAL, "%s: nested deeper than %d levels", where, JSON_DEPTH_MAX);
    json_error_t failure;
    memory_was_short = false;
    json_t *value = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &failure);
    if (memory_was_short) {
        json_decref(value);
        return error_set(error, -ENOMEM, "%s: out of memory", where);
    }
    if (!value)
        return error_set(error, -EINVAL, "%s:%d:%d: %s", where, failure.line, failure.column,
                         failure.text);
    *ret_value = value;
    return 0;
}

bool json_has(const json_t *object, const char *key)
{
    return json_object_get(object, key);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

/* Return the value of @key, or NULL with @error set. */
static json_t *find(const json_t *object, const char *key, struct error *error)
{
    json_t *value = json_object_get(object, key);
    if (!value && !json_is_object(object))
        error_set(error, -EINVAL, "\"%s\" is missing: its parent is not an object", key);
    else if (!value)
        error_set(error, -EINVAL, "\"%s\" is missing", key);
    return value;
}

static int wrong_type(const char *key, const char *wanted, const json_t *value, struct error *error)
{
    return error_set(error, -EINVAL, "\"%s\" must be %s, not %s", key, wanted, type_name(value));
}

int json_get_u64(const json_t *object, const char *key, uint64_t max, uint64_t *ret_value,
                 struct error *error)
{
    const json_t *value = find(object, key, error);
    if (!value)
        return -EINVAL;
    if (!json_is_integer(value))
        return wrong_type(key, "an integer", value, error);
    json_int_t number = json_integer_value(value);
    if (number < 0 || (uint64_t)number > max)
        return error_set(error, -EINVAL, "\"%s\" must be from 0 to %llu, not %" JSON_INTEGER_FORMAT,
                         key, (unsigned long long)max, number);
    *ret_value = (uint64_t)number;
    return 0;
}

int json_get_unsigned(const json_t *object, const char *key, unsigned max, unsigned *ret_value,
                      struct error *error)
{
    uint64_t value = 0;
    int status = json_get_u64(object, key, max, &value, error);
    if (status == 0)
        *ret_value = (unsigned)value;
    return status;
}

int json_get_double(const json_t *object, const char *key, double *ret_value, struct error *error)
{
    const json_t *value = find(object, key, error);
    if (!value)
        return -EINVAL;
    if (!json_is_number(value))
        return wrong_type(key, "a number", value, error);
    *ret_value = json_number_value(value);
    return 0;
}

int json_get_bool(const json_t *object, const char *key, bool *ret_value, struct error *error)
{
    const json_t *value = find(object, key, error);
    if (!value)
        return -EINVAL;
    if (!json_is_boolean(value))
        return wrong_type(key, "a boolean", value, error);
    *ret_value = json_is_true(value);
    return 0;
}

static const char *find_text(const json_t *object, const char *key, struct error *error)
{
    const json_t *value = find(object, key, error);
    if (!value)
        return NULL;
    if (!json_is_string(value))
        wrong_type(key, "a text", value, error);
    return json_string_value(value);
}

int json_get_text(const json_t *object, const char *key, char *ret_text, size_t text_size,
                  struct error *error)
{
    const char *text = find_text(object, key, error);
    if (!text)
        return -EINVAL;
    size_t length = strlen(text);
    if (length >= text_size)
        return error_set(error, -EINVAL, "\"%s\" has %zu bytes, more than the %zu that fit", key,
                         length, text_size - 1);
    memcpy(ret_text, text, length + 1);
    return 0;
}

int json_get_array(const json_t *object, const char *key, size_t count_max, json_t **ret_array,
                   struct error *error)
{
    json_t *value = find(object, key, error);
    if (!value)
        return -EINVAL;
    if (!json_is_array(value))
        return wrong_type(key, "an array", value, error);
    if (json_array_size(value) > count_max)
        return error_set(error, -EINVAL, "\"%s\" has %zu elements, more than %zu", key,
                         json_array_size(value), count_max);
    *ret_array = value;
    return 0;
}

int json_get_object(const json_t *object, const char *key, json_t **ret_object, struct error *error)
{
    json_t *value = find(object, key, error);
    if (!value)
        return -EINVAL;
    if (!json_is_object(value))
        return wrong_type(key, "an object", value, error);
    *ret_object = value;
    return 0;
}

int json_get_bits64(const json_t *object, const char *key, double *ret_value, struct error *error)
{
    const char *text = find_text(object, key, error);
    if (!text)
        return -EINVAL;
    if (!bits64_parse(text, ret_value))
        return error_set(error, -EINVAL, "\"%s\" must be 16 hexadecimal digits", key);
    return 0;
}

int json_put_bits64(json_t *object, const char *key, double value)
{
    char text[BITS64_TEXT_SIZE];
    bits64_text(value, text);
    return json_object_set_new(object, key, json_string(text)) == 0 ? 0 : -ENOMEM;
}

int json_put_bits64_array(json_t *object, const char *key, const double *values, size_t count)
{
    json_t *array = json_array();
    int status = json_object_set_new(object, key, array);

    for (size_t i = 0; !status && i < count; i++) {
        char text[BITS64_TEXT_SIZE];
        bits64_text(values[i], text);
        status = json_array_append_new(array, json_string(text));
    }
    return status ? -ENOMEM : 0;
}

int json_get_bits64_array(const json_t *object, const char *key, size_t count_max,
                          double *ret_values, size_t *ret_count, struct error *error)
{
    json_t *array;
    int status = json_get_array(object, key, count_max, &array, error);

    if (status)
        return status;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (!text || !bits64_parse(text, &ret_values[i]))
            return error_set(error, -EINVAL, "\"%s\"[%zu] must be 16 hexadecimal digits", key, i);
    }
    *ret_count = json_array_size(array);
    return 0;
}

static char *dump(const json_t *value, size_t flags)
{
    memory_was_short = false;
    char *text = json_dumps(value, flags | JSON_ENCODE_ANY);
    if (text && memory_was_short) {
        free(text);
        return NULL;
    }
    return text;
}

char *json_text(const json_t *value)
{
    return dump(value, JSON_COMPACT);
}

char *json_text_sorted(const json_t *value)
{
    return dump(value, JSON_COMPACT | JSON_SORT_KEYS);
}

char *json_text_indented(const json_t *value)
{
    return dump(value, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
}
