/* Tests of the places of a checkpoint as they change after its commit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/leader/leader.h"

static char *shares;

static void begin(const char *text)
{
    free(shares);
    shares = strdup(text);
}

static int end(void **state)
{
    (void)state;
    free(shares);
    shares = NULL;
    return 0;
}

static void add(const char *writer, const char *node, const char *wanted)
{
    assert_int_equal(copies_add(&shares, writer, node, NULL), 0);
    assert_string_equal(shares, wanted);
}

static void test_places_are_added(void **state)
{
    (void)state;
    begin("a+b b+a");
    add("a", "c", "a+b+c b+a");
    add("b", "c", "a+b+c b+a+c");
    add("b", "c", "a+b+c b+a+c"); /* a place is recorded once */
    add("b", "b", "a+b+c b+a+c");
    add("d", "a", "a+b+c b+a+c d+a");
    add("e", "e", "a+b+c b+a+c d+a e");
    assert_true(copies_has(shares, "c"));
    assert_false(copies_has(shares, "x"));
}

/* A group is identified by the whole name of its writer, and a place by its whole name. */
static void test_names_that_begin_alike(void **state)
{
    (void)state;
    begin("node10+node1 node1+node");
    add("node1", "node10", "node10+node1 node1+node+node10");
    add("node", "node10", "node10+node1 node1+node+node10 node+node10");
    add("node10", "node", "node10+node1+node node1+node+node10 node+node10");
    assert_false(copies_has(shares, "nod"));
}

static void test_a_full_group(void **state)
{
    struct plan_copy_node copy_nodes[] = {{.node = "n0"}, {.node = "n1"}, {.node = "n2"},
                                          {.node = "n4"}, {.node = "n5"}, {.node = "n6"},
                                          {.node = "n7"}};
    struct plan plan = {.checkpoints.copy_nodes = copy_nodes,
                        .checkpoints.copy_node_count = ARRAY_COUNT(copy_nodes)};
    (void)state;
    begin("x n0+n1+n2+n3+n4+n5+n6+n7");
    assert_int_equal(copies_add(&shares, "n0", "n8", NULL), -ENOSPC);
    assert_int_equal(copies_add(&shares, "n0", "n8", &plan), 0);
    assert_string_equal(shares, "x n0+n1+n2+n8+n4+n5+n6+n7"); /* n3 is gone */
    snprintf(copy_nodes[0].node, NAME_SIZE, "n8");
    assert_int_equal(copies_add(&shares, "n0", "n9", &plan), -ENOSPC); /* not the writer */
    assert_string_equal(shares, "x n0+n1+n2+n8+n4+n5+n6+n7");
}

static void test_a_full_text(void **state)
{
    (void)state;
    begin("");
    shares = realloc(shares, COPIES_SHARES_SIZE);
    memset(shares, 'w', COPIES_SHARES_SIZE - 4);
    strcpy(shares + COPIES_SHARES_SIZE - 4, " b");
    assert_int_equal(copies_add(&shares, "b", "cc", NULL), -ENOSPC);
    assert_int_equal(strlen(shares), COPIES_SHARES_SIZE - 2);
    shares[COPIES_SHARES_SIZE - 5] = '\0';
    assert_int_equal(copies_add(&shares, "b", "b", NULL), 0); /* to the last byte */
    assert_int_equal(strlen(shares), COPIES_SHARES_SIZE - 3);
}

static void test_the_first_place_of_all(void **state)
{
    (void)state;
    assert_null(shares);
    add("a", "b", "a+b");
}

/* ---- a new checkpoint ---- */

#define MANY 1000

/* Return whether @keeper is one of the next @count - 1 nodes of the ring after @writer. */
static bool has_next(const void *context, unsigned keeper, unsigned writer)
{
    const unsigned *count = context;
    return (keeper + MANY - writer) % MANY < *count;
}

static struct plan *make_large_plan(void)
{
    struct plan *plan = plan_new();
    plan->layout.worker_count = plan->checkpoints.copy_node_count = MANY;
    plan->layout.workers = calloc(MANY, sizeof(*plan->layout.workers));
    plan->checkpoints.copy_nodes = calloc(MANY, sizeof(*plan->checkpoints.copy_nodes));
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(plan->checkpoints.copy_nodes[i].node, NAME_SIZE, "node-of-a-%053u", i);
        memcpy(plan->layout.workers[i].node, plan->checkpoints.copy_nodes[i].node, NAME_SIZE);
    }
    return plan;
}

/* A record without places would be read as a checkpoint in a shared folder. */
static void test_places_of_a_thousand_nodes_of_long_names(void **state)
{
    struct plan *plan = make_large_plan();
    unsigned count = 2;
    (void)state;
    assert_int_equal(copies_places(plan, has_next, &count, &shares), 0);
    assert_int_equal(strlen(shares), MANY * 2 * NAME_SIZE - 1);
    assert_int_equal(copies_fewest(shares), 2);
    assert_true(copies_has(shares, plan->checkpoints.copy_nodes[MANY - 1].node));
    end(NULL);
    count = COPIES_MAX;
    assert_int_equal(copies_places(plan, has_next, &count, &shares), 0);
    assert_int_equal(copies_fewest(shares), COPIES_MAX);
    plan_free(plan);
}

static void test_places_that_no_record_has_room_for(void **state)
{
    struct plan_copy_node *copy_nodes = calloc(PLAN_COPY_NODES_MAX, sizeof(*copy_nodes));
    struct plan_worker last = {.node = "the-last"};
    struct plan plan = {.checkpoints.copy_nodes = copy_nodes,
                        .checkpoints.copy_node_count = PLAN_COPY_NODES_MAX,
                        .layout.workers = &last,
                        .layout.worker_count = 1};
    unsigned count = COPIES_MAX;
    (void)state;
    for (unsigned i = 0; i < PLAN_COPY_NODES_MAX; i++)
        snprintf(copy_nodes[i].node, NAME_SIZE, "node-of-a-%053u", i);
    snprintf(copy_nodes[PLAN_COPY_NODES_MAX - 1].node, NAME_SIZE, "the-last");
    assert_int_equal(copies_places(&plan, has_next, &count, &shares), -ENOSPC);
    assert_null(shares);
    free(copy_nodes);
}

/* ---- copies that are missing ---- */

#define WRITERS_MAX 8

/*
 * Make a plan of nodes a, b, ... with workers and their domains ('.': none), and of node z without
 * one.
 */
static struct plan *make_plan(const char *domains)
{
    struct member nodes[12];
    unsigned count = (unsigned)strlen(domains);
    struct plan *plan = plan_new();
    plan->layout.worker_count = count;
    plan->layout.workers = calloc(count, sizeof(*plan->layout.workers));
    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i <= count; i++) {
        nodes[i].name[0] = i < count ? (char)('a' + i) : 'z';
        if (i < count && domains[i] != '.')
            nodes[i].domain[0] = domains[i];
        if (i < count)
            memcpy(plan->layout.workers[i].node, nodes[i].name, NAME_SIZE);
    }
    assert_int_equal(copies_fill(plan, 2, "z", nodes, count + 1), 0);
    return plan;
}

/* Return the shares that @node must copy, as one text. */
static const char *missing(const struct plan *plan, unsigned copies, const char *text,
                           const char *node)
{
    static char words[WRITERS_MAX * NAME_SIZE];
    char writers[WRITERS_MAX][NAME_SIZE];
    unsigned count = copies_missing(plan, copies, text, node, writers, WRITERS_MAX);
    words[0] = '\0';
    for (unsigned i = 0; i < count; i++)
        strcat(strcat(words, i > 0 ? " " : ""), writers[i]);
    return words;
}

static void test_nothing_is_missing(void **state)
{
    struct plan *plan = make_plan("...");
    (void)state;
    for (const char *node = "abcz"; *node != '\0'; node++) {
        const char name[2] = {*node};
        assert_string_equal(missing(plan, 2, "a+b b+c c+a", name), "");
        assert_string_equal(missing(plan, 1, "a b c", name), "");
        assert_string_equal(missing(plan, 2, "", name), "");
        assert_string_equal(missing(plan, 2, "a+z b+z c+z", name),
                            ""); /* z has no worker, but is alive */
    }
    plan_free(plan);
}

/* x had a copy of a's share and its own share: another node copies each of them once. */
static void test_a_lost_node(void **state)
{
    struct plan *plan = make_plan("...");
    (void)state;
    assert_string_equal(missing(plan, 2, "a+x b+c x+b", "a"), "x");
    assert_string_equal(missing(plan, 2, "a+x b+c x+b", "b"), "");
    assert_string_equal(missing(plan, 2, "a+x b+c x+b", "c"), "a");
    assert_string_equal(missing(plan, 2, "a+x b+c x+b", "z"), ""); /* no worker: no new copies */
    assert_string_equal(missing(plan, 2, "x+y b+c", "a"), "");     /* no node has it any more */
    plan_free(plan);
}

/* One node has fetched the whole checkpoint: the other nodes share the copying. */
static void test_everything_lies_on_one_node(void **state)
{
    struct plan *plan = make_plan("...");
    (void)state;
    assert_string_equal(missing(plan, 2, "w+a x+a y+a v+a", "a"), "");
    assert_string_equal(missing(plan, 2, "w+a x+a y+a v+a", "b"), "w y");
    assert_string_equal(missing(plan, 2, "w+a x+a y+a v+a", "c"), "x v");
    assert_string_equal(missing(plan, 3, "w+a x+a", "b"), "w x");
    assert_string_equal(missing(plan, 3, "w+a x+a", "c"), "w x");
    assert_string_equal(missing(plan, 8, "w+a", "c"), "w"); /* at most one copy for each node */
    plan_free(plan);
}

static void test_other_domains_first(void **state)
{
    struct plan *plan = make_plan("rrs");
    (void)state;
    assert_string_equal(missing(plan, 2, "a+x b+c", "b"), "");
    assert_string_equal(missing(plan, 2, "a+x b+c", "c"), "a"); /* though c keeps more copies */
    assert_string_equal(missing(plan, 3, "a+x b+c", "b"), "a");
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_places_are_added, end),
        cmocka_unit_test_teardown(test_names_that_begin_alike, end),
        cmocka_unit_test_teardown(test_a_full_group, end),
        cmocka_unit_test_teardown(test_a_full_text, end),
        cmocka_unit_test_teardown(test_the_first_place_of_all, end),
        cmocka_unit_test_teardown(test_places_of_a_thousand_nodes_of_long_names, end),
        cmocka_unit_test_teardown(test_places_that_no_record_has_room_for, end),
        cmocka_unit_test(test_nothing_is_missing),
        cmocka_unit_test(test_a_lost_node),
        cmocka_unit_test(test_everything_lies_on_one_node),
        cmocka_unit_test(test_other_domains_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
