/* Tests that monotonic time never goes back, and that wall time is the calendar's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

#include "base/clock.h"

static void test_monotonic_never_goes_back(void **state)
{
    (void)state;
    const struct clock *clock = clock_real();
    uint64_t last = clock_monotonic_ns();
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t now = clock->monotonic_ns(clock->context);
        assert_true(now >= last);
        last = now;
    }
}

static void test_realtime_is_the_calendar(void **state)
{
    (void)state;
    const struct clock *clock = clock_real();
    uint64_t before = (uint64_t)time(NULL);
    uint64_t seconds = clock->realtime_ns(clock->context) / NS_PER_SECOND;
    /* time() may read a coarser clock, up to a tick behind. */
    assert_true(seconds + 1 >= before && seconds <= (uint64_t)time(NULL) + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic_never_goes_back),
        cmocka_unit_test(test_realtime_is_the_calendar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
