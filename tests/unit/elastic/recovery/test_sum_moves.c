/* Tests of the pairs of workers of which one gives its sums to the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "elastic/recovery/sum_moves.h"

#define UNITS       12
#define WORKERS_MAX 12

/* Stages x replicas on the slots of node "a", from @first_slot on. */
static struct plan *new_plan(unsigned stages, unsigned replicas, unsigned first_slot)
{
    struct plan *plan = plan_new();
    assert_non_null(plan);
    struct plan_layout *layout = &plan->layout;
    layout->stage_count = stages;
    layout->replica_count = replicas;
    layout->worker_count = stages * replicas;
    layout->workers = calloc(layout->worker_count, sizeof(*layout->workers));
    layout->stage_first_unit = calloc(stages + 1, sizeof(unsigned));
    assert_true(layout->workers && layout->stage_first_unit);
    for (unsigned stage = 0; stage <= stages; stage++)
        layout->stage_first_unit[stage] = stage * UNITS / stages;
    for (unsigned rank = 0; rank < layout->worker_count; rank++) {
        snprintf(layout->workers[rank].node, NAME_SIZE, "a");
        layout->workers[rank].slot = first_slot + rank;
        layout->workers[rank].instance = 100 + first_slot + rank;
    }
    return plan;
}

struct change {
    struct plan *before, *after;
    struct state_moves_holder holders[WORKERS_MAX];
    unsigned holder_count;
};

static void begin(struct change *change, struct plan *before, struct plan *after)
{
    *change = (struct change){.before = before, .after = after};
    for (unsigned i = 0; i < before->layout.worker_count; i++) {
        struct state_moves_holder *holder = &change->holders[change->holder_count++];
        snprintf(holder->node, NAME_SIZE, "a");
        holder->slot = before->layout.workers[i].slot;
        holder->instance = before->layout.workers[i].instance;
    }
}

static void fill(struct change *change, unsigned frozen_units)
{
    assert_int_equal(sum_moves_fill(change->after, &change->before->layout, change->holders,
                                    change->holder_count, frozen_units),
                     0);
}

static void end(struct change *change)
{
    plan_free(change->before);
    plan_free(change->after);
}

static void expect(const struct change *change, unsigned count, const unsigned (*pairs)[2])
{
    assert_int_equal(change->after->start.sums_count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(change->after->start.sums[i].from_rank, pairs[i][0]);
        assert_int_equal(change->after->start.sums[i].to_rank, pairs[i][1]);
    }
}

static void test_replicas_that_stay_give_nothing(void **state)
{
    struct change change;

    (void)state;
    begin(&change, new_plan(2, 1, 0), new_plan(2, 3, 0));
    fill(&change, 0);
    expect(&change, 0, NULL);
    assert_int_equal(change.after->layout.donor_count, 0);
    end(&change);
}

static void test_a_replica_that_leaves_gives_all_to_one(void **state)
{
    static const unsigned pairs[][2] = {{2, 0}, {3, 1}};
    struct change change;

    (void)state;
    begin(&change, new_plan(2, 2, 0), new_plan(2, 1, 0));
    fill(&change, 0);
    expect(&change, 2, pairs);
    assert_int_equal(change.after->layout.donor_count, 2);
    assert_int_equal(change.after->layout.workers[2].slot, 2);
    end(&change);
}

/* Two replicas leave, and two stay: none inherits twice. */
static void test_replicas_inherit_in_turn(void **state)
{
    static const unsigned pairs[][2] = {{2, 1}, {3, 0}};
    struct change change;

    (void)state;
    begin(&change, new_plan(1, 4, 0), new_plan(1, 2, 8));
    for (unsigned i = 0; i < 2; i++) {
        change.after->layout.workers[i].slot = 2 * i;
        change.after->layout.workers[i].instance = 100 + 2 * i;
    }
    fill(&change, 0);
    expect(&change, 2, pairs);
    end(&change);
}

static void test_a_worker_that_moves_gives_to_the_one_in_its_place(void **state)
{
    static const unsigned pairs[][2] = {{1, 0}};
    struct change change;

    (void)state;
    begin(&change, new_plan(1, 1, 0), new_plan(1, 1, 5));
    change.after->layout.workers[0].instance = 0; /* a new process */
    fill(&change, 0);
    expect(&change, 1, pairs);
    end(&change);
}

/* 1 x 2 becomes 2 x 1: each of the two workers gives the units that it no longer computes. */
static void test_stages_give_the_units_that_they_lose(void **state)
{
    static const unsigned pairs[][2] = {{0, 1}, {1, 0}};
    struct change change;

    (void)state;
    begin(&change, new_plan(1, 2, 0), new_plan(2, 1, 0));
    fill(&change, 0);
    expect(&change, 2, pairs);
    end(&change);
}

/* 3 x 1 becomes 2 x 1: units 4 and 5 go back, 6 and 7 stay, and the last stage leaves. */
static void test_moved_boundaries(void **state)
{
    static const unsigned pairs[][2] = {{1, 0}, {2, 1}};
    struct change change;

    (void)state;
    begin(&change, new_plan(3, 1, 0), new_plan(2, 1, 0));
    fill(&change, 0);
    expect(&change, 2, pairs);
    assert_int_equal(change.after->layout.donor_count, 1);
    end(&change);
}

static void test_frozen_units_have_no_sums(void **state)
{
    static const unsigned pairs[][2] = {{2, 1}};
    struct change change;

    (void)state;
    begin(&change, new_plan(3, 1, 0), new_plan(2, 1, 0));
    fill(&change, 6);
    expect(&change, 1, pairs);
    end(&change);
}

static void test_a_replica_without_one_of_its_workers_gives_nothing(void **state)
{
    struct change change;

    (void)state;
    begin(&change, new_plan(2, 2, 0), new_plan(2, 1, 0));
    change.holder_count--; /* the last worker is gone */
    fill(&change, 0);
    expect(&change, 0, NULL);
    end(&change);
    begin(&change, new_plan(2, 2, 0), new_plan(2, 1, 0));
    change.holders[3].avoid = true;
    fill(&change, 0);
    expect(&change, 0, NULL);
    end(&change);
    begin(&change, new_plan(1, 1, 0), new_plan(1, 1, 0));
    change.after->layout.workers[0].instance = 0; /* another process takes its slot */
    fill(&change, 0);
    expect(&change, 0, NULL);
    end(&change);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_that_stay_give_nothing),
        cmocka_unit_test(test_a_replica_that_leaves_gives_all_to_one),
        cmocka_unit_test(test_replicas_inherit_in_turn),
        cmocka_unit_test(test_a_worker_that_moves_gives_to_the_one_in_its_place),
        cmocka_unit_test(test_stages_give_the_units_that_they_lose),
        cmocka_unit_test(test_moved_boundaries),
        cmocka_unit_test(test_frozen_units_have_no_sums),
        cmocka_unit_test(test_a_replica_without_one_of_its_workers_gives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
