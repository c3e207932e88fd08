/* Tests of reading JSON: accepted values, the key in each refusal, and failed allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const char sample[] =
    "{\"n\": 7, \"negative\": -1, \"huge\": 9223372036854775807, \"x\": 0.5,"
    " \"yes\": true, \"text\": \"snow\", \"list\": [1, 2, 3],"
    " \"inner\": {\"a\": null}, \"bits\": \"3fe0000000000000\"}";

static int setup(void **state)
{
    json_t *value = NULL;
    struct error error = {0};
    if (json_parse(sample, strlen(sample), "sample", &value, &error) < 0)
        return -1;
    *state = value;
    return 0;
}

static int teardown(void **state)
{
    json_decref(*state);
    return 0;
}

static void test_values_of_the_right_type_are_read(void **state)
{
    json_t *array, *object;
    uint64_t wide;
    unsigned narrow;
    double number;
    bool flag;
    char text[5];
    assert_int_equal(json_get_u64(*state, "huge", UINT64_MAX, &wide, NULL), 0);
    assert_true(wide == INT64_MAX);
    assert_int_equal(json_get_unsigned(*state, "n", 7, &narrow, NULL), 0);
    assert_int_equal(narrow, 7);
    assert_int_equal(json_get_double(*state, "x", &number, NULL), 0);
    assert_true(number == 0.5);
    assert_int_equal(json_get_double(*state, "n", &number, NULL), 0);
    assert_true(number == 7);
    assert_int_equal(json_get_bool(*state, "yes", &flag, NULL), 0);
    assert_true(flag);
    assert_int_equal(json_get_text(*state, "text", text, sizeof(text), NULL), 0);
    assert_string_equal(text, "snow");
    assert_int_equal(json_get_array(*state, "list", 3, &array, NULL), 0);
    assert_int_equal(json_array_size(array), 3);
    assert_int_equal(json_get_object(*state, "inner", &object, NULL), 0);
    assert_true(json_has(object, "a"));
    assert_false(json_has(object, "b"));
    assert_int_equal(json_get_bits64(*state, "bits", &number, NULL), 0);
    assert_true(number == 0.5);
}

/* Every getter through one door, so that each can be tried on each key. */
enum getter { U64, UNSIGNED, DOUBLE, BOOL, TEXT, ARRAY, OBJECT, BITS64, GETTER_COUNT };

static int get(enum getter getter, const json_t *object, const char *key, struct error *error)
{
    json_t *value;
    uint64_t wide;
    unsigned narrow;
    double number;
    bool flag;
    char text[3];
    switch (getter) {
    case U64:
        return json_get_u64(object, key, 6, &wide, error);
    case UNSIGNED:
        return json_get_unsigned(object, key, 6, &narrow, error);
    case DOUBLE:
        return json_get_double(object, key, &number, error);
    case BOOL:
        return json_get_bool(object, key, &flag, error);
    case TEXT:
        return json_get_text(object, key, text, sizeof(text), error);
    case ARRAY:
        return json_get_array(object, key, 2, &value, error);
    case OBJECT:
        return json_get_object(object, key, &value, error);
    case BITS64:
        return json_get_bits64(object, key, &number, error);
    case GETTER_COUNT:
        break;
    }
    return 0;
}

static void assert_refused(enum getter getter, const json_t *object, const char *key)
{
    struct error error = {0};
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"%s\"", key);
    assert_int_equal(get(getter, object, key, &error), -EINVAL);
    assert_int_equal(error.code, -EINVAL);
    assert_non_null(strstr(error.text, quoted));
    assert_int_equal(get(getter, object, key, NULL), -EINVAL);
}

static void test_every_refusal_names_the_key(void **state)
{
    AUTO_JSON json_t *array = json_array();
    for (enum getter getter = 0; getter < GETTER_COUNT; getter++) {
        assert_refused(getter, *state, "absent");
        assert_refused(getter, array, "absent");
        assert_refused(getter, NULL, "absent");
        if (getter != OBJECT)
            assert_refused(getter, *state, "inner");
        if (getter != BOOL)
            assert_refused(getter, *state, "yes");
        if (getter != DOUBLE)
            assert_refused(getter, *state, "x");
        /* Right in type, but over the bounds that get() sets. */
        if (getter != DOUBLE)
            assert_refused(getter, *state, "n");
        assert_refused(getter, *state, "text");
        assert_refused(getter, *state, "list");
    }
    assert_refused(U64, *state, "negative");
}

static void test_outputs_stay_untouched_on_failure(void **state)
{
    uint64_t wide = 99;
    unsigned narrow = 99;
    char text[4] = "abc";
    assert_int_equal(json_get_u64(*state, "n", 6, &wide, NULL), -EINVAL);
    assert_int_equal(json_get_unsigned(*state, "n", 6, &narrow, NULL), -EINVAL);
    assert_int_equal(json_get_text(*state, "text", text, sizeof(text), NULL), -EINVAL);
    assert_true(wide == 99 && narrow == 99);
    assert_string_equal(text, "abc");
}

static void test_bad_texts_are_refused_with_their_place(void **state)
{
    (void)state;
    const char *texts[] = {
        "",
        "{",
        "{\"a\": 1} x",
        "7",
        "{\"a\": 1, \"a\": 2}",
        "{\"a\": 9223372036854775808}",
        "[1,]",
        "{\"a\" 1}",
        "[NaN]",
        "[1e999]",
        "[\"\\u0000\"]",
        "[\"\xff\"]",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        json_t *value = NULL;
        struct error error = {0};
        assert_int_equal(json_parse(texts[i], strlen(texts[i]), "spec", &value, &error), -EINVAL);
        assert_null(value);
        assert_memory_equal(error.text, "spec:1:", 7);
    }
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    char text[2 * JSON_DEPTH_MAX + 8];
    memset(text, '[', sizeof(text));
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    json_t *value = NULL;
    struct error error = {0};
    assert_int_equal(json_parse(text, 2 * JSON_DEPTH_MAX, "deep", &value, &error), 0);
    json_decref(value);
    text[JSON_DEPTH_MAX] = '[';
    assert_int_equal(json_parse(text, 2 * JSON_DEPTH_MAX, "deep", &value, &error), -EINVAL);
    assert_non_null(strstr(error.text, "deeper than 64"));
}

static void test_brackets_inside_strings_are_not_depth(void **state)
{
    (void)state;
    char text[200];
    memset(text, '[', sizeof(text));
    memcpy(text, "[\"\\\"", 4);
    memcpy(text + sizeof(text) - 2, "\"]", 2);
    json_t *value = NULL;
    assert_int_equal(json_parse(text, sizeof(text), "flat", &value, NULL), 0);
    json_decref(value);
}

static void test_text_keeps_order_and_exact_numbers(void **state)
{
    (void)state;
    AUTO_JSON json_t *object = json_object();
    assert_int_equal(json_object_set_new(object, "z", json_real(0.1)), 0);
    assert_int_equal(json_object_set_new(object, "a", json_integer(-3)), 0);
    assert_int_equal(json_put_bits64(object, "loss", 1.0), 0);
    AUTO_FREE char *text = json_text(object);
    assert_string_equal(text, "{\"z\":0.10000000000000001,\"a\":-3,\"loss\":\"3ff0000000000000\"}");
    double loss;
    assert_int_equal(json_get_bits64(object, "loss", &loss, NULL), 0);
    assert_true(loss == 1.0);
}

static void test_arrays_of_exact_numbers(void **state)
{
    (void)state;
    static const double values[] = {1.0, -0.0, 0.1};
    double back[3] = {0};
    size_t count = 0;
    struct error error = {0};
    AUTO_JSON json_t *object = json_object();
    assert_int_equal(json_put_bits64_array(object, "values", values, 3), 0);
    assert_int_equal(json_get_bits64_array(object, "values", 3, back, &count, &error), 0);
    assert_int_equal(count, 3);
    assert_memory_equal(back, values, sizeof(values));
    assert_int_equal(json_get_bits64_array(object, "values", 2, back, &count, &error), -EINVAL);
    assert_int_equal(json_array_append_new(json_object_get(object, "values"), json_real(1)), 0);
    assert_int_equal(json_get_bits64_array(object, "values", 4, (double[4]){0}, &count, &error),
                     -EINVAL);
    assert_string_equal(error.text, "\"values\"[3] must be 16 hexadecimal digits");
}

static unsigned allocations_left;

static void *failing_malloc(size_t size_bytes)
{
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    return malloc(size_bytes);
}

/* Writing only: Jansson 2.14's own lexer asserts when a token's buffer cannot grow. */
static void test_short_memory_while_writing_is_reported(void **state)
{
    (void)state;
    int status = -ENOMEM;
    char *text = NULL;
    unsigned budget;
    json_set_alloc_funcs(failing_malloc, free);
    for (budget = 0; status < 0 || !text; budget++) {
        allocations_left = budget;
        AUTO_JSON json_t *object = json_object();
        status = json_put_bits64(object, "loss", 1.0);
        assert_true(status == 0 || status == -ENOMEM);
        text = json_text(object);
    }
    json_set_alloc_funcs(malloc, free);
    assert_string_equal(text, "{\"loss\":\"3ff0000000000000\"}");
    assert_true(budget > 3);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values_of_the_right_type_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_refusal_names_the_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_outputs_stay_untouched_on_failure, setup, teardown),
        cmocka_unit_test(test_bad_texts_are_refused_with_their_place),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_brackets_inside_strings_are_not_depth),
        cmocka_unit_test(test_text_keeps_order_and_exact_numbers),
        cmocka_unit_test(test_arrays_of_exact_numbers),
        cmocka_unit_test(test_short_memory_while_writing_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
