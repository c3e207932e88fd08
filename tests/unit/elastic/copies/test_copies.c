/* Tests of the placement of copies of checkpoints, and of the places in a commit record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/leader/leader.h"

#define NODES_MAX 12

/*
 * Make a plan with one worker on each node, or two if @pairs. @domains: a letter for each node's
 * domain; '.': none.
 */
static struct plan *make(const char *domains, unsigned copies, bool pairs,
                         struct member nodes[NODES_MAX])
{
    unsigned count = (unsigned)strlen(domains), each = pairs ? 2 : 1;
    struct plan *plan = plan_new();
    plan->layout.worker_count = count * each;
    plan->layout.workers = calloc(plan->layout.worker_count, sizeof(*plan->layout.workers));
    memset(nodes, 0, NODES_MAX * sizeof(*nodes));
    for (unsigned i = 0; i < count; i++) {
        snprintf(nodes[i].name, NAME_SIZE, "n%u", i);
        snprintf(nodes[i].http, ADDRESS_SIZE, "10.0.0.%u:7580", i);
        if (domains[i] != '.')
            snprintf(nodes[i].domain, NAME_SIZE, "%c", domains[i]);
        for (unsigned k = 0; k < each; k++)
            snprintf(plan->layout.workers[i * each + k].node, NAME_SIZE, "n%u", i);
    }
    assert_int_equal(copies_fill(plan, copies, "", nodes, count), 0);
    assert_int_equal(copies_writer_count(plan), count);
    return plan;
}

/*
 * Check that every share is on distinct nodes, in as many domains as possible, and count each
 * node's copies.
 */
static void check(const char *domains, unsigned copies, unsigned domains_least, unsigned kept_most)
{
    static struct member nodes[NODES_MAX];
    unsigned kept[NODES_MAX] = {0}, count = (unsigned)strlen(domains);
    struct plan *plan = make(domains, copies, false, nodes);
    for (unsigned copy_node = 0; copy_node < count; copy_node++) {
        unsigned targets[COPIES_MAX - 1];
        char seen[NODES_MAX + 1] = {domains[copy_node]};
        unsigned found = copies_targets(plan, copy_node, targets);
        assert_int_equal(found, count < copies ? count - 1 : copies - 1);
        for (unsigned i = 0; i < found; i++) {
            assert_int_not_equal(targets[i], copy_node);
            for (unsigned k = 0; k < i; k++)
                assert_int_not_equal(targets[i], targets[k]);
            char domain = domains[targets[i]];
            if (domain == '.' || !strchr(seen, domain))
                seen[strlen(seen)] = domain;
            kept[targets[i]]++;
        }
        assert_true(strlen(seen) >= domains_least);
    }
    for (unsigned i = 0; i < count; i++)
        assert_true(kept[i] <= kept_most);
    plan_free(plan);
}

static void test_a_ring_without_domains(void **state)
{
    (void)state;
    check("..", 2, 2, 1);
    check("...", 2, 2, 1);
    check(".....", 3, 3, 2);
    check("........", 8, 8, 7);
}

static void test_other_domains_come_first_and_evenly(void **state)
{
    (void)state;
    check("aaabbb", 2, 2, 1);
    check("abababab", 2, 2, 1);
    check("aabbcc", 3, 3, 2);
    check("aaab", 2, 2, 3); /* one node takes all copies that the others may not */
}

static void test_fewer_domains_than_copies(void **state)
{
    (void)state;
    check("aaaa", 2, 1, 3);
    check("aabb", 3, 2, 3);
}

static void test_fewer_nodes_than_copies(void **state)
{
    (void)state;
    check(".", 2, 1, 0);
    check("..", 3, 2, 1);
}

static void test_keepers_are_the_lowest_ranks(void **state)
{
    static struct member nodes[NODES_MAX];
    (void)state;
    struct plan *plan = make("...", 2, true, nodes);
    for (unsigned copy_node = 0; copy_node < 3; copy_node++)
        assert_int_equal(copies_keeper(plan, copy_node), 2 * copy_node);
    assert_int_equal(copies_find(&plan->checkpoints, "n2"), 2);
    assert_int_equal(copies_find(&plan->checkpoints, "n3"), -1);
    plan_free(plan);
}

static void test_holders_without_a_worker_are_copy_nodes(void **state)
{
    static struct member nodes[NODES_MAX];
    (void)state;
    struct plan *plan = make("....", 2, false, nodes);
    plan->layout.worker_count = 2;
    assert_int_equal(copies_fill(plan, 2, "n3+n9 n0+n3", nodes, 4), 0); /* n9 is away */
    assert_int_equal(plan->checkpoints.copy_node_count, 3);
    assert_int_equal(copies_writer_count(plan), 2);
    assert_string_equal(plan->checkpoints.copy_nodes[2].node, "n3");
    assert_string_equal(plan->checkpoints.copy_nodes[2].http, "10.0.0.3:7580");
    unsigned targets[COPIES_MAX - 1];
    assert_int_equal(copies_targets(plan, 0, targets), 1);
    assert_int_equal(targets[0], 1); /* never a node that does not write */
    plan_free(plan);
}

static bool is_early(void *context, const char *node)
{
    (void)context;
    return strcmp(node, "n3") < 0;
}

static void test_places(void **state)
{
    static struct member nodes[NODES_MAX];
    char text[64] = "";
    (void)state;
    plan_free(make("...", 2, false, nodes));
    assert_true(copies_alive("", nodes, 0, text, sizeof(text)));
    assert_true(copies_alive("n0+n1 n1+n7 n8+n2", nodes, 3, text, sizeof(text)));
    assert_false(copies_alive("n0+n1 n8+n7", nodes, 3, text, sizeof(text)));
    assert_string_equal(text, "n8 or n7");
    assert_int_equal(copies_fewest("n0+n1 n8 n3+n4+n5"), 1);
    assert_int_equal(copies_fewest("n0+n1+n2"), 3);
    assert_int_equal(copies_fewest(""), 0);
    assert_int_equal(copies_left("n0+n1 n2+n8+n1", is_early, NULL), 2);
    assert_int_equal(copies_left("n0+n1 n2+n8", is_early, NULL), 1);
    assert_int_equal(copies_left("n8+n9 n0+n1", is_early, NULL), 0);
    assert_int_equal(copies_left("", is_early, NULL), 0);
}

static void test_who_could_not_be_asked(void **state)
{
    static struct member nodes[NODES_MAX];
    char group[64], text[64];
    (void)state;
    struct plan *plan = make("...", 2, false, nodes);
    copies_unasked("n0+n1 n2+n0", &plan->checkpoints, group, sizeof(group));
    assert_string_equal(group, "");
    copies_unasked("n0+n7 n8+n7", &plan->checkpoints, group, sizeof(group));
    assert_string_equal(group, "n7+n8");
    assert_false(copies_alive(group, nodes, 3, text, sizeof(text)));
    assert_string_equal(text, "n7 or n8");
    snprintf(nodes[0].name, NAME_SIZE, "n8");
    assert_true(copies_alive(group, nodes, 3, text, sizeof(text)));
    copies_unasked("n0+n7 n8+n7", &plan->checkpoints, group, 4); /* no room for more */
    assert_string_equal(group, "n7");
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ring_without_domains),
        cmocka_unit_test(test_other_domains_come_first_and_evenly),
        cmocka_unit_test(test_fewer_domains_than_copies),
        cmocka_unit_test(test_fewer_nodes_than_copies),
        cmocka_unit_test(test_keepers_are_the_lowest_ranks),
        cmocka_unit_test(test_holders_without_a_worker_are_copy_nodes),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_who_could_not_be_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
