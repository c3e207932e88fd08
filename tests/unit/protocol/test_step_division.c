/* Tests of the division of a step in progress, and of the facts that it is made from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/philox.h"
#include "protocol/step_division.h"

#define LANES_MAX     24
#define RANKS_MAX     16
#define MICRO_BATCHES 5

struct scene {
    struct plan_layout layout;
    unsigned first_unit[RANKS_MAX + 1], first_lane[RANKS_MAX + 1];
    unsigned lanes;
    struct lane_fact lists[RANKS_MAX][LANES_MAX];
    struct step_facts facts[RANKS_MAX];
    struct step_division division;
};

static uint32_t draw(uint64_t seed, uint64_t turn, unsigned limit)
{
    uint32_t words[4];
    philox_block(philox_key_make(seed, 11), turn, 0, words);
    return words[0] % limit;
}

static void scene_init(struct scene *scene, unsigned stages, unsigned replicas, unsigned lanes)
{
    *scene = (struct scene){.lanes = lanes};
    scene->layout = (struct plan_layout){.stage_count = stages,
                                         .replica_count = replicas,
                                         .worker_count = stages * replicas,
                                         .stage_first_unit = scene->first_unit,
                                         .replica_first_lane = scene->first_lane};
    for (unsigned stage = 0; stage <= stages; stage++)
        scene->first_unit[stage] = 2 * stage;
    for (unsigned replica = 0; replica <= replicas; replica++)
        scene->first_lane[replica] = replica * lanes / replicas;
}

/* Rank @rank has so many micro-batches of @lane, by itself. */
static void has(struct scene *scene, unsigned rank, unsigned lane, unsigned micro_batches)
{
    scene->facts[rank].lanes = scene->lists[rank];
    scene->lists[rank][lane] = (struct lane_fact){
        .micro_batches = micro_batches, .furthest = micro_batches, .span = {lane, 1}};
}

static void divide(struct scene *scene, unsigned trained_from)
{
    step_division_continue(&scene->layout, trained_from, 9, scene->lanes, MICRO_BATCHES,
                           scene->facts, &scene->division);
}

static void test_without_facts_it_is_the_plan(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, 2, 3, 8);
    divide(&scene, 0);
    assert_int_equal(scene.division.step, 0);
    for (unsigned lane = 0; lane < 8; lane++)
        assert_int_equal(scene.division.owners[lane], lane < 2 ? 0 : lane < 5 ? 1 : 2);
    assert_int_equal(step_division_left(&scene.division, UINT_MAX), 8 * MICRO_BATCHES);
}

static void test_a_survivor_keeps_its_lanes_and_gets_a_share_of_the_rest(void **state)
{
    struct lane_run runs[LANES_MAX + 1];
    struct scene scene;

    (void)state;
    scene_init(&scene, 1, 2, 8);
    has(&scene, 0, 0, MICRO_BATCHES);
    has(&scene, 0, 1, 2);
    divide(&scene, 0);
    assert_int_equal(scene.division.step, 9);
    assert_int_equal(scene.division.owners[0], 0);
    assert_int_equal(scene.division.starts[0], MICRO_BATCHES);
    assert_int_equal(scene.division.starts[1], 2);
    assert_int_equal(step_division_left(&scene.division, UINT_MAX), 8 * MICRO_BATCHES - 7);
    /* 33 are left: 3 of them with three lanes, and the newcomer with three. */
    assert_int_equal(step_division_left(&scene.division, 0), 3 + 3 * MICRO_BATCHES);
    assert_int_equal(step_division_left(&scene.division, 1), 3 * MICRO_BATCHES);
    assert_int_equal(step_division_runs(&scene.division, 0, runs), 4);
    assert_int_equal(runs[0].lane, 1);
    assert_int_equal(runs[0].start, 2);
    assert_int_equal(runs[1].start, 0);
}

static void test_the_stage_that_is_behind_counts(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, 2, 1, 4);
    has(&scene, 0, 0, 3);
    has(&scene, 1, 0, MICRO_BATCHES);
    divide(&scene, 0);
    assert_int_equal(scene.division.starts[0], 3);
    divide(&scene, 2); /* the first stage is frozen: it has nothing to have */
    assert_int_equal(scene.division.starts[0], MICRO_BATCHES);
}

static void test_a_sum_with_foreign_lanes_is_dropped(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, 1, 2, 4);
    for (unsigned lane = 0; lane < 2; lane++) {
        has(&scene, 0, lane, MICRO_BATCHES);
        scene.lists[0][lane].span = (struct lane_tree_span){0, 2};
    }
    has(&scene, 0, 1, 4); /* another unit of the stage is behind in lane 1 */
    scene.lists[0][1].span = (struct lane_tree_span){0, 2};
    has(&scene, 1, 1, MICRO_BATCHES);
    divide(&scene, 0);
    assert_int_equal(scene.division.owners[1], 1);
    assert_int_equal(scene.division.starts[1], MICRO_BATCHES);
    assert_int_equal(scene.division.owners[0], 0);
    assert_int_equal(scene.division.starts[0], 0);
}

/* Copies of sums, on replica 0: they count where nobody has more. */
static void test_a_copy_counts_where_its_owner_is_gone(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, 1, 3, 8);
    for (unsigned lane = 2; lane < 6; lane++) {
        has(&scene, 0, lane, MICRO_BATCHES);
        scene.lists[0][lane].copied = scene.lists[0][lane].offered = true;
    }
    has(&scene, 1, 2, MICRO_BATCHES); /* the same, by itself */
    has(&scene, 1, 3, 2);             /* less */
    for (unsigned lane = 4; lane < 6; lane++) {
        has(&scene, 2, lane, MICRO_BATCHES); /* the same, of more lanes */
        scene.lists[2][lane].span = (struct lane_tree_span){4, 2};
    }
    divide(&scene, 0);
    assert_int_equal(scene.division.owners[2], 1);
    assert_int_equal(scene.division.owners[3], 0);
    assert_int_equal(scene.division.owners[4], 2);
    assert_int_equal(scene.division.owners[5], 2);
    for (unsigned lane = 2; lane < 6; lane++)
        assert_int_equal(scene.division.starts[lane], MICRO_BATCHES);
}

static void test_scattered_lanes_go_back_to_the_plan(void **state)
{
    static struct plan_layout layout;
    static unsigned first_unit[] = {0, 2}, first_lane[] = {0, 100, 200};
    static struct lane_fact lists[2][200];
    struct step_facts facts[] = {{lists[0]}, {lists[1]}};
    struct step_division division;

    (void)state;
    layout = (struct plan_layout){.stage_count = 1,
                                  .replica_count = 2,
                                  .worker_count = 2,
                                  .stage_first_unit = first_unit,
                                  .replica_first_lane = first_lane};
    for (unsigned lane = 0; lane < 200; lane++)
        lists[lane % 2][lane] =
            (struct lane_fact){.micro_batches = 1, .furthest = 1, .span = {lane, 1}};
    step_division_continue(&layout, 0, 9, 200, MICRO_BATCHES, facts, &division);
    assert_int_equal(division.step, 9);
    for (unsigned lane = 0; lane < 200; lane++) {
        assert_int_equal(division.owners[lane], lane / 100);
        assert_int_equal(division.starts[lane], lane % 2 == lane / 100);
    }
}

/* The part of the facts that a replica may count on under @division. */
static unsigned usable(const struct scene *scene, unsigned rank, unsigned lane)
{
    const struct lane_fact *fact = &scene->lists[rank][lane];
    unsigned replica = rank / scene->layout.stage_count;

    if (!scene->facts[rank].lanes || !fact->span.count)
        return 0;
    for (unsigned i = 0; i < fact->span.count; i++)
        if (scene->division.owners[fact->span.first + i] != replica)
            return 0;
    return fact->micro_batches;
}

static void test_random_facts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct scene scene;
        unsigned stages = 1 + draw(seed, 0, 4), replicas = 1 + draw(seed, 1, 4);
        unsigned lanes = replicas + draw(seed, 2, LANES_MAX - replicas + 1), left = 0;
        scene_init(&scene, stages, replicas, lanes);
        for (unsigned rank = 0; rank < stages * replicas; rank++)
            for (unsigned lane = 0; lane < lanes; lane++)
                if (draw(seed, 100 + rank * LANES_MAX + lane, 3) == 0)
                    has(&scene, rank, lane, draw(seed, 5000 + rank + lane, MICRO_BATCHES + 1));
        divide(&scene, 0);
        for (unsigned lane = 0; lane < lanes; lane++) {
            unsigned owner = scene.division.owners[lane], start = MICRO_BATCHES;
            assert_true(owner < replicas);
            for (unsigned stage = 0; stage < stages; stage++)
                start = MIN(start, usable(&scene, owner * stages + stage, lane));
            assert_int_equal(scene.division.starts[lane], scene.division.step ? start : 0);
        }
        for (unsigned replica = 0; replica < replicas; replica++)
            left += step_division_left(&scene.division, replica);
        assert_int_equal(left, step_division_left(&scene.division, UINT_MAX));
    }
}

/* ---- shared lanes ---- */

static void expect_run(const struct lane_run *run, unsigned lane, unsigned start, unsigned end)
{
    assert_int_equal(run->lane, lane);
    assert_int_equal(run->start, start);
    assert_int_equal(run->end, end);
}

/* Three replicas of 8 lanes: 2 2/3 lanes for each. */
static void test_the_plan_shares_lanes(void **state)
{
    unsigned heads[] = {0, 3, 2, 0};
    struct lane_run runs[LANES_MAX + 1];
    struct step_division division;
    struct scene scene;

    (void)state;
    scene_init(&scene, 1, 3, 8); /* [0, 2), [2, 5), [5, 8) */
    scene.layout.replica_head = heads;
    scene.layout.lane_micro_batches = MICRO_BATCHES;
    step_division_plan(&scene.layout, 8, MICRO_BATCHES, &division);
    assert_int_equal(step_division_runs(&division, 0, runs), 3);
    expect_run(&runs[0], 2, 0, 3);
    expect_run(&runs[1], 0, 0, MICRO_BATCHES);
    expect_run(&runs[2], 1, 0, MICRO_BATCHES);
    assert_int_equal(step_division_runs(&division, 1, runs), 4);
    expect_run(&runs[0], 5, 0, 2);
    expect_run(&runs[1], 3, 0, MICRO_BATCHES);
    expect_run(&runs[2], 4, 0, MICRO_BATCHES);
    expect_run(&runs[3], 2, 3, MICRO_BATCHES);
    assert_int_equal(step_division_left(&division, 0), 2 * MICRO_BATCHES + 3);
    assert_int_equal(step_division_left(&division, 1), 3 * MICRO_BATCHES - 1);
    assert_int_equal(step_division_left(&division, 2), 3 * MICRO_BATCHES - 2);
    assert_int_equal(step_division_left(&division, UINT_MAX), 8 * MICRO_BATCHES);
    /* heads of lanes of another size mean nothing */
    step_division_plan(&scene.layout, 8, MICRO_BATCHES + 1, &division);
    assert_int_equal(step_division_left(&division, 0), 2 * (MICRO_BATCHES + 1));
}

/* Run the replicas' parts, and return the end of the last one, if a micro-batch takes 1 / lanes of
 * its replica. Heads are first of all, so that they are known when all replicas have run once. */
static double play(const struct scene *scene)
{
    const struct step_division *division = &scene->division;
    double end = 0, heads[LANES_MAX] = {0};

    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned replica = 0; replica < division->replicas; replica++) {
            struct lane_run runs[LANES_MAX + 1];
            unsigned count = step_division_runs(division, replica, runs);
            double now = 0, each = 1 / plan_layout_lanes_computed(&scene->layout, replica);
            for (unsigned i = 0; i < count; i++) {
                bool own = division->owners[runs[i].lane] == replica;
                if (own && division->heads[runs[i].lane])
                    now = fmax(now, heads[runs[i].lane]);
                now += (runs[i].end - runs[i].start) * each;
                if (!own)
                    heads[runs[i].lane] = now;
            }
            end = turn ? fmax(end, now) : 0;
        }
    return end;
}

/* Return whether each micro-batch that no replica has is computed once. */
static bool is_complete(const struct scene *scene)
{
    bool done[LANES_MAX][MICRO_BATCHES] = {{0}};

    for (unsigned lane = 0; lane < scene->lanes; lane++)
        for (unsigned m = 0; m < scene->division.starts[lane]; m++)
            done[lane][m] = true;
    for (unsigned replica = 0; replica < scene->division.replicas; replica++) {
        struct lane_run runs[LANES_MAX + 1];
        unsigned count = step_division_runs(&scene->division, replica, runs);
        for (unsigned i = 0; i < count; i++)
            for (unsigned m = runs[i].start; m < runs[i].end; m++) {
                if (done[runs[i].lane][m])
                    return false;
                done[runs[i].lane][m] = true;
            }
    }
    for (unsigned lane = 0; lane < scene->lanes; lane++)
        for (unsigned m = 0; m < MICRO_BATCHES; m++)
            if (!done[lane][m])
                return false;
    return true;
}

/* Two replicas, and all lanes are finished but one, of which the first has so many micro-batches.
 */
static void one_lane_is_left(struct scene *scene, unsigned micro_batches)
{
    scene_init(scene, 1, 2, 4);
    scene->layout.lane_micro_batches = MICRO_BATCHES;
    scene->layout.predicted_step_seconds =
        10; /* 1 s for each micro-batch of a replica's two lanes */
    for (unsigned lane = 0; lane < 4; lane++)
        has(scene, lane / 2, lane, lane == 1 ? micro_batches : MICRO_BATCHES);
}

static void test_a_lane_in_progress_is_shared(void **state)
{
    struct lane_run runs[LANES_MAX + 1];
    struct scene scene;

    (void)state;
    one_lane_is_left(&scene, 1);
    divide(&scene, 0);
    assert_int_equal(scene.division.owners[1], 0); /* nobody gains: its micro-batches are a chain */
    assert_int_equal(scene.division.heads[1], 0);
    has(&scene, 0, 0, 3); /* two lanes are left to the first replica, and none to the second */
    divide(&scene, 0);
    assert_int_equal(step_division_runs(&scene.division, 0, runs), 2);
    expect_run(&runs[0], 1, 1, 2);
    expect_run(&runs[1], 0, 3, MICRO_BATCHES);
    assert_int_equal(step_division_runs(&scene.division, 1, runs), 1);
    expect_run(&runs[0], 1, 2, MICRO_BATCHES);
    assert_int_equal(step_division_first(&scene.division, 1), 0);
    assert_true(step_division_goes_on_with(&scene.division, (struct lane_tree_span){1, 1}, 1, 0));
    assert_false(step_division_goes_on_with(&scene.division, (struct lane_tree_span){1, 1}, 2, 0));
    assert_false(step_division_goes_on_with(&scene.division, (struct lane_tree_span){1, 1}, 1, 1));
    assert_false(step_division_goes_on_with(&scene.division, (struct lane_tree_span){0, 2}, 1, 0));
}

/* The same whichever replica has the lanes in progress. */
static void test_work_is_passed_on_in_any_order(void **state)
{
    (void)state;
    for (unsigned busy = 0; busy < 2; busy++) {
        struct scene scene;
        scene_init(&scene, 1, 2, 4);
        scene.layout.lane_micro_batches = MICRO_BATCHES;
        for (unsigned lane = 0; lane < 4; lane++)
            has(&scene, lane / 2, lane, lane / 2 == busy ? 1 : MICRO_BATCHES);
        divide(&scene, 0);
        assert_int_equal(step_division_left(&scene.division, busy), 5); /* 1 of the second lane */
        assert_int_equal(step_division_left(&scene.division, 1 - busy), 3);
    }
}

/* Three lanes in progress on one replica of three: two of them are its own, or copies. */
static void divide_three(struct scene *scene, bool copied)
{
    scene_init(scene, 1, 3, 6);
    scene->layout.lane_micro_batches = MICRO_BATCHES;
    for (unsigned lane = 0; lane < 6; lane++)
        has(scene, lane < 3 ? 0 : lane < 5 ? 1 : 2, lane, lane < 3 ? 1 : MICRO_BATCHES);
    scene->lists[0][1].copied = scene->lists[0][2].copied = copied;
    divide(scene, 0);
}

/* A replica passes on one lane alone: copies for which all would wait are dropped. */
static void test_a_copy_for_which_all_would_wait_is_dropped(void **state)
{
    struct scene scene;

    (void)state;
    divide_three(&scene, false);
    for (unsigned lane = 0; lane < 3; lane++)
        assert_int_equal(scene.division.starts[lane], 1);
    assert_int_equal(step_division_left(&scene.division, 0), 2 * (MICRO_BATCHES - 1) + 1);
    divide_three(&scene, true);
    assert_int_equal(scene.division.starts[0], 1);
    for (unsigned replica = 0; replica < 3; replica++)
        assert_true(step_division_left(&scene.division, replica) <= MICRO_BATCHES);
    scene.lists[0][1].span = scene.lists[0][2].span = (struct lane_tree_span){1, 2};
    scene.lists[0][1].micro_batches = MICRO_BATCHES; /* in some units both are one sum */
    divide(&scene, 0);
    for (unsigned lane = 0; lane < 3; lane++)
        assert_int_equal(scene.division.starts[lane], lane == 1 ? MICRO_BATCHES : 1);
}

/* The owner of the end of a lane has validated it, in a step that broke before. */
static void test_the_owner_has_validated(void **state)
{
    (void)state;
    for (unsigned who = 0; who < 2; who++) {
        struct scene scene;
        one_lane_is_left(&scene, 1);
        has(&scene, 0, 0, 3);
        scene.lists[who][1].validated = true;
        divide(&scene, 0);
        assert_int_equal(scene.division.owners[1], 1);
        assert_int_equal(scene.division.validated[1], who == 1);
    }
}

/* Every second lane is begun by another replica: if what is left were shared, one would have too
 * many subtrees. */
static void test_sums_are_kept_where_shared_lanes_would_be_scattered(void **state)
{
    static unsigned first_unit[] = {0, 2}, first_lane[] = {0, 22, 44};
    const struct plan_layout layout = {.stage_count = 1,
                                       .replica_count = 2,
                                       .worker_count = 2,
                                       .stage_first_unit = first_unit,
                                       .replica_first_lane = first_lane,
                                       .lane_micro_batches = MICRO_BATCHES};
    struct lane_fact lists[2][44] = {0};
    struct step_facts facts[] = {{lists[0]}, {lists[1]}};
    struct step_division division;

    (void)state;
    for (unsigned lane = 0; lane < 44; lane++)
        lists[lane % 2][lane] = (struct lane_fact){.micro_batches = lane % 2 ? MICRO_BATCHES : 1,
                                                   .furthest = lane % 2 ? MICRO_BATCHES : 1,
                                                   .span = {lane, 1}};
    step_division_continue(&layout, 0, 9, 44, MICRO_BATCHES, facts, &division);
    for (unsigned lane = 0; lane < 44; lane++)
        assert_int_equal(division.starts[lane], lane % 2 ? MICRO_BATCHES : 1);
}

static void test_a_head_has_more_than_any_unit(void **state)
{
    struct scene scene;

    (void)state;
    one_lane_is_left(&scene, 1);
    has(&scene, 0, 0, 3);
    scene.lists[0][1].furthest = 2; /* a head of 2 would have nothing left to add to that unit */
    divide(&scene, 0);
    assert_true(scene.division.heads[1] == 0 || scene.division.heads[1] > 2);
}

static void test_a_sum_that_travels_too_long_stays(void **state)
{
    struct scene scene;

    (void)state;
    one_lane_is_left(&scene, 1);
    has(&scene, 0, 0, 3);
    scene.layout.head_seconds = 0.5;
    divide(&scene, 0);
    assert_int_equal(scene.division.heads[1], 2); /* 5 s instead of 6 s */
    scene.layout.head_seconds = 1.5;
    divide(&scene, 0);
    assert_int_equal(scene.division.heads[1], 0);
}

/* Shared lanes never make a step longer; often it ends earlier. */
static void test_the_rest_of_a_step_is_shared(void **state)
{
    unsigned shorter = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        struct scene scene;
        unsigned replicas = 1 + draw(seed, 0, 4);
        unsigned lanes = replicas + draw(seed, 1, LANES_MAX - replicas + 1);
        scene_init(&scene, 1, replicas, lanes);
        for (unsigned lane = 0; lane < lanes; lane++)
            if (draw(seed, 100 + lane, 3) == 0)
                has(&scene, draw(seed, 200 + lane, replicas), lane,
                    1 + draw(seed, 300 + lane, MICRO_BATCHES));
        divide(&scene, 0);
        double whole = play(&scene);
        assert_true(is_complete(&scene));
        scene.layout.lane_micro_batches = MICRO_BATCHES;
        divide(&scene, 0);
        double shared = play(&scene);
        assert_true(is_complete(&scene));
        assert_true(shared <= whole * (1 + 1e-9));
        shorter += shared < whole * (1 - 1e-9);
    }
    assert_true(shorter > 1000); /* of 4000 */
}

/* ---- messages ---- */

static int unpack(const struct bytes *message, struct step_facts *ret_facts)
{
    struct words_reader reader = {.at = message->data, .count = message->size_bytes / 8};
    return step_facts_unpack(&reader, 4, MICRO_BATCHES, ret_facts);
}

static void test_facts_travel(void **state)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    struct words_writer writer = {.bytes = &message};
    struct step_facts facts;
    struct scene scene;

    (void)state;
    scene_init(&scene, 1, 1, 4);
    has(&scene, 0, 1, 3);
    has(&scene, 0, 2, MICRO_BATCHES);
    scene.lists[0][1].furthest = 4;
    scene.lists[0][2].span = (struct lane_tree_span){2, 2};
    scene.lists[0][3].validated = true;
    scene.lists[0][1].copied = scene.lists[0][3].copied = true;
    scene.lists[0][2].offered = scene.lists[0][3].offered = true;
    assert_int_equal(step_facts_pack(&scene.facts[0], 4, &writer), 0);
    assert_int_equal(unpack(&message, &facts), 0);
    for (unsigned lane = 0; lane < 4; lane++) {
        const struct lane_fact *a = &facts.lanes[lane], *b = &scene.lists[0][lane];
        assert_int_equal(a->micro_batches, b->micro_batches);
        assert_int_equal(a->furthest, b->furthest);
        assert_int_equal(a->span.first, b->span.first);
        assert_int_equal(a->span.count, b->span.count);
        assert_int_equal(a->validated, b->validated);
        assert_int_equal(a->copied, b->copied);
        assert_int_equal(a->offered, b->offered);
    }
    step_facts_done(&facts);
}

static void test_false_facts_are_refused(void **state)
{
    static const uint64_t messages[][7] = {
        {5},                   /* more than there are lanes */
        {1, 4, 0, 0, 0, 0, 0}, /* no such lane */
        {1, 1, 6, 6, 1, 1, 0}, /* more than a lane has */
        {1, 1, 4, 3, 1, 1, 0}, /* the unit that has most has less than that */
        {1, 1, 4, 6, 1, 1, 0}, /* or more than a lane has */
        {1, 1, 5, 5, 2, 1, 0}, /* begins after the lane */
        {1, 1, 5, 5, 0, 1, 0}, /* ends before it */
        {1, 1, 5, 5, 1, 4, 0}, /* ends after the last */
        {1, 1, 5, 5, 1, 1, 8}, /* no such flag */
        {1, 1, 5, 5, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(messages); i++) {
        CLEANUP(bytes_done) struct bytes message = {0};
        struct words_writer writer = {.bytes = &message};
        struct step_facts facts;
        for (unsigned k = 0; k < (i + 1 == ARRAY_COUNT(messages) ? 6 : 7); k++)
            words_put(&writer, messages[i][k]);
        assert_int_equal(unpack(&message, &facts), -EBADMSG);
        assert_null(facts.lanes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_facts_it_is_the_plan),
        cmocka_unit_test(test_a_survivor_keeps_its_lanes_and_gets_a_share_of_the_rest),
        cmocka_unit_test(test_the_stage_that_is_behind_counts),
        cmocka_unit_test(test_a_sum_with_foreign_lanes_is_dropped),
        cmocka_unit_test(test_a_copy_counts_where_its_owner_is_gone),
        cmocka_unit_test(test_scattered_lanes_go_back_to_the_plan),
        cmocka_unit_test(test_the_plan_shares_lanes),
        cmocka_unit_test(test_a_lane_in_progress_is_shared),
        cmocka_unit_test(test_work_is_passed_on_in_any_order),
        cmocka_unit_test(test_a_copy_for_which_all_would_wait_is_dropped),
        cmocka_unit_test(test_the_owner_has_validated),
        cmocka_unit_test(test_sums_are_kept_where_shared_lanes_would_be_scattered),
        cmocka_unit_test(test_a_head_has_more_than_any_unit),
        cmocka_unit_test(test_a_sum_that_travels_too_long_stays),
        cmocka_unit_test(test_the_rest_of_a_step_is_shared),
        cmocka_unit_test(test_random_facts),
        cmocka_unit_test(test_facts_travel),
        cmocka_unit_test(test_false_facts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
