/* The remarks of `firnctl node list` about a node: none, as long as all is well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/cluster/node_remarks.h"
#include "ctl/view/format.h"

#define NODES 3

/* Nodes a (the leader), b and c with two slots each, on separate machines. */
static struct cluster_node nodes[NODES];
static struct cluster cluster;

static int begin(void **state)
{
    (void)state;
    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i].name[0] = (char)('a' + i);
        nodes[i].record.slot_count = 2;
        nodes[i].record.link_port = 7600;
        snprintf(nodes[i].record.host, ADDRESS_SIZE, "10.0.0.%u", i + 1);
        strcpy(nodes[i].record.version, "1.0.0");
    }
    cluster = (struct cluster){.nodes = nodes, .node_count = NODES, .leader = "a"};
    return 0;
}

static void expect(unsigned node, const char *words)
{
    char text[NODE_REMARKS_SIZE];

    node_remarks(&cluster, &nodes[node], text);
    if (words ? !strstr(text, words) : text[0])
        fail_msg("\"%s\" is not \"%s\"", text, words ? words : "");
}

static void test_all_is_well(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        expect(i, NULL);
    for (unsigned i = 0; i < NODES; i++) { /* and so it is on one machine */
        strcpy(nodes[i].record.host, "127.0.0.1");
        nodes[i].record.link_port = 7600 + 2 * i;
    }
    for (unsigned i = 0; i < NODES; i++)
        expect(i, NULL);
}

static void test_addresses_that_nobody_has_set(void **state)
{
    (void)state;
    strcpy(nodes[1].record.host, "127.0.0.1");
    expect(0, NULL);
    expect(1, "has address 127.0.0.1, which node a cannot reach: set address");
    for (unsigned i = 0; i < NODES; i++)
        strcpy(nodes[i].record.host, "127.0.0.1");
    expect(0, "has the same address and ports as node b, 127.0.0.1:7600");
    expect(2, "as node a");
    nodes[0].record.link_port = 7598;
    nodes[2].record.link_port = 7601; /* its first is b's second */
    expect(0, NULL);
    expect(2, "as node b");
}

static void test_bad_slots_and_versions(void **state)
{
    (void)state;
    strcpy(nodes[2].record.slots[1].bad, "burnt");
    strcpy(nodes[2].record.version, "1.1.0");
    expect(2,
           "slot 1 is out of service until firnctl node resume c: burnt; runs firn 1.1.0, and the "
           "leader 1.0.0");
    char time[FORMAT_SIZE], words[64];
    nodes[2].record.slots[1].retry_unix_ns = 1500000000000000000;
    snprintf(words, sizeof(words), "slot 1 is out of service, and tried again at %s: burnt;",
             format_time(nodes[2].record.slots[1].retry_unix_ns, time));
    expect(2, words);
    cluster.leader[0] = '\0'; /* no leader at the moment */
    expect(0, NULL);
}

/* Remarks of any length end where the buffer ends. */
static void test_too_much_is_cut_off(void **state)
{
    (void)state;
    nodes[0].record.slot_count = RECORD_SLOTS_MAX;
    for (unsigned slot = 0; slot < RECORD_SLOTS_MAX; slot++)
        memset(nodes[0].record.slots[slot].bad, 'x', sizeof(nodes[0].record.slots[slot].bad) - 1);
    expect(0, "slot 0 is out of service until firnctl node resume a: xxx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_is_well, begin),
        cmocka_unit_test_setup(test_addresses_that_nobody_has_set, begin),
        cmocka_unit_test_setup(test_bad_slots_and_versions, begin),
        cmocka_unit_test_setup(test_too_much_is_cut_off, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
