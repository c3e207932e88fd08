/*
 * Tests of the versions and the arithmetic that nodes register: which control versions understand
 * each other, and how the leader says that a node does not fit a job. Upgrades of a whole cluster
 * are scenes (tests/sim/scene/test_unlike_nodes.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "elastic/leader/leader_internal.h"
#include "lib/elastic/three_nodes.h"

/* The node leads, and keeps copies of checkpoints. */
static void test_a_node_without_slots_is_not_to_be_upgraded(void **state)
{
    (void)state;
    struct member node = {.name = "d"};
    struct leader_compatibility kind = {.numerics_identity = "one", .links = 2};
    char words[200] = "something";
    leader_compatibility_words(&kind, &node, words, sizeof(words));
    assert_string_equal(words, "");
}

/* Version zero is no version to upgrade to. */
static void test_what_is_not_said_is_said_to_be_so(void **state)
{
    (void)state;
    struct member node = {.name = "d", .numerics_identity = "one", .slot_count = 1};
    struct leader_compatibility kind = {.numerics_identity = "one", .links = 2};
    char words[200];
    leader_compatibility_words(&kind, &node, words, sizeof(words));
    assert_string_equal(words, "node d does not say which link protocol its workers speak: see its "
                               "log, restart its firnd");
    node.protocol.links = 3;
    kind.links = 0;
    leader_compatibility_words(&kind, &node, words, sizeof(words));
    assert_string_equal(words, "node d starts workers of link protocol 3, nobody said what this "
                               "job's speak: upgrade all nodes");
}

static void test_versions_meet_where_their_ranges_do(void **state)
{
    (void)state;
    assert_true(versions_meet(0, 0)); /* no version reported: the first */
    assert_true(versions_meet(VERSIONS_CONTROL_OLDEST, VERSIONS_CONTROL));
    assert_true(versions_meet(VERSIONS_CONTROL, VERSIONS_CONTROL + 7));
    assert_false(versions_meet(VERSIONS_CONTROL + 1, VERSIONS_CONTROL + 7));
}

/* Lose all workers of a job of @numerics; the only remaining node computes with @other. */
static void leave_another_kind(const char *numerics, const char *other)
{
    snprintf(three_plan->numerics, sizeof(three_plan->numerics), "%s", numerics);
    snprintf(three_nodes[0].numerics_identity, sizeof(three_nodes[0].numerics_identity), "%s",
             other);
    three_nodes[0].incarnation++;
    three_view.node_count = 1;
    three_view.report_count = 0;
    three_decide();
    three_view.now_ns += 100 * TIMEOUT_NS; /* the leader waits for no node any more */
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.state, JOB_RECOVERING);
}

/*
 * OpenBLAS takes its core type from the environment: if that is the only difference, the leader
 * names the remedy.
 */
static void test_a_core_that_firnd_could_ask_for_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *job, *node, *remedy; /* NULL: none */
    } cases[] = {
        {"OpenBLAS 0.3.21 Prescott, kernels 2, 1 thread",
         "OpenBLAS 0.3.21 SkylakeX, kernels 2, 1 thread", ", or OPENBLAS_CORETYPE=Prescott there"},
        {"OpenBLAS 0.3.21 Prescott, kernels 2, 1 thread",
         "OpenBLAS 0.3.21 SkylakeX, kernels 2, 2 threads", NULL},
        {"OpenBLAS 0.3.21 Prescott, kernels 2, 1 thread",
         "OpenBLAS 0.3.26 SkylakeX, kernels 2, 1 thread", NULL},
        {"OpenBLAS ", "OpenBLAS 0.3.26 SkylakeX, kernels 2, 1 thread", NULL},
        {"H100", "OpenBLAS 0.3.26 SkylakeX, kernels 2, 1 thread", NULL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(three_setup(NULL), 0);
        leave_another_kind(cases[i].job, cases[i].node);
        assert_non_null(strstr(three_decision.text, "see elastic.mixed_devices"));
        if (cases[i].remedy)
            assert_non_null(strstr(three_decision.text, cases[i].remedy));
        else
            assert_null(strstr(three_decision.text, "OPENBLAS_CORETYPE"));
        assert_int_equal(three_teardown(NULL), 0);
    }
}

/* Two of three workers die while the job leaves, and nodes start workers of protocol @links. */
static void lose_two_while_leaving(unsigned links)
{
    three_plan->layout.worker_count = 0;
    three_plan->change.planned = true;
    three_plan->change.reason = PLAN_REASON_UPGRADE;
    three_plan->links.protocol = 2;
    three_plan->start.resume_step = 9;
    for (unsigned node = 0; node < NODES; node++) {
        three_nodes[node].protocol.links = links;
        three_say(node, node ? WORKER_DEAD : WORKER_STUCK, 5, node ? 0 : 9);
    }
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->links.protocol, links);
}

/* The survivor has the newest state, but cannot link to workers of another protocol. */
static void test_survivors_do_not_mix_with_workers_of_another_protocol(void **state)
{
    (void)state;
    lose_two_while_leaving(2);
    three_expect_published(9, 0);
    assert_int_equal(three_teardown(NULL), 0);
    assert_int_equal(three_setup(NULL), 0);
    lose_two_while_leaving(3);
    assert_int_equal(three_decision.plan->layout.worker_count, 0); /* it leaves, too */
    assert_false(three_decision.plan->change.planned);
    assert_non_null(strstr(three_decision.plan->change.text, "speak another link protocol"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_core_that_firnd_could_ask_for_is_named),
        cmocka_unit_test(test_a_node_without_slots_is_not_to_be_upgraded),
        cmocka_unit_test(test_what_is_not_said_is_said_to_be_so),
        cmocka_unit_test(test_versions_meet_where_their_ranges_do),
        cmocka_unit_test_setup_teardown(test_survivors_do_not_mix_with_workers_of_another_protocol,
                                        three_setup, three_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
