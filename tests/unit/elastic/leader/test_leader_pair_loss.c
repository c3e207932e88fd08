/*
 * Tests of the time that the leader waits for two nodes that have lost each other and are both
 * needed, rule by rule; test_leader_netsplit.c has the consequences. The patient plan of a, b and c
 * is in force; a and c do not reach each other, and no worker runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/timeouts.h"
#include "lib/elastic/three_nodes.h"

#include "elastic/leader/leader_netsplit.h"
#include "elastic/leader/leader_pair_loss.h"

#define TERM_NS (TIMEOUTS_NETSPLIT_MIN * TIMEOUT_NS)

static struct leader_context context;

static void look(void)
{
    roster_done(&context.roster);
    three_decision = (struct leader_decision){.wake_at_ns = UINT64_MAX};
    context = (struct leader_context){
        .view = &three_view, .memory = &three_memory, .decision = &three_decision};
    assert_int_equal(roster_init(&context.roster, &three_view), 0);
}

static int begin(void **state)
{
    three_setup(state);
    three_plan->links.patient = true;
    three_memory.netsplits[0] =
        (struct leader_netsplit){.nodes = {"a", "c"}, .until_ns = three_view.now_ns + 10 * TERM_NS};
    three_memory.pair_loss.seen = instant_at(three_view.now_ns - TERM_NS);
    three_memory.pair_loss.until_ns = three_view.now_ns;
    look();
    return 0;
}

static int end(void **state)
{
    roster_done(&context.roster);
    return three_teardown(state);
}

static bool is_over(void)
{
    look();
    return leader_pair_loss_is_over(&context);
}

static void test_it_is_over_when_its_time_is(void **state)
{
    (void)state;
    assert_true(is_over());
    three_memory.pair_loss.until_ns++;
    assert_false(is_over());
}

static void test_it_is_not_asked_again_at_once(void **state)
{
    (void)state;
    leader_pair_loss_goes_on(&context);
    assert_int_equal(three_memory.pair_loss.refused_ns, three_view.now_ns + TERM_NS);
    assert_false(is_over());
    three_view.now_ns += TERM_NS - 1;
    assert_false(is_over());
    three_view.now_ns++;
    assert_true(is_over());
}

static void test_what_runs_or_waits_for_nobody_is_no_pair_loss(void **state)
{
    (void)state;
    three_plan->links.patient = false;
    assert_false(is_over());
    three_plan->links.patient = true;
    three_say(1, WORKER_RUNNING, 6, 9);
    assert_false(is_over());
    three_say(1, WORKER_STUCK, 5, 9);
    assert_true(is_over());
    instant_clear(&three_memory.pair_loss.seen);
    assert_false(is_over());
    three_memory.pair_loss.seen = instant_at(1);
    three_view.plan = NULL;
    assert_false(is_over());
}

static void test_a_drain_of_either_end_ends_it(void **state)
{
    (void)state;
    three_memory.pair_loss.until_ns++;
    three_nodes[1].draining = true; /* b reaches both */
    assert_false(is_over());
    three_nodes[1].draining = false;
    three_nodes[0].draining = true;
    assert_true(is_over());
    three_nodes[0].draining = false;
    three_nodes[2].draining = true;
    assert_true(is_over());
}

/* The wait begins with the first plan that has both nodes; a plan without one of them ends it. */
static void test_it_begins_with_the_first_patient_plan(void **state)
{
    (void)state;
    struct plan *next = plan_copy(three_plan);
    assert_non_null(next);
    next->links.patient = false;
    instant_clear(&three_memory.pair_loss.seen);
    three_memory.pair_loss.refused_ns = 77;
    leader_pair_loss_enter(&context, next, 9);
    assert_true(next->links.patient);
    assert_int_equal(three_memory.pair_loss.seen.ns, three_view.now_ns);
    assert_int_equal(three_memory.pair_loss.until_ns, three_view.now_ns + TERM_NS);
    assert_int_equal(three_memory.pair_loss.refused_ns, 0);
    uint64_t seen_ns = three_view.now_ns;
    three_view.now_ns += 5;
    three_memory.pair_loss.refused_ns = 77;
    look();
    leader_pair_loss_enter(&context, next, 9);
    assert_int_equal(three_memory.pair_loss.seen.ns, seen_ns);
    assert_int_equal(three_memory.pair_loss.refused_ns, 77);
    next->layout.worker_count = next->layout.replica_count = 2; /* without c */
    leader_pair_loss_enter(&context, next, 9);
    assert_false(next->links.patient);
    assert_false(three_memory.pair_loss.seen.is_set);
    plan_free(next);
}

static void test_words_say_for_how_long(void **state)
{
    (void)state;
    three_memory.pair_loss.refused_ns = three_view.now_ns + TERM_NS;
    leader_pair_loss_say(&context);
    assert_string_equal(three_decision.text,
                        "; the network between them is waited for: after 40 s, or when one of "
                        "them is drained, the job goes back to step 4 without it, if there are "
                        "slots enough");
    assert_int_equal(three_decision.wake_at_ns, three_memory.pair_loss.refused_ns);
    three_memory.pair_loss.until_ns = three_memory.pair_loss.refused_ns + 1;
    look();
    leader_pair_loss_say(&context);
    assert_int_equal(three_decision.wake_at_ns, three_memory.pair_loss.until_ns);
}

static void test_words_of_a_leader_that_has_not_seen_it_begin(void **state)
{
    (void)state;
    instant_clear(&three_memory.pair_loss.seen);
    look();
    leader_pair_loss_say(&context);
    assert_string_equal(three_decision.text, "; the network between them is waited for");
    assert_true(three_decision.wake_at_ns == UINT64_MAX);
    three_plan->links.patient = false;
    look();
    leader_pair_loss_say(&context);
    assert_string_equal(three_decision.text, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_it_is_over_when_its_time_is),
        TEST(test_it_is_not_asked_again_at_once),
        TEST(test_what_runs_or_waits_for_nobody_is_no_pair_loss),
        TEST(test_a_drain_of_either_end_ends_it),
        TEST(test_it_begins_with_the_first_patient_plan),
        TEST(test_words_say_for_how_long),
        TEST(test_words_of_a_leader_that_has_not_seen_it_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
