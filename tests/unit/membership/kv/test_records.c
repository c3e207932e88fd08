/* A submission's id becomes part of a path: nothing but digits is taken. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_submission_comes_back_as_it_was),
        cmocka_unit_test(test_what_is_no_id_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
