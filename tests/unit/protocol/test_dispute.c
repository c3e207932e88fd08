/* Tests of the meaning of a verdict for each rank, and of a worker's memory of disputes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "lib/elastic/ranked_plan.h"
#include "protocol/dispute.h"

#define STEP  41
#define UNITS 4

static void outcome(enum dispute_about about, const struct dispute_verdict *verdict, unsigned rank,
                    bool again, int status, const char *words)
{
    struct plan *plan = ranked_plan(3);
    struct error error = {0};

    plan->layout.workers[1].slot = 5;
    assert_int_equal(dispute_outcome(&plan->layout, rank, about, STEP, verdict, again, &error),
                     status);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    plan_free(plan);
}

static void test_a_verdict_decides_what_each_rank_does(void **state)
{
    static const struct dispute_verdict settled = {
        .settled = true, .unit = 2, .holders = 3, .accused_count = 1, .accused = {1}};
    static const struct dispute_verdict open = {
        .unit = 2, .holders = 2, .accused_count = 2, .accused = {0, 1}};
    static const char wrong[] = "step 41: node n1, slot 5: other gradients of unit 2";

    (void)state;
    outcome(DISPUTE_GRADIENTS, &settled, 1, false, -ENOTRECOVERABLE, wrong);
    outcome(DISPUTE_GRADIENTS, &settled, 0, false, -ECONNRESET, wrong);
    outcome(DISPUTE_GRADIENTS, &open, 0, false, -EAGAIN,
            "node n0, slot 0 and node n1, slot 5 hold different");
    outcome(DISPUTE_GRADIENTS, &open, 2, false, -EAGAIN, "it is computed again");
    outcome(DISPUTE_GRADIENTS, &open, 0, true, -ENOTRECOVERABLE,
            "again: memory or device of one of them");
    outcome(DISPUTE_GRADIENTS, &open, 2, true, -ECONNRESET,
            "again: memory or device of one of them");
    outcome(DISPUTE_STATE, &settled, 1, false, -ENOTRECOVERABLE, "slot 5: other parameters or mom");
    outcome(DISPUTE_STATE, &settled, 0, false, -EUCLEAN, "slot 5: other parameters or moments");
    outcome(DISPUTE_STATE, &open, 0, false, -EUCLEAN, "going back to the newest checkpoint");
    outcome(DISPUTE_STATE, &open, 2, false, -EUCLEAN, "going back to the newest checkpoint");
    outcome(DISPUTE_STATE, &open, 0, true, -ENOTRECOVERABLE, "of unit 2 again");
    outcome(DISPUTE_STATE, &open, 2, true, -EUCLEAN, "of unit 2 again");
}

static const struct dispute_verdict open_verdict = {.accused_count = 2, .accused = {0, 1}};

static void test_gradients_disputed_twice_in_one_step_are_remembered(void **state)
{
    struct dispute_memory memory = {0};

    (void)state;
    assert_false(dispute_memory_has_seen(&memory, DISPUTE_GRADIENTS, STEP, 0, UNITS));
    dispute_memory_note(&memory, DISPUTE_GRADIENTS, STEP, &open_verdict);
    assert_true(dispute_memory_has_seen(&memory, DISPUTE_GRADIENTS, STEP, 0, UNITS));
    assert_false(dispute_memory_has_seen(&memory, DISPUTE_GRADIENTS, STEP + 1, 0, UNITS));
    assert_false(dispute_memory_has_seen(&memory, DISPUTE_STATE, STEP, 0, UNITS));
    dispute_memory_rollback(&memory);
    assert_false(dispute_memory_has_seen(&memory, DISPUTE_GRADIENTS, STEP, 0, UNITS));
}

/* A wrong bit of the state is found within as many steps as the model has units. */
static void test_disputed_state_is_remembered_for_an_interval(void **state)
{
    static const struct {
        uint64_t interval, last; /* the last step at which the dispute counts */
    } cases[] = {{0, UINT64_MAX}, {1, STEP + UNITS}, {UNITS, STEP + UNITS}, {10, STEP + 10}};

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct dispute_memory memory = {0};
        uint64_t interval = cases[i].interval, last = cases[i].last;
        dispute_memory_note(&memory, DISPUTE_STATE, STEP, &open_verdict);
        dispute_memory_rollback(&memory); /* does not make the state right */
        assert_true(dispute_memory_has_seen(&memory, DISPUTE_STATE, last, interval, UNITS));
        if (last < UINT64_MAX)
            assert_false(
                dispute_memory_has_seen(&memory, DISPUTE_STATE, last + 1, interval, UNITS));
    }
}

static void test_a_verdict_with_a_majority_leaves_no_memory(void **state)
{
    static const struct dispute_verdict settled = {
        .settled = true, .accused_count = 1, .accused = {1}};
    struct dispute_memory memory = {0};

    (void)state;
    dispute_memory_note(&memory, DISPUTE_STATE, STEP, &settled);
    dispute_memory_note(&memory, DISPUTE_GRADIENTS, STEP, &settled);
    assert_int_equal(memory.state_step, 0);
    assert_int_equal(memory.gradients_step, 0);
}

/* The claims are those of the units that the rank knows: squares or digests. */
static void test_a_rank_claims_what_it_knows(void **state)
{
    struct dispute_verdict_claim claims[STEP_RECORD_UNITS_MAX];
    struct unit_digests digests = {.known = {[3] = true}, .values = {[3] = 77}};
    struct step_record record;

    (void)state;
    step_record_init(&record, STEP, UNITS, 1);
    record.unit_squares[1] = 2.5;
    assert_int_equal(dispute_list_claims(&record, &digests, DISPUTE_GRADIENTS, 6, claims), 1);
    assert_int_equal(claims[0].unit, 1);
    assert_int_equal(claims[0].rank, 6);
    assert_memory_equal(&claims[0].bits, &record.unit_squares[1], sizeof(claims[0].bits));
    assert_int_equal(dispute_list_claims(&record, &digests, DISPUTE_STATE, 6, claims), 1);
    assert_int_equal(claims[0].unit, 3);
    assert_int_equal(claims[0].bits, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_verdict_decides_what_each_rank_does),
        cmocka_unit_test(test_gradients_disputed_twice_in_one_step_are_remembered),
        cmocka_unit_test(test_disputed_state_is_remembered_for_an_interval),
        cmocka_unit_test(test_a_verdict_with_a_majority_leaves_no_memory),
        cmocka_unit_test(test_a_rank_claims_what_it_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
