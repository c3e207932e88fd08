/*
 * Tests of the digests that replicas compare: their parts, their steps, and that every bit of the
 * state counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/worker/tiny_state.h"

#include "lib/worker/plan_of_one.h"
#include "worker/state/state_digest.h"

struct checked {
    struct tiny_state tiny;
    struct plan *plan;
    struct state_digest *check;
};

static void open_checked(struct checked *checked, unsigned replicas)
{
    struct error error = {0};

    tiny_state_init(&checked->tiny, true);
    struct state *state = checked->tiny.state;
    assert_int_equal(state_initialize(state, 0, state->unit_count, &error), 0);
    checked->plan = plan_of_one(state->unit_count, replicas);
    checked->plan->layout.replica_count = checked->plan->layout.worker_count = replicas;
    assert_int_equal(state_digest_new(state, &checked->check), 0);
}

static void close_checked(struct checked *checked)
{
    state_digest_free(checked->check);
    plan_free(checked->plan);
    tiny_state_done(&checked->tiny);
}

static const struct unit_digests *run(struct checked *checked, bool all)
{
    state_digest_run(checked->check, &checked->plan->layout, 0, all);
    return state_digest_of(checked->check);
}

static unsigned known_units(const struct unit_digests *digests)
{
    unsigned count = 0;

    for (unsigned unit = 0; unit < STEP_RECORD_UNITS_MAX; unit++)
        count += digests->known[unit];
    return count;
}

static void test_units_have_their_turns(void **state)
{
    struct checked checked;
    const struct unit_digests *digests;

    (void)state;
    open_checked(&checked, 2);
    struct state *training = checked.tiny.state;
    for (uint64_t step = 0; step < 2 * training->unit_count; step++) {
        training->applied_step = step;
        digests = run(&checked, false);
        assert_int_equal(known_units(digests), 1);
        assert_true(digests->known[step % training->unit_count]);
    }
    assert_int_equal(known_units(run(&checked, true)), training->unit_count);
    close_checked(&checked);
}

static void test_what_nobody_else_holds_is_not_compared(void **state)
{
    struct checked checked;

    (void)state;
    open_checked(&checked, 1);
    assert_int_equal(known_units(run(&checked, true)), 0);
    checked.plan->layout.replica_count = checked.plan->layout.worker_count = 2;
    checked.tiny.spec.elastic.mixed_devices = true; /* devices with different sums */
    assert_int_equal(known_units(run(&checked, true)), 0);
    close_checked(&checked);
}

static void expect_seen(struct checked *checked, unsigned unit, float *value)
{
    struct unit_digests before = *run(checked, true);
    uint32_t bits, flipped;

    memcpy(&bits, value, sizeof(bits));
    flipped = bits ^ 1u << 31;
    memcpy(value, &flipped, sizeof(bits));
    const struct unit_digests *after = run(checked, true);
    for (unsigned other = 0; other < checked->tiny.state->unit_count; other++)
        assert_int_equal(before.values[other] != after->values[other], other == unit);
    memcpy(value, &bits, sizeof(bits));
}

static void test_parameters_and_moments_count(void **state)
{
    struct checked checked;

    (void)state;
    open_checked(&checked, 2);
    for (unsigned unit = 0; unit < checked.tiny.state->unit_count; unit++) {
        const struct state_unit *held = &checked.tiny.state->units[unit];
        expect_seen(&checked, unit, &held->parameters[0]);
        expect_seen(&checked, unit, &held->first_moment[1]);
        expect_seen(&checked, unit, &held->second_moment[held->layout.count - 1]);
    }
    close_checked(&checked);
}

/* A frozen unit has no moments, and is compared all the same. */
static void test_frozen_units_count(void **state)
{
    struct checked checked;
    struct error error = {0};

    (void)state;
    open_checked(&checked, 2);
    checked.tiny.state->freeze.frozen_layers = 1;
    assert_int_equal(state_take_unit(checked.tiny.state, 0, &error), 0);
    assert_null(checked.tiny.state->units[0].first_moment);
    expect_seen(&checked, 0, &checked.tiny.state->units[0].parameters[3]);
    close_checked(&checked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_have_their_turns),
        cmocka_unit_test(test_what_nobody_else_holds_is_not_compared),
        cmocka_unit_test(test_parameters_and_moments_count),
        cmocka_unit_test(test_frozen_units_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
