/* Tests of copies of sums: who keeps whose, when, and what is copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "protocol/sum_copies.h"

#define RANKS_MAX     64
#define LANES         16
#define MICRO_BATCHES 4

struct scene {
    struct plan_layout layout;
    struct plan_worker workers[RANKS_MAX];
};

static uint32_t draw(uint64_t seed, uint64_t turn, unsigned limit)
{
    uint32_t words[4];
    philox_block(philox_key_make(seed, 31), turn, 0, words);
    return words[0] % limit;
}

/* Rank i is on node i / slots. */
static void scene_init(struct scene *scene, unsigned stages, unsigned replicas, unsigned slots)
{
    *scene = (struct scene){.layout = {.stage_count = stages,
                                       .replica_count = replicas,
                                       .worker_count = stages * replicas,
                                       .copy_seconds = 10}};
    scene->layout.workers = scene->workers;
    for (unsigned rank = 0; rank < stages * replicas; rank++)
        snprintf(scene->workers[rank].node, NAME_SIZE, "n%u", rank / slots);
}

static void test_each_replica_has_another_keeper(void **state)
{
    struct scene scene;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        bool keeps[RANKS_MAX] = {0};
        unsigned stages = 1 + draw(seed, 0, 4), replicas = 2 + draw(seed, 1, 14);
        scene_init(&scene, stages, replicas, 1 + draw(seed, 2, 8));
        for (unsigned replica = 0; replica < replicas; replica++) {
            unsigned keeper = sum_copies_keeper(&scene.layout, replica);
            assert_true(keeper < replicas && keeper != replica && !keeps[keeper]);
            assert_int_equal(sum_copies_owner(&scene.layout, keeper), replica);
            keeps[keeper] = true;
        }
    }
}

/* Two nodes of four slots, one stage: all keepers are on the other node. */
static void test_keepers_are_on_other_nodes(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, 1, 8, 4);
    for (unsigned replica = 0; replica < 8; replica++)
        assert_int_equal(sum_copies_keeper(&scene.layout, replica), (replica + 4) % 8);
    scene_init(&scene, 2, 4, 2); /* a replica on each node: the next one will do */
    assert_int_equal(sum_copies_keeper(&scene.layout, 3), 0);
}

static void test_nobody_keeps_where_the_plan_wants_no_copies(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, 2, 1, 1);
    assert_int_equal(sum_copies_keeper(&scene.layout, 0), 0);
    scene_init(&scene, 1, 4, 1);
    scene.layout.copy_seconds = 0;
    assert_int_equal(sum_copies_keeper(&scene.layout, 2), 2);
    assert_int_equal(sum_copies_owner(&scene.layout, 2), 2);
}

/* Copies that cost minutes take no more of the time than those that cost milliseconds. */
static void test_copies_that_cost_much_are_rare(void **state)
{
    const struct plan_layout layout = {.copy_seconds = 10};
    const uint64_t from_ns = 1000 * NS_PER_SECOND;
    struct sum_copies_cost last = {0};

    (void)state;
    assert_int_equal(sum_copies_due_ns(&layout, from_ns, &last), 1010 * NS_PER_SECOND);
    last = (struct sum_copies_cost){from_ns, NS_PER_SECOND / 20};
    assert_int_equal(sum_copies_due_ns(&layout, from_ns, &last), 1010 * NS_PER_SECOND);
    last.cost_ns = 3 * NS_PER_SECOND;
    assert_int_equal(sum_copies_due_ns(&layout, from_ns, &last), 1300 * NS_PER_SECOND);
    last.began_ns = 900 * NS_PER_SECOND; /* in another step */
    assert_int_equal(sum_copies_due_ns(&layout, from_ns, &last), 1200 * NS_PER_SECOND);
    last.cost_ns = UINT64_MAX;
    assert_true(sum_copies_due_ns(&layout, from_ns, &last) > from_ns);
}

/* The rest of a step begins with sums that may have no copy: the first one waits for nothing but
 * its cost. */
static void test_the_rest_of_a_step_is_copied_at_once(void **state)
{
    const struct plan_layout layout = {.copy_seconds = 10};
    struct sum_copies_cost last = {0};

    (void)state;
    assert_int_equal(sum_copies_due_ns(&layout, 0, &last), 0);
    last = (struct sum_copies_cost){900 * NS_PER_SECOND, NS_PER_SECOND};
    assert_int_equal(sum_copies_due_ns(&layout, 0, &last), 1000 * NS_PER_SECOND);
}

/* ---- what is copied ---- */

static struct step_sum sum_of(unsigned unit, unsigned first, unsigned count, unsigned micro_batches)
{
    return (struct step_sum){.unit = unit, .span = {first, count}, .micro_batches = micro_batches};
}

static void test_a_sum_replaces_those_of_its_lanes(void **state)
{
    const struct step_sum two = sum_of(3, 4, 2, MICRO_BATCHES);
    const struct step_sum inside[] = {sum_of(3, 4, 1, 2), sum_of(3, 5, 1, MICRO_BATCHES), two};
    const struct step_sum others[] = {sum_of(2, 4, 1, 2), sum_of(3, 3, 1, MICRO_BATCHES),
                                      sum_of(3, 6, 1, 1), sum_of(3, 4, 4, MICRO_BATCHES)};

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(inside); i++)
        assert_true(sum_copies_replaces(&two, &inside[i]));
    for (unsigned i = 0; i < ARRAY_COUNT(others); i++)
        assert_false(sum_copies_replaces(&two, &others[i]));
}

/* A copy is of use while its owner's replica has any of its lanes. */
static void test_copies_that_were_gone_on_with_are_dropped(void **state)
{
    struct step_division division = {.lanes = 4, .micro_batches = MICRO_BATCHES, .replicas = 3};
    const struct lane_tree_span both = {0, 2}, one = {1, 1};

    (void)state;
    for (unsigned lane = 0; lane < 4; lane++)
        division.owners[lane] = lane == 0 ? 2 : 1;
    assert_true(sum_copies_are_of_use(&division, both, 2));
    assert_true(sum_copies_are_of_use(&division, both, 1));
    assert_false(sum_copies_are_of_use(&division, both, 0));
    assert_false(sum_copies_are_of_use(&division, one, 2));
    division.heads[1] = 2; /* replica 2 computes its head */
    division.givers[1] = 2;
    assert_true(sum_copies_are_of_use(&division, one, 2));
}

static void keep(struct step_sums *kept, const struct step_sum *sum)
{
    unsigned left = 0;

    for (unsigned i = 0; i < kept->count; i++)
        if (!sum_copies_replaces(sum, &kept->list[i]))
            kept->list[left++] = kept->list[i];
    kept->count = left;
    assert_int_equal(step_sums_add(kept, sum), 0);
}

/* Go on with the last sum, and merge it with its neighbour as the lane tree does. */
static void compute(struct step_sums *own, unsigned *lane)
{
    struct step_sum *last = own->count ? &own->list[own->count - 1] : NULL;
    struct lane_tree_span parent;

    if (!last || last->micro_batches == MICRO_BATCHES) {
        const struct step_sum next = sum_of(0, (*lane)++, 1, 1);
        assert_int_equal(step_sums_add(own, &next), 0);
        return;
    }
    last->micro_batches++;
    while (last->micro_batches == MICRO_BATCHES && own->count > 1 &&
           lane_tree_parent_of_pair(LANES, last[-1].span, last->span, &parent)) {
        own->count--;
        last = &own->list[own->count - 1];
        last->span = parent;
    }
}

/* After each copy the keeper has what its owner has, and no more; each copy has one lane in
 * progress and what has merged since. */
static void test_the_keeper_follows_its_owner(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        CLEANUP(step_sums_done) struct step_sums own = {0}, kept = {0};
        unsigned lane = 0;
        for (unsigned turn = 0; turn < LANES * MICRO_BATCHES; turn++) {
            CLEANUP(step_sums_done) struct step_sums missing = {0};
            compute(&own, &lane);
            if (draw(seed, turn, 3) > 0)
                continue;
            assert_int_equal(sum_copies_missing(&own, &kept, &missing), 0);
            for (unsigned i = 0; i < missing.count; i++)
                keep(&kept, &missing.list[i]);
            assert_int_equal(kept.count, own.count);
            step_sums_done(&missing);
            assert_int_equal(sum_copies_missing(&own, &kept, &missing), 0);
            assert_int_equal(missing.count, 0);
        }
        assert_int_equal(own.count, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_replica_has_another_keeper),
        cmocka_unit_test(test_keepers_are_on_other_nodes),
        cmocka_unit_test(test_nobody_keeps_where_the_plan_wants_no_copies),
        cmocka_unit_test(test_copies_that_cost_much_are_rare),
        cmocka_unit_test(test_the_rest_of_a_step_is_copied_at_once),
        cmocka_unit_test(test_a_sum_replaces_those_of_its_lanes),
        cmocka_unit_test(test_copies_that_were_gone_on_with_are_dropped),
        cmocka_unit_test(test_the_keeper_follows_its_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
