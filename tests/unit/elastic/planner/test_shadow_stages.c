/*
 * Tests of the placement of copies: never on the stage's own node, balanced, within memory, and
 * counted if no copy is possible.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/plan/plan.h"
#include "elastic/planner/shadow_stages.h"

#define MIB       ((size_t)1 << 20)
#define RANKS_MAX 12

static struct planner_unit units[RANKS_MAX];
static struct planner_slot slots[RANKS_MAX];

/*
 * Make a layout with one unit per stage, of @mib MiB each; @nodes: a letter for each rank, "aab".
 */
static struct plan *layout(const char *nodes, unsigned stages, const size_t *mib)
{
    unsigned workers = (unsigned)strlen(nodes);
    struct plan *plan = plan_new();
    assert_non_null(plan);
    plan->layout.worker_count = workers;
    plan->layout.stage_count = stages;
    plan->layout.replica_count = workers / stages;
    plan->layout.workers = calloc(workers, sizeof(*plan->layout.workers));
    plan->layout.stage_first_unit = calloc(stages + 1, sizeof(unsigned));
    plan->layout.replica_first_lane = calloc(plan->layout.replica_count + 1, sizeof(unsigned));
    memset(units, 0, sizeof(units));
    memset(slots, 0, sizeof(slots));
    for (unsigned i = 0; i <= stages; i++)
        plan->layout.stage_first_unit[i] = i;
    for (unsigned i = 0; i <= plan->layout.replica_count; i++)
        plan->layout.replica_first_lane[i] = i;
    for (unsigned i = 0; i < stages; i++)
        units[i] = (struct planner_unit){.parameter_bytes = mib[i] * MIB, .trained = true};
    for (unsigned rank = 0; rank < workers; rank++) {
        snprintf(plan->layout.workers[rank].node, NAME_SIZE, "%c", nodes[rank]);
        snprintf(slots[rank].node, NAME_SIZE, "%c", nodes[rank]);
        plan->layout.workers[rank].slot = slots[rank].slot = rank;
    }
    return plan;
}

static void assign(struct plan *plan)
{
    const struct planner_input input = {.units = units,
                                        .unit_count = plan->layout.stage_count,
                                        .slots = slots,
                                        .slot_count = plan->layout.worker_count,
                                        .lanes = plan->layout.replica_count};
    assert_int_equal(shadow_stages_assign(&input, plan), 0);
}

static void test_two_nodes_keep_each_other(void **state)
{
    (void)state;
    struct plan *plan = layout("ab", 2, (const size_t[]){10, 20});
    assert_int_equal(shadow_stages_bare_stages(&plan->layout), 2);
    assign(plan);
    assert_int_equal(plan->layout.shadow_count, 2);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 0), 1);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 1), 0);
    assert_int_equal(shadow_stages_bare_stages(&plan->layout), 0);
    plan_free(plan);
}

static void test_replicas_on_two_nodes_need_none(void **state)
{
    (void)state;
    struct plan *plan = layout("aabb", 2, (const size_t[]){10, 20});
    assign(plan);
    assert_int_equal(plan->layout.shadow_count, 0);
    assert_int_equal(shadow_stages_bare_stages(&plan->layout), 0);
    plan_free(plan);
    /* Stage 0 has both replicas on a, stage 1 is on a and b. */
    plan = layout("aaab", 2, (const size_t[]){10, 20});
    assign(plan);
    assert_int_equal(plan->layout.shadow_count, 1);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 0), 3);
    plan_free(plan);
}

static void test_copies_are_spread(void **state)
{
    (void)state;
    struct plan *plan = layout("abcd", 4, (const size_t[]){10, 10, 10, 10});
    unsigned kept[4] = {0};
    assign(plan);
    assert_int_equal(plan->layout.shadow_count, 4);
    for (unsigned stage = 0; stage < 4; stage++) {
        int rank = plan_layout_shadow_of(&plan->layout, stage);
        assert_true(rank >= 0 && rank != (int)stage);
        kept[rank]++;
    }
    for (unsigned rank = 0; rank < 4; rank++)
        assert_int_equal(kept[rank], 1);
    plan_free(plan);
}

/* The largest stage gets the emptiest node, although stage 0 comes first. */
static void test_the_largest_chooses_first(void **state)
{
    (void)state;
    struct plan *plan = layout("aabc", 4, (const size_t[]){10, 40, 5, 8});
    assign(plan);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 1), 2);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 0), 3);
    plan_free(plan);
}

static void test_memory_is_a_limit(void **state)
{
    (void)state;
    struct plan *plan = layout("abb", 3, (const size_t[]){10, 10, 10});
    slots[0].memory_bytes = 90 * MIB; /* 40 of its own, 40 for one copy, not for two */
    assign(plan);
    assert_int_equal(plan->layout.shadow_count, 2);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 1), 0);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 2), -1);
    assert_int_equal(shadow_stages_bare_stages(&plan->layout), 1);
    plan_free(plan);
}

static void test_frozen_stages_have_copies_too(void **state)
{
    (void)state;
    struct plan *plan = layout("ab", 2, (const size_t[]){10, 10});
    units[0].trained = false;
    slots[1].memory_bytes = 50 * MIB; /* 40 of its own and 10 of frozen parameters */
    assign(plan);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 0), 1);
    plan_free(plan);
}

static void test_one_node_has_nobody(void **state)
{
    (void)state;
    struct plan *plan = layout("aaa", 3, (const size_t[]){1, 1, 1});
    assign(plan);
    assert_int_equal(plan->layout.shadow_count, 0);
    assert_int_equal(shadow_stages_bare_stages(&plan->layout), 3);
    plan_free(plan);
}

static void test_one_worker_keeps_only_so_many(void **state)
{
    (void)state;
    struct plan *plan =
        layout("aaaaaaaaaaab", 12, (const size_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    assign(plan);
    assert_int_equal(plan->layout.shadow_count, PLAN_SHADOWS_MAX + 1); /* and b's own */
    assert_int_equal(shadow_stages_bare_stages(&plan->layout), 11 - PLAN_SHADOWS_MAX);
    plan_free(plan);
}

/* Make a plan of four pinned stages; node a could take them all. */
static void plan_pinned_within(unsigned a_slots, unsigned b_slots, size_t memory_bytes,
                               struct plan *plan)
{
    struct planner_unit costs[8] = {0};
    struct error error = {0};
    memset(slots, 0, sizeof(slots));
    for (unsigned i = 0; i < 8; i++)
        costs[i] = (struct planner_unit){.forward_seconds = 1,
                                         .backward_seconds = 2,
                                         .parameter_bytes = MIB,
                                         .activation_bytes = MIB,
                                         .boundary_bytes = 1024,
                                         .trained = true};
    for (unsigned i = 0; i < a_slots + b_slots; i++) {
        snprintf(slots[i].node, NAME_SIZE, "%s", i < a_slots ? "a" : "b");
        snprintf(slots[i].address, ADDRESS_SIZE, "h:%u", i + 1);
        slots[i].slot = i;
        slots[i].speed = 1;
        slots[i].memory_bytes = memory_bytes;
    }
    const struct planner_input input = {.units = costs,
                                        .unit_count = 8,
                                        .slots = slots,
                                        .slot_count = a_slots + b_slots,
                                        .devices_max = 4,
                                        .lanes = 8,
                                        .micro_batches_per_lane = 1,
                                        .link_bytes_per_second = 1e9,
                                        .link_latency_seconds = 1e-4,
                                        .stages_wanted = 4,
                                        .replicas_wanted = 1};
    if (shadow_stages_layout(&input, plan, NULL, NULL, &error))
        fail_msg("%s", error.text);
}

static void plan_pinned(unsigned a_slots, unsigned b_slots, struct plan *plan)
{
    plan_pinned_within(a_slots, b_slots, 0, plan);
}

/* With little memory fewer weights are deferred, until there is room for no copy even so. */
static void test_copies_come_before_deferred_weights(void **state)
{
    (void)state;
    const struct {
        size_t mib;
        unsigned deferred, bare;
    } cases[] = {{200, 3, 0}, {32, 3, 0}, {30, 0, 1}, {28, 0, 2}, {24, 3, 4}};
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct plan *plan = plan_new();
        plan_pinned_within(2, 2, cases[i].mib * MIB, plan);
        assert_int_equal(plan->layout.deferred, cases[i].deferred);
        assert_int_equal(shadow_stages_bare_stages(&plan->layout), cases[i].bare);
        plan_free(plan);
    }
}

static void test_a_layout_is_spread_for_its_copies(void **state)
{
    (void)state;
    struct plan *plan = plan_new();
    plan_pinned(4, 4, plan);
    assert_int_equal(plan->layout.worker_count, 4);
    assert_int_equal(shadow_stages_bare_stages(&plan->layout), 0);
    assert_int_equal(plan->layout.shadow_count, 4);
    plan_free(plan);
    /* One slot elsewhere is too few for half of the stages: the layout stays as it was. */
    plan = plan_new();
    plan_pinned(4, 1, plan);
    assert_int_equal(plan->layout.worker_count, 4);
    assert_int_equal(shadow_stages_bare_stages(&plan->layout), 4);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_nodes_keep_each_other),
        cmocka_unit_test(test_replicas_on_two_nodes_need_none),
        cmocka_unit_test(test_copies_are_spread),
        cmocka_unit_test(test_the_largest_chooses_first),
        cmocka_unit_test(test_memory_is_a_limit),
        cmocka_unit_test(test_frozen_stages_have_copies_too),
        cmocka_unit_test(test_one_node_has_nobody),
        cmocka_unit_test(test_copies_come_before_deferred_weights),
        cmocka_unit_test(test_a_layout_is_spread_for_its_copies),
        cmocka_unit_test(test_one_worker_keeps_only_so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
