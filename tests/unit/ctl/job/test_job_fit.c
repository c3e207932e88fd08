/* A layout that no slot of the cluster could have is refused with the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "ctl/job/job_fit.h"

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
        for (unsigned slot = 0; slot < 2; slot++) {
            strcpy(nodes[i].record.slots[slot].kind, "cpu");
            nodes[i].record.slots[slot].speed = 1;
        }
    }
    cluster = (struct cluster){.nodes = nodes, .node_count = NODES};
    memset(&spec, 0, sizeof(spec));
    strcpy(spec.name, "demo");
    spec.model.layers = 6;
    spec.model.width = 64;
    spec.model.heads = 4;
    spec.model.context = 64;
    spec.model.vocab = 256;
    spec.train.lanes = 8;
    spec.train.micro_batch = spec.train.micro_batches_per_lane = 1;
    spec.elastic.devices_max = 64;
    return 0;
}

static void expect(struct desired_record desired, const char *words)
{
    struct error error = {0};

    assert_int_equal(job_fit(&cluster, &spec, &desired, &error), words ? -ENOSPC : 0);
    if (words && !strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_what_fits_is_allowed(void **state)
{
    (void)state;
    expect((struct desired_record){.devices = 3}, NULL);
    expect((struct desired_record){.stages = 6}, NULL);
    expect((struct desired_record){.stages = 2, .replicas = 3}, NULL);
}

static void test_what_needs_more_slots_is_refused(void **state)
{
    (void)state;
    expect(
        (struct desired_record){.stages = 9},
        "job demo cannot have this layout: 9 stages x 1 replica are asked for, 6 slots may be used "
        "(6 slots are in service on 3 nodes; the job is unchanged)");
    nodes[2].record.draining = true;
    strcpy(nodes[1].record.slots[1].bad, "burnt");
    expect((struct desired_record){.stages = 2, .replicas = 2}, "3 slots may be used");
}

static void test_slots_that_another_job_uses_count(void **state)
{
    (void)state;
    struct plan plan = {.layout.worker_count = 6};
    struct cluster_job job = {.name = "other", .plan = &plan};
    cluster.jobs = &job;
    cluster.job_count = 1;
    expect((struct desired_record){.stages = 6}, NULL);
}

static void test_what_memory_does_not_allow_is_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].record.slots[0].memory_bytes = nodes[i].record.slots[1].memory_bytes = 1 << 20;
    expect((struct desired_record){.devices = 1}, "no layout fits");
}

static void test_without_slots_nothing_is_known(void **state)
{
    (void)state;
    cluster.node_count = 0;
    expect((struct desired_record){.stages = 9}, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_fits_is_allowed, begin),
        cmocka_unit_test_setup(test_what_needs_more_slots_is_refused, begin),
        cmocka_unit_test_setup(test_slots_that_another_job_uses_count, begin),
        cmocka_unit_test_setup(test_what_memory_does_not_allow_is_refused, begin),
        cmocka_unit_test_setup(test_without_slots_nothing_is_known, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
