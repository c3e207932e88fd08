/* The places of a checkpoint as they change after its commit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/leader.h"

static char shares[COPIES_SHARES_SIZE];

static void begin(const char *text)
{
    snprintf(shares, sizeof(shares), "%s", text);
}

static void add(const char *writer, const char *node, const char *wanted)
{
    assert_int_equal(copies_add(shares, writer, node, NULL), 0);
    assert_string_equal(shares, wanted);
}

static void test_places_are_added(void **state)
{
    (void)state;
    begin("a+b b+a");
    add("a", "c", "a+b+c b+a");
    add("b", "c", "a+b+c b+a+c");
    add("b", "c", "a+b+c b+a+c"); /* once is enough */
    add("b", "b", "a+b+c b+a+c");
    add("d", "a", "a+b+c b+a+c d+a");
    add("e", "e", "a+b+c b+a+c d+a e");
    assert_true(copies_has(shares, "c"));
    assert_false(copies_has(shares, "x"));
}

/* A group is known by the whole name of its writer, and places by theirs. */
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
    struct plan_store stores[] = {{.node = "n0"}, {.node = "n1"}, {.node = "n2"}, {.node = "n4"},
                                  {.node = "n5"}, {.node = "n6"}, {.node = "n7"}};
    struct plan plan = {.stores = stores, .store_count = ARRAY_COUNT(stores)};
    (void)state;
    begin("x n0+n1+n2+n3+n4+n5+n6+n7");
    assert_int_equal(copies_add(shares, "n0", "n8", NULL), -ENOSPC);
    assert_int_equal(copies_add(shares, "n0", "n8", &plan), 0);
    assert_string_equal(shares, "x n0+n1+n2+n8+n4+n5+n6+n7"); /* n3 is gone */
    snprintf(stores[0].node, NAME_SIZE, "n8");
    assert_int_equal(copies_add(shares, "n0", "n9", &plan), -ENOSPC); /* not the writer */
    assert_string_equal(shares, "x n0+n1+n2+n8+n4+n5+n6+n7");
}

static void test_a_full_text(void **state)
{
    (void)state;
    memset(shares, 'w', sizeof(shares) - 2);
    shares[sizeof(shares) - 2] = '\0';
    assert_int_equal(copies_add(shares, "a", "b", NULL), -ENOSPC);
    assert_int_equal(strlen(shares), sizeof(shares) - 2);
}

/* ---- copies that are missing ---- */

#define WRITERS_MAX 8

/* Nodes with workers a, b, ... and their domains ('.': none); then one without a worker, z. */
static struct plan *make_plan(const char *domains)
{
    struct leader_node nodes[12];
    unsigned count = (unsigned)strlen(domains);
    struct plan *plan = plan_new();
    plan->worker_count = count;
    plan->workers = calloc(count, sizeof(*plan->workers));
    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i <= count; i++) {
        nodes[i].name[0] = i < count ? (char)('a' + i) : 'z';
        if (i < count && domains[i] != '.')
            nodes[i].domain[0] = domains[i];
        if (i < count)
            memcpy(plan->workers[i].node, nodes[i].name, NAME_SIZE);
    }
    assert_int_equal(copies_fill(plan, 2, "z", nodes, count + 1), 0);
    return plan;
}

/* What @node is to copy, as one text. */
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
                            ""); /* z has no worker, and lives */
    }
    plan_free(plan);
}

/* x had a copy of a's share and wrote one of its own: each is copied once, by another node. */
static void test_a_lost_node(void **state)
{
    struct plan *plan = make_plan("...");
    (void)state;
    assert_string_equal(missing(plan, 2, "a+x b+c x+b", "a"), "x");
    assert_string_equal(missing(plan, 2, "a+x b+c x+b", "b"), "");
    assert_string_equal(missing(plan, 2, "a+x b+c x+b", "c"), "a");
    assert_string_equal(missing(plan, 2, "a+x b+c x+b", "z"), ""); /* no worker: no new copies */
    assert_string_equal(missing(plan, 2, "x+y b+c", "a"), "");     /* nobody has it any more */
    plan_free(plan);
}

/* Fetched whole onto one node: the others share the work. */
static void test_everything_lies_on_one_node(void **state)
{
    struct plan *plan = make_plan("...");
    (void)state;
    assert_string_equal(missing(plan, 2, "w+a x+a y+a v+a", "a"), "");
    assert_string_equal(missing(plan, 2, "w+a x+a y+a v+a", "b"), "w y");
    assert_string_equal(missing(plan, 2, "w+a x+a y+a v+a", "c"), "x v");
    assert_string_equal(missing(plan, 3, "w+a x+a", "b"), "w x");
    assert_string_equal(missing(plan, 3, "w+a x+a", "c"), "w x");
    assert_string_equal(missing(plan, 8, "w+a", "c"), "w"); /* as many as there are nodes */
    plan_free(plan);
}

static void test_other_domains_first(void **state)
{
    struct plan *plan = make_plan("rrs");
    (void)state;
    assert_string_equal(missing(plan, 2, "a+x b+c", "b"), "");
    assert_string_equal(missing(plan, 2, "a+x b+c", "c"), "a"); /* though it keeps more */
    assert_string_equal(missing(plan, 3, "a+x b+c", "b"), "a");
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_are_added),
        cmocka_unit_test(test_names_that_begin_alike),
        cmocka_unit_test(test_a_full_group),
        cmocka_unit_test(test_a_full_text),
        cmocka_unit_test(test_nothing_is_missing),
        cmocka_unit_test(test_a_lost_node),
        cmocka_unit_test(test_everything_lies_on_one_node),
        cmocka_unit_test(test_other_domains_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
