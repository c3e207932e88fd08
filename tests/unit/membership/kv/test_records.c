/* Records in etcd: a submission's id becomes part of a path, so nothing but digits is taken; kept
 * outputs are a share of at most all samples. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "membership/kv/records.h"

static int decode(const char *text, struct submission_record *record)
{
    struct error error = {0};
    AUTO_JSON json_t *tree = NULL;

    assert_int_equal(json_parse(text, strlen(text), "test", &tree, &error), 0);
    return submission_record_decode(tree, record, &error);
}

static void test_a_submission_comes_back_as_it_was(void **state)
{
    struct submission_record record = {.id = "0123456789abcdef"}, back;
    struct error error = {0};
    AUTO_JSON json_t *tree = submission_record_encode(&record);

    (void)state;
    assert_int_equal(submission_record_decode(tree, &back, &error), 0);
    assert_string_equal(back.id, record.id);
}

static void test_what_is_no_id_is_refused(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"id\": \"\"}",
        "{\"id\": \"../../etc\"}",
        "{\"id\": \"0A\"}",
        "{\"id\": 7}",
        "{\"id\": \"0123456789abcdef0\"}",
    };
    struct submission_record record = {.id = "12"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        assert_true(decode(texts[i], &record) < 0);
    assert_string_equal(record.id, "12");
}

static int decode_progress(const char *kept, struct progress_record *ret_record)
{
    const struct progress_record record = {.generation = 3, .step = 7, .loss = 1.5};
    struct error error = {0};
    AUTO_JSON json_t *tree = progress_record_encode(&record), *value = json_loads(kept, 0, NULL);

    assert_int_equal(json_object_set(tree, "kept", value), 0);
    return progress_record_decode(tree, ret_record, &error);
}

static void test_kept_outputs_ride_with_progress(void **state)
{
    static const char *const wrong[] = {"[5]",      "[0, 0.5]",    "[-1, 0.5]",
                                        "[5, 1.5]", "[5, 0.5, 1]", "[\"5\", 0.5]"};
    const struct progress_record record = {.kept_units = 5, .kept_share = 0.75};
    struct progress_record back;
    struct error error = {0};
    AUTO_JSON json_t *tree = progress_record_encode(&record);

    (void)state;
    assert_int_equal(progress_record_decode(tree, &back, &error), 0);
    assert_int_equal(back.kept_units, 5);
    assert_true(back.kept_share == 0.75);
    assert_int_equal(json_object_del(tree, "kept"), 0); /* an earlier firnd */
    assert_int_equal(progress_record_decode(tree, &back, &error), 0);
    assert_int_equal(back.kept_units, 0);
    assert_int_equal(decode_progress("[5, 1]", &back), 0);
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_int_equal(decode_progress(wrong[i], &back), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_submission_comes_back_as_it_was),
        cmocka_unit_test(test_what_is_no_id_is_refused),
        cmocka_unit_test(test_kept_outputs_ride_with_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
