#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "comm/carrier/nccl_watch.h"

#define PATIENCE       100 /* of an abort, and of a step */
#define CLOSE_PATIENCE 40

static struct nccl_watch watch;

static int setup(void **state)
{
    (void)state;
    nccl_watch_init(&watch, CLOSE_PATIENCE, PATIENCE);
    return 0;
}

static enum nccl_action feed(enum nccl_event_type type, uint64_t now_ns, int result)
{
    const struct nccl_event event = {.type = type,
                                     .now_ns = now_ns,
                                     .deadline_ns = now_ns + PATIENCE,
                                     .result = result,
                                     .text = type == NCCL_STEP ? "joining" : "peer lost"};
    return nccl_watch_feed(&watch, &event);
}

static void test_steps_that_succeed(void **state)
{
    (void)state;
    for (uint64_t now = 0; now < 1000; now += 99) {
        assert_int_equal(feed(NCCL_STEP, now, 0), NCCL_DO_NOTHING);
        assert_int_equal(feed(NCCL_STATE, now + 50, NCCL_RESULT_IN_PROGRESS), NCCL_DO_NOTHING);
        assert_int_equal(feed(NCCL_STATE, now + 98, NCCL_RESULT_SUCCESS), NCCL_DO_NOTHING);
    }
    assert_int_equal(feed(NCCL_TICK, UINT64_MAX - 1, 0), NCCL_DO_NOTHING); /* nothing is due */
    assert_int_equal(watch.phase, NCCL_OPEN);
}

static void test_a_step_that_is_late(void **state)
{
    (void)state;
    feed(NCCL_STEP, 10, 0);
    assert_int_equal(feed(NCCL_TICK, 109, 0), NCCL_DO_NOTHING);
    assert_int_equal(feed(NCCL_STATE, 110, NCCL_RESULT_IN_PROGRESS), NCCL_DO_ABORT);
    assert_string_equal(watch.reason, "NCCL: no answer in time while joining");
    assert_int_equal(feed(NCCL_RETURNED, 120, 0), NCCL_DO_NOTHING);
    assert_int_equal(watch.phase, NCCL_ABORTED);
}

static void test_an_error(void **state)
{
    (void)state;
    feed(NCCL_STEP, 10, 0);
    assert_int_equal(feed(NCCL_STATE, 11, 6), NCCL_DO_ABORT);
    assert_string_equal(watch.reason, "NCCL: peer lost while joining");
    setup(state);
    assert_int_equal(feed(NCCL_STATE, 11, 6), NCCL_DO_ABORT);
    assert_string_equal(watch.reason, "NCCL: peer lost");
}

/* Later faults cause no second abort; the reason of the first fault stays. */
static void test_one_abort(void **state)
{
    static const enum nccl_event_type types[] = {NCCL_STEP, NCCL_STATE, NCCL_FAULT, NCCL_TICK};
    (void)state;
    assert_int_equal(feed(NCCL_FAULT, 10, 0), NCCL_DO_ABORT);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(feed(types[i], 20 + i, 6), NCCL_DO_NOTHING);
    assert_string_equal(watch.reason, "peer lost");
    feed(NCCL_RETURNED, 30, 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(feed(types[i], 1000, 6), NCCL_DO_NOTHING);
    assert_int_equal(watch.phase, NCCL_ABORTED);
}

static void test_an_abort_that_hangs(void **state)
{
    (void)state;
    feed(NCCL_FAULT, 10, 0);
    assert_int_equal(feed(NCCL_TICK, 10 + PATIENCE - 1, 0), NCCL_DO_NOTHING);
    assert_int_equal(feed(NCCL_TICK, 10 + PATIENCE, 0), NCCL_DO_EXIT);
    assert_int_equal(watch.phase, NCCL_HOPELESS);
    assert_int_equal(feed(NCCL_TICK, 1000, 0), NCCL_DO_NOTHING);
}

static void test_an_orderly_end(void **state)
{
    (void)state;
    assert_int_equal(feed(NCCL_CLOSE, 10, 0), NCCL_DO_FINALIZE);
    assert_int_equal(feed(NCCL_STATE, 11, NCCL_RESULT_IN_PROGRESS), NCCL_DO_NOTHING);
    assert_int_equal(feed(NCCL_STATE, 12, NCCL_RESULT_SUCCESS), NCCL_DO_NOTHING);
    assert_int_equal(feed(NCCL_FINALIZED, 13, 0), NCCL_DO_DESTROY);
    assert_int_equal(feed(NCCL_TICK, 13 + PATIENCE - 1, 0), NCCL_DO_NOTHING);
    assert_int_equal(feed(NCCL_RETURNED, 13 + PATIENCE, 0), NCCL_DO_NOTHING);
    assert_int_equal(watch.phase, NCCL_CLOSED);
    assert_int_equal(feed(NCCL_FAULT, 1000, 0), NCCL_DO_NOTHING);
}

/* A failure while a set is closed ends in an abort, which has its own time limit. */
static void test_an_end_that_is_not_orderly(void **state)
{
    static const struct {
        enum nccl_event_type type;
        uint64_t now_ns;
        int result;
        const char *reason;
    } cases[] = {
        {NCCL_TICK, 10 + CLOSE_PATIENCE, 0, "NCCL: no answer in time while closing"},
        {NCCL_STATE, 11, 6, "NCCL: peer lost while closing"},
        {NCCL_FAULT, 11, 0, "peer lost"},
    };

    for (unsigned i = 0; i < 3; i++) {
        setup(state);
        feed(NCCL_CLOSE, 10, 0);
        assert_int_equal(feed(NCCL_TICK, 10 + CLOSE_PATIENCE - 1, 0), NCCL_DO_NOTHING);
        assert_int_equal(feed(cases[i].type, cases[i].now_ns, cases[i].result), NCCL_DO_ABORT);
        assert_string_equal(watch.reason, cases[i].reason);
        uint64_t late_ns = cases[i].now_ns + PATIENCE;
        assert_int_equal(feed(NCCL_TICK, late_ns - 1, 0), NCCL_DO_NOTHING);
        assert_int_equal(feed(NCCL_TICK, late_ns, 0), NCCL_DO_EXIT);
    }
}

static void test_destroying_that_hangs(void **state)
{
    (void)state;
    feed(NCCL_CLOSE, 10, 0);
    feed(NCCL_FINALIZED, 20, 0);
    assert_int_equal(feed(NCCL_TICK, 20 + PATIENCE, 0), NCCL_DO_EXIT);
    assert_int_equal(watch.phase, NCCL_HOPELESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_steps_that_succeed, setup),
        cmocka_unit_test_setup(test_a_step_that_is_late, setup),
        cmocka_unit_test_setup(test_an_error, setup),
        cmocka_unit_test_setup(test_one_abort, setup),
        cmocka_unit_test_setup(test_an_abort_that_hangs, setup),
        cmocka_unit_test_setup(test_an_orderly_end, setup),
        cmocka_unit_test_setup(test_an_end_that_is_not_orderly, setup),
        cmocka_unit_test_setup(test_destroying_that_hangs, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
