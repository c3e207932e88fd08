/* Submitting a job warns about everything that the cluster lacks now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/job/job_warnings.h"
#include "elastic/job/job_spec.h"

#define NODES 3

/* Nodes a, b and c of two slots each. */
static struct cluster_node nodes[NODES];
static struct cluster cluster;
static struct job_spec spec;

static int begin(void **state)
{
    (void)state;
    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i].name[0] = (char)('a' + i);
        nodes[i].record.slot_count = 2;
        nodes[i].record.slots[0].memory_bytes = 1 << 30;
    }
    cluster = (struct cluster){.nodes = nodes, .node_count = NODES};
    spec = (struct job_spec){.elastic.devices_min = 1, .checkpoint = {.every = 100, .copies = 1}};
    return 0;
}

/* @words: of the only warning; NULL: there is none */
static void expect(const char *words)
{
    struct job_warnings warnings;

    job_warnings(&cluster, &spec.checkpoint, &spec.elastic, &warnings);
    assert_int_equal(warnings.count, words ? 1 : 0);
    if (words && !strstr(warnings.texts[0], words))
        fail_msg("\"%s\" does not say \"%s\"", warnings.texts[0], words);
}

static void test_enough_of_everything(void **state)
{
    (void)state;
    spec.checkpoint.copies = NODES;
    spec.elastic.devices_min = 2 * NODES;
    spec.elastic.shadow = true;
    expect(NULL);
}

static void test_nobody_knows_how_much_memory_there_is(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].record.slots[0].memory_bytes = 0;
    expect("the memory of the slots is not known");
    nodes[2].record.slots[1].memory_bytes = 1;
    expect(NULL);
}

static void test_more_copies_than_nodes(void **state)
{
    (void)state;
    spec.checkpoint.copies = 5;
    expect("copies is 5, but only 3 nodes are there: a checkpoint has at most 3");
    nodes[1].drained = true;
    strcpy(nodes[2].record.slots[0].bad, "burnt");
    expect("at most 2");
    strcpy(nodes[2].record.slots[1].bad, "burnt");
    expect("only 1 node is there");
}

static void test_nodes_that_drain(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].drained = true;
    expect("all 3 registered nodes drain; the job waits until firnctl node resume a");
    cluster.node_count = 1;
    expect("no node can train: the only registered node drains; the job waits until");
    cluster.node_count = 0;
    expect("no node is registered in this cluster: the job waits until a firnd starts");
}

static void test_too_few_slots(void **state)
{
    (void)state;
    spec.elastic.devices_min = 7;
    expect("elastic.devices.min is 7, and there are 6 slots");
}

static void test_shadow_alone(void **state)
{
    (void)state;
    cluster.node_count = 1;
    spec.elastic.shadow = true;
    expect("elastic.shadow");
}

static void test_nothing_is_saved_on_the_way(void **state)
{
    (void)state;
    spec.checkpoint.every = 0;
    expect("checkpoint.every is not set");
}

static void test_nobody_is_there(void **state)
{
    (void)state;
    cluster.node_count = 0;
    spec.checkpoint.copies = 5;
    expect("no node is registered");
}

static void test_no_slot_is_in_service(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        for (unsigned slot = 0; slot < nodes[i].record.slot_count; slot++)
            snprintf(nodes[i].record.slots[slot].bad, sizeof(nodes[i].record.slots[slot].bad),
                     "hot");
    expect("no registered node has a slot in service (3 nodes): the job waits until one has");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_enough_of_everything, begin),
        cmocka_unit_test_setup(test_nobody_knows_how_much_memory_there_is, begin),
        cmocka_unit_test_setup(test_more_copies_than_nodes, begin),
        cmocka_unit_test_setup(test_nodes_that_drain, begin),
        cmocka_unit_test_setup(test_too_few_slots, begin),
        cmocka_unit_test_setup(test_shadow_alone, begin),
        cmocka_unit_test_setup(test_nothing_is_saved_on_the_way, begin),
        cmocka_unit_test_setup(test_nobody_is_there, begin),
        cmocka_unit_test_setup(test_no_slot_is_in_service, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
