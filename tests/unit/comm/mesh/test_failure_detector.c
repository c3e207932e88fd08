/* Silence is counted only while we listen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "comm/mesh/failure_detector.h"

#define TIMEOUT (1600 * NS_PER_MS)
#define BEGIN   (1000 * NS_PER_SECOND)

static void test_a_silent_peer_is_found_after_the_timeout(void **state)
{
    (void)state;
    struct failure_detector watch;
    failure_detector_init(&watch, TIMEOUT, BEGIN);
    uint64_t heard = failure_detector_poll(&watch, BEGIN);
    uint64_t now = BEGIN;
    while (!failure_detector_silent(&watch, heard)) {
        now += failure_detector_poll_ns(&watch);
        failure_detector_poll(&watch, now);
    }
    assert_true(now - BEGIN > TIMEOUT);
    assert_true(now - BEGIN <= TIMEOUT + failure_detector_poll_ns(&watch));
}

static void test_our_own_sleep_is_nobody_s_silence(void **state)
{
    (void)state;
    struct failure_detector watch;
    failure_detector_init(&watch, TIMEOUT, BEGIN);
    uint64_t heard = failure_detector_poll(&watch, BEGIN);
    for (unsigned looks = 1; looks <= 4; looks++) {
        failure_detector_poll(&watch,
                              BEGIN + looks * 100 * TIMEOUT); /* stopped for hours, four times */
        assert_false(failure_detector_silent(&watch, heard));
    }
    failure_detector_poll(&watch, BEGIN + 500 * TIMEOUT);
    assert_true(failure_detector_silent(&watch, heard));
}

static void test_a_clock_that_stands_still_does_no_harm(void **state)
{
    (void)state;
    struct failure_detector watch;
    failure_detector_init(&watch, TIMEOUT, BEGIN);
    assert_int_equal(failure_detector_poll(&watch, BEGIN - NS_PER_SECOND), 0);
    assert_int_equal(failure_detector_poll(&watch, BEGIN + 5), 5);
}

static void test_heartbeats_come_every_quarter(void **state)
{
    (void)state;
    struct failure_detector watch;
    failure_detector_init(&watch, TIMEOUT, BEGIN);
    unsigned beats = 0;
    for (uint64_t now = BEGIN; now < BEGIN + TIMEOUT; now += TIMEOUT / 100) {
        failure_detector_poll(&watch, now);
        beats += failure_detector_beat(&watch);
    }
    assert_int_equal(beats, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_silent_peer_is_found_after_the_timeout),
        cmocka_unit_test(test_our_own_sleep_is_nobody_s_silence),
        cmocka_unit_test(test_a_clock_that_stands_still_does_no_harm),
        cmocka_unit_test(test_heartbeats_come_every_quarter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
