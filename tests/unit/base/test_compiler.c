/* The small macros: arguments evaluated once, descriptors closed once, overflow seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/compiler.h"

static void test_comparisons_evaluate_once_and_nest(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(MAX(calls++, -5), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(MIN(3, MIN(2, 1)), 1);
    assert_int_equal(MAX(MAX(1, 3), MAX(2, 0)), 3);
}

static void test_auto_close_closes_and_keeps_errno(void **state)
{
    (void)state;
    int copy;
    {
        AUTO_CLOSE int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
        AUTO_CLOSE int none = -1;
        assert_true(descriptor >= 0);
        assert_int_equal(none, -1);
        copy = descriptor;
    }
    assert_int_equal(fcntl(copy, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    {
        AUTO_CLOSE int closed_before = copy; /* so that this close fails */
        assert_int_equal(closed_before, copy);
        errno = ENOSPC;
    }
    assert_int_equal(errno, ENOSPC);
}

static void test_checked_arithmetic_sees_the_edge(void **state)
{
    (void)state;
    size_t result;
    assert_false(checked_add(SIZE_MAX - 1, 1, &result));
    assert_true(result == SIZE_MAX);
    assert_true(checked_add(SIZE_MAX, 1, &result));
    assert_false(checked_multiply(SIZE_MAX / 2, 2, &result));
    assert_true(checked_multiply(SIZE_MAX / 2 + 1, 2, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparisons_evaluate_once_and_nest),
        cmocka_unit_test(test_auto_close_closes_and_keeps_errno),
        cmocka_unit_test(test_checked_arithmetic_sees_the_edge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
