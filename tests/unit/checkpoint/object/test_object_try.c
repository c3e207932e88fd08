/* Tests, before any checkpoint, whether this store may be read and written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "checkpoint/object/object_try.h"
#include "lib/checkpoint/fake_store.h"

enum { LIST, PUT, REMOVE }; /* the operations, in order */

static int set_up(void **state)
{
    (void)state;
    fake_store_reset();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_store_reset();
    return 0;
}

static int try_with(uint64_t failing, int status, struct error *error)
{
    fake_store_reset();
    fake_objects.fail_from = failing;
    fake_objects.fail_count = 1;
    fake_objects.status = status;
    return object_try(&fake_store, "team", "job", error);
}

static unsigned objects(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
        count += fake_objects.objects[i].data != NULL;
    return count;
}

static void test_a_store_that_serves_is_left_as_it_was(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(try_with(FAKE_NEVER, 0, &error), 0);
    assert_int_equal(fake_objects.operations, 3);
    assert_int_equal(objects(), 0);
}

static void test_a_store_that_cannot_be_read_or_written_says_why(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(try_with(LIST, -EACCES, &error), -EACCES);
    assert_non_null(strstr(error.text, "list"));
    assert_int_equal(fake_objects.operations, 1); /* nothing is written where nothing can be read */
    assert_int_equal(try_with(PUT, -EACCES, &error), -EACCES);
    assert_non_null(strstr(error.text, "put"));
}

/* Checkpoints can be sent; a store that refuses removal is reported at the first removal. */
static void test_a_store_that_keeps_everything_serves(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(try_with(REMOVE, -EACCES, &error), 0);
    assert_int_equal(objects(), 1);
    assert_non_null(fake_store_find("team/job/step-try"));
}

static void test_a_prefix_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char prefix[OBJECT_KEY_SIZE - sizeof("/job/step-") - 1];
    struct error error = {0};
    memset(prefix, 'p', sizeof(prefix));
    prefix[sizeof(prefix) - 1] = '\0';
    assert_int_equal(object_try(&fake_store, prefix, "job", &error), -ENAMETOOLONG);
    assert_int_equal(fake_objects.operations, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_store_that_serves_is_left_as_it_was, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_store_that_cannot_be_read_or_written_says_why,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_store_that_keeps_everything_serves, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_prefix_that_is_too_long_is_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
