/*
 * Read untrusted JSON: bounded, typed, and with errors that name the key. Getters return 0 or
 * -EINVAL (missing, wrong type, out of range; @error names the key). Callers test optional keys
 * with json_has() first.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define JSON_DEPTH_MAX 64

static inline void json_decref_pointer(json_t **value)
{
    json_decref(*value);
}
#define AUTO_JSON CLEANUP(json_decref_pointer)

/**
 * json_parse() - parse a text into a tree; *ret_value is owned by the caller; @where is for errors
 */
int json_parse(const char *text, size_t size_bytes, const char *where, json_t **ret_value,
               struct error *error) CHECK_RESULT;

bool json_has(const json_t *object, const char *key);
int json_get_u64(const json_t *object, const char *key, uint64_t max, uint64_t *ret_value,
                 struct error *error) CHECK_RESULT;
int json_get_unsigned(const json_t *object, const char *key, unsigned max, unsigned *ret_value,
                      struct error *error) CHECK_RESULT;
int json_get_double(const json_t *object, const char *key, double *ret_value,
                    struct error *error) CHECK_RESULT;
int json_get_bool(const json_t *object, const char *key, bool *ret_value,
                  struct error *error) CHECK_RESULT;
/** json_get_text() - copy the text into a buffer; -EINVAL also when it does not fit */
int json_get_text(const json_t *object, const char *key, char *ret_text, size_t text_size,
                  struct error *error) CHECK_RESULT;
/** json_get_array(), json_get_object() - get a borrowed reference */
int json_get_array(const json_t *object, const char *key, size_t count_max, json_t **ret_array,
                   struct error *error) CHECK_RESULT;
int json_get_object(const json_t *object, const char *key, json_t **ret_object,
                    struct error *error) CHECK_RESULT;
/** json_get_bits64(), json_put_bits64() - get or put a double as 16 hexadecimal digits */
int json_get_bits64(const json_t *object, const char *key, double *ret_value,
                    struct error *error) CHECK_RESULT;
int json_put_bits64(json_t *object, const char *key, double value) CHECK_RESULT;
/** json_put_bits64_array() - put @count doubles as an array of such texts; -ENOMEM */
int json_put_bits64_array(json_t *object, const char *key, const double *values,
                          size_t count) CHECK_RESULT;
/** json_get_bits64_array() - get at most @count_max doubles; -EINVAL names the key, and some may
 * have been written */
int json_get_bits64_array(const json_t *object, const char *key, size_t count_max,
                          double *ret_values, size_t *ret_count, struct error *error) CHECK_RESULT;

/**
 * json_text() - make compact text, keys in insertion order; malloc'ed, NULL only when out of
 * memory. Jansson's json_dumps() may omit a key instead.
 */
char *json_text(const json_t *value);
/** json_text_sorted() - make compact text with sorted keys: equal values give equal texts */
char *json_text_sorted(const json_t *value);
/** json_text_indented() - make indented text for files that users read */
char *json_text_indented(const json_t *value);
