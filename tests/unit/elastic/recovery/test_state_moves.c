/* Tests of moves, donors and histories: applies them to a table of held units. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/recovery/state_moves.h"

#define UNITS       10
#define HOLDERS_MAX 12

static uint64_t random_state = 5;

static unsigned next_random(unsigned below)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(random_state >> 33) % below;
}

static struct plan *new_plan(unsigned stages, unsigned replicas)
{
    struct plan *plan = plan_new();
    assert_non_null(plan);
    plan->layout.stage_count = stages;
    plan->layout.replica_count = replicas;
    plan->layout.worker_count = stages * replicas;
    plan->layout.workers = calloc(plan->layout.worker_count, sizeof(*plan->layout.workers));
    plan->layout.stage_first_unit = calloc(stages + 1, sizeof(unsigned));
    assert_non_null(plan->layout.workers);
    assert_non_null(plan->layout.stage_first_unit);
    for (unsigned stage = 0; stage <= stages; stage++)
        plan->layout.stage_first_unit[stage] = stage * UNITS / stages;
    return plan;
}

static void seat(struct plan *plan, unsigned rank, const char *node, unsigned slot,
                 uint64_t instance)
{
    snprintf(plan->layout.workers[rank].node, NAME_SIZE, "%s", node);
    snprintf(plan->layout.workers[rank].address, ADDRESS_SIZE, "127.0.0.1:%u", slot);
    plan->layout.workers[rank].slot = slot;
    plan->layout.workers[rank].instance = instance;
}

static struct state_moves_holder holder(const char *node, unsigned slot, uint64_t instance,
                                        unsigned first, unsigned count)
{
    struct state_moves_holder holder = {
        .slot = slot, .instance = instance, .held = {{first, count}}};
    snprintf(holder.node, NAME_SIZE, "%s", node);
    snprintf(holder.address, ADDRESS_SIZE, "127.0.0.1:%u", slot);
    return holder;
}

static bool held_by(const struct state_moves_holder *holders, unsigned count,
                    const struct plan_worker *worker, unsigned unit)
{
    for (unsigned i = 0; i < count; i++)
        if (holders[i].slot == worker->slot && holders[i].instance == worker->instance &&
            strcmp(holders[i].node, worker->node) == 0)
            for (unsigned r = 0; r < STATE_MOVES_RANGES_MAX; r++)
                if (unit >= holders[i].held[r].first &&
                    unit < holders[i].held[r].first + holders[i].held[r].count)
                    return true;
    return false;
}

static bool someone_near_holds(const struct state_moves_holder *holders, unsigned count,
                               const char *node, unsigned unit)
{
    for (unsigned i = 0; i < count; i++)
        for (unsigned r = 0; r < STATE_MOVES_RANGES_MAX; r++)
            if (strcmp(holders[i].node, node) == 0 && unit >= holders[i].held[r].first &&
                unit < holders[i].held[r].first + holders[i].held[r].count)
                return true;
    return false;
}

/* Check that every lacking unit arrives exactly once, from a rank that has it, near if possible. */
static void check_moves(const struct plan *plan, const struct state_moves_holder *holders,
                        unsigned count)
{
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
        unsigned stage = rank % plan->layout.stage_count;
        for (unsigned unit = 0; unit < UNITS; unit++) {
            bool owned = unit >= plan->layout.stage_first_unit[stage] &&
                         unit < plan->layout.stage_first_unit[stage + 1];
            unsigned arrivals = held_by(holders, count, &plan->layout.workers[rank], unit) ? 1 : 0;
            unsigned moved = 0;
            for (unsigned m = 0; m < plan->start.move_count; m++) {
                if (plan->start.moves[m].to_rank != rank || plan->start.moves[m].unit != unit)
                    continue;
                const struct plan_worker *from =
                    &plan->layout.workers[plan->start.moves[m].from_rank];
                moved++;
                assert_true(held_by(holders, count, from, unit));
                if (someone_near_holds(holders, count, plan->layout.workers[rank].node, unit))
                    assert_string_equal(from->node, plan->layout.workers[rank].node);
            }
            assert_int_equal(moved, owned ? 1 - arrivals : 0);
        }
    }
    for (unsigned donor = plan->layout.worker_count;
         donor < plan->layout.worker_count + plan->layout.donor_count; donor++) {
        unsigned pushes = 0;
        for (unsigned m = 0; m < plan->start.move_count; m++)
            pushes += plan->start.moves[m].from_rank == donor;
        assert_true(pushes > 0);
    }
}

static void test_random_worlds_end_complete(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 500; round++) {
        struct state_moves_holder holders[HOLDERS_MAX];
        unsigned count = 2 + next_random(HOLDERS_MAX - 1);
        for (unsigned i = 0; i < count; i++) {
            char node[NAME_SIZE];
            snprintf(node, sizeof(node), "n%u", i / 3);
            unsigned first = next_random(UNITS), second = next_random(UNITS);
            holders[i] = holder(node, i % 3, 100 + i, first, 1 + next_random(UNITS - first));
            if (next_random(3) == 0)
                holders[i].held[1] =
                    (struct state_moves_range){second, 1 + next_random(UNITS - second)};
        }
        holders[0].held[0] = (struct state_moves_range){0, UNITS / 2};
        holders[1].held[0] = (struct state_moves_range){UNITS / 2, UNITS - UNITS / 2};
        struct plan *plan = new_plan(1 + next_random(4), 1 + next_random(3));
        /* Workers are holders (from a random holder on), or fresh on nodes of their own. */
        unsigned begin = next_random(count);
        for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
            const struct state_moves_holder *old = &holders[(begin + rank) % count];
            if (rank < count && next_random(3) > 0)
                seat(plan, rank, old->node, old->slot, old->instance);
            else
                seat(plan, rank, next_random(2) ? "n0" : "x", 10 + rank, 0);
        }
        struct error error;
        assert_int_equal(state_moves_fill(plan, holders, count, NULL, &error), 0);
        check_moves(plan, holders, count);
        plan_free(plan);
    }
}

static void test_nobody_pushes_much_more_than_the_others(void **state)
{
    (void)state;
    struct state_moves_holder holders[3] = {
        holder("a", 0, 1, 0, UNITS), holder("b", 0, 2, 0, UNITS), holder("c", 0, 3, 0, UNITS)};
    struct plan *plan = new_plan(1, 3);
    for (unsigned rank = 0; rank < 3; rank++)
        seat(plan, rank, "fresh", rank, 0);
    struct error error;
    assert_int_equal(state_moves_fill(plan, holders, 3, NULL, &error), 0);
    assert_int_equal(plan->layout.donor_count, 3);
    for (unsigned donor = 3; donor < 6; donor++) {
        unsigned pushes = 0;
        for (unsigned m = 0; m < plan->start.move_count; m++)
            pushes += plan->start.moves[m].from_rank == donor;
        assert_int_equal(pushes, UNITS);
    }
    plan_free(plan);
}

static void test_doubtful_holders_are_the_last_resort(void **state)
{
    (void)state;
    struct state_moves_holder holders[2] = {holder("a", 0, 1, 0, UNITS), holder("b", 0, 2, 0, 5)};
    holders[0].avoid = true;
    struct plan *plan = new_plan(2, 1);
    seat(plan, 0, "a", 5, 0);
    seat(plan, 1, "a", 6, 0);
    struct error error;
    assert_int_equal(state_moves_fill(plan, holders, 2, NULL, &error), 0);
    assert_int_equal(plan->start.move_count, UNITS);
    for (unsigned m = 0; m < plan->start.move_count; m++)
        assert_string_equal(plan->layout.workers[plan->start.moves[m].from_rank].node,
                            plan->start.moves[m].unit < 5 ? "b" : "a");
    plan_free(plan);
}

static void test_a_missing_unit_is_named(void **state)
{
    (void)state;
    struct state_moves_holder holders[1] = {holder("a", 0, 1, 0, 7)};
    struct plan *plan = new_plan(2, 1);
    seat(plan, 0, "a", 0, 1);
    seat(plan, 1, "a", 1, 0);
    struct error error;
    assert_int_equal(state_moves_fill(plan, holders, 1, NULL, &error), -ENODATA);
    assert_non_null(strstr(error.text, "unit 7"));
    assert_int_equal(plan->start.move_count, 0);
    assert_int_equal(plan->layout.donor_count, 0);
    plan_free(plan);
}

/* A new process has replaced the one on the slot: the old process's state is lost. */
static void test_a_replaced_process_is_no_source(void **state)
{
    (void)state;
    struct state_moves_holder holders[1] = {holder("a", 0, 1, 0, UNITS)};
    struct plan *plan = new_plan(1, 1);
    seat(plan, 0, "a", 0, 2);
    struct error error;
    assert_int_equal(state_moves_fill(plan, holders, 1, NULL, &error), -ENODATA);
    plan_free(plan);
}

static void test_new_nodes_get_the_history_once(void **state)
{
    (void)state;
    struct state_moves_holder holders[2] = {holder("a", 0, 1, 0, UNITS),
                                            holder("b", 0, 2, 0, UNITS)};
    struct plan *plan = new_plan(1, 4);
    seat(plan, 0, "new", 0, 0);
    seat(plan, 1, "new", 1, 0);
    seat(plan, 2, "b", 0, 2);
    seat(plan, 3, "other", 1, 0);
    struct error error;
    assert_int_equal(state_moves_fill(plan, holders, 2, NULL, &error), 0);
    assert_int_equal(plan->start.history_count, 2);
    assert_int_equal(plan->start.histories[0].from_rank, 2);
    assert_int_equal(plan->start.histories[0].to_rank, 0);
    assert_int_equal(plan->start.histories[1].to_rank, 3);
    plan_free(plan);
    plan = new_plan(1, 1);
    seat(plan, 0, "new", 0, 0);
    assert_int_equal(state_moves_fill(plan, holders, 2, NULL, &error), 0);
    assert_int_equal(plan->start.histories[0].from_rank, 1); /* only a donor has the history */
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_worlds_end_complete),
        cmocka_unit_test(test_nobody_pushes_much_more_than_the_others),
        cmocka_unit_test(test_doubtful_holders_are_the_last_resort),
        cmocka_unit_test(test_a_missing_unit_is_named),
        cmocka_unit_test(test_a_replaced_process_is_no_source),
        cmocka_unit_test(test_new_nodes_get_the_history_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
