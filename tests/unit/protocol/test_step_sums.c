/*
 * Tests of the sums with which a rank continues: messages, the choice, and that a division never
 * counts on a sum that the choice then lacks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/philox.h"
#include "elastic/step/step_record.h"
#include "protocol/step_sums.h"

#define LANES         12
#define MICRO_BATCHES 4
#define UNITS         6
#define RANKS_MAX     6
#define COPIED        2 /* the source of sums that are copies */

static uint32_t draw(uint64_t seed, uint64_t turn, unsigned limit)
{
    uint32_t words[4];
    philox_block(philox_key_make(seed, 21), turn, 0, words);
    return words[0] % limit;
}

static void add(struct step_sums *sums, unsigned unit, unsigned source, unsigned first,
                unsigned count, unsigned micro_batches)
{
    const struct step_sum sum = {.unit = unit,
                                 .source = source,
                                 .span = {first, count},
                                 .micro_batches = micro_batches,
                                 .offered = source > 0,
                                 .copied = source == COPIED};

    assert_int_equal(step_sums_add(sums, &sum), 0);
}

static const struct step_sum *find(const struct step_sums *sums, unsigned unit, unsigned source,
                                   unsigned first)
{
    for (unsigned i = 0; i < sums->count; i++)
        if (sums->list[i].unit == unit && sums->list[i].source == source &&
            sums->list[i].span.first == first)
            return &sums->list[i];
    return NULL;
}

/* ---- messages ---- */

static int send(const struct step_sums *sums, struct step_sums *into)
{
    CLEANUP(bytes_done) struct bytes bytes = {0};
    struct words_writer writer = {.bytes = &bytes};

    assert_int_equal(step_sums_pack(sums, LANES, &writer), 0);
    struct words_reader reader = {.at = bytes.data, .count = bytes.size_bytes / 8};
    int status = step_sums_unpack(&reader, LANES, MICRO_BATCHES, UNITS, 3, into);
    assert_true(status || reader.count == 0);
    return status;
}

static void test_sums_and_losses_pass_through_a_message(void **state)
{
    CLEANUP(step_sums_done) struct step_sums sums = {0}, back = {0};

    (void)state;
    add(&sums, 5, 0, 8, 4, MICRO_BATCHES);
    add(&sums, 2, 0, 3, 1, 2);
    assert_int_equal(step_sums_make_losses(&sums, LANES), 0);
    sums.losses[3] = (struct step_losses){2, 1.25, step_record_unknown()};
    sums.losses[4] = (struct step_losses){0, 0, 7.5};
    assert_int_equal(send(&sums, &back), 0);
    assert_int_equal(back.count, 2);
    assert_int_equal(back.list[0].source, 3);
    assert_true(back.list[0].offered);
    assert_int_equal(back.list[0].span.count, 4);
    assert_int_equal(back.list[1].micro_batches, 2);
    assert_true(back.losses[3].count == 2 && back.losses[3].training == 1.25);
    assert_false(step_record_is_known(back.losses[3].validation));
    assert_true(back.losses[4].validation == 7.5);
}

static void test_losses_of_more_micro_batches_are_taken(void **state)
{
    CLEANUP(step_sums_done) struct step_sums one = {0}, other = {0};

    (void)state;
    assert_int_equal(step_sums_make_losses(&one, LANES), 0);
    assert_int_equal(step_sums_make_losses(&other, LANES), 0);
    one.losses[0] = (struct step_losses){3, 1, step_record_unknown()};
    other.losses[0] = (struct step_losses){2, 5, 6};
    other.losses[1] = (struct step_losses){1, 7, step_record_unknown()};
    step_sums_merge_losses(&one, &other, LANES);
    assert_true(one.losses[0].count == 3 && one.losses[0].training == 1);
    assert_true(one.losses[0].validation == 6);
    assert_true(one.losses[1].count == 1 && one.losses[1].training == 7);
}

static void test_malformed_sums_are_refused(void **state)
{
    static const struct {
        unsigned unit, first, count, micro_batches;
    } cases[] = {
        {UNITS, 0, 1, 1},                 /* no such unit */
        {0, LANES, 1, 1},                 /* no such lane */
        {0, LANES - 1, 2, MICRO_BATCHES}, /* beyond the last lane */
        {0, 0, 0, 1},                     /* no lane */
        {0, 0, 1, 0},                     /* nothing */
        {0, 0, 1, MICRO_BATCHES + 1},
        {0, 0, 2, 1}, /* several lanes in progress */
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CLEANUP(step_sums_done) struct step_sums sums = {0}, back = {0};
        add(&sums, cases[i].unit, 0, cases[i].first, cases[i].count, cases[i].micro_batches);
        assert_int_equal(send(&sums, &back), -EBADMSG);
    }
}

/* ---- the choice ---- */

static void test_more_micro_batches_then_larger_spans_then_own_sums_are_chosen(void **state)
{
    CLEANUP(step_sums_done) struct step_sums sums = {0};

    (void)state;
    add(&sums, 1, 0, 0, 1, 2); /* own: lane 0 in progress, */
    add(&sums, 1, 2, 0, 1, 3); /* further in rank 2, */
    add(&sums, 1, 3, 2, 1, MICRO_BATCHES);
    add(&sums, 1, 2, 2, 2, MICRO_BATCHES); /* with its neighbour, */
    add(&sums, 1, 2, 4, 1, MICRO_BATCHES);
    add(&sums, 1, 0, 4, 1, MICRO_BATCHES); /* the same here */
    step_sums_choose(&sums, NULL, 0);
    assert_false(find(&sums, 1, 0, 0)->chosen);
    assert_true(find(&sums, 1, 2, 0)->chosen);
    assert_false(find(&sums, 1, 3, 2)->chosen);
    assert_true(find(&sums, 1, 2, 2)->chosen);
    assert_true(find(&sums, 1, 0, 4)->chosen);
    assert_int_equal(step_sums_chosen(&sums, 2), 2);
}

static void test_only_sums_of_a_replicas_own_lanes_are_chosen(void **state)
{
    struct step_division division = {
        .step = 1, .lanes = LANES, .micro_batches = MICRO_BATCHES, .replicas = 2};
    CLEANUP(step_sums_done) struct step_sums sums = {0};

    (void)state;
    add(&sums, 0, 0, 0, 2, MICRO_BATCHES);
    add(&sums, 0, 0, 4, 1, 1);
    division.owners[1] = 1;
    step_sums_choose(&sums, &division, 0);
    assert_false(find(&sums, 0, 0, 0)->chosen);
    assert_true(find(&sums, 0, 0, 4)->chosen);
    division.heads[4] = 2; /* another replica begins the lane again */
    division.givers[4] = 1;
    step_sums_choose(&sums, &division, 0);
    assert_false(find(&sums, 0, 0, 4)->chosen);
}

static void test_facts_are_the_least_of_all_units(void **state)
{
    const struct step_sums_stage stage = {2, 4, true};
    CLEANUP(step_sums_done) struct step_sums sums = {0};
    CLEANUP(step_facts_done) struct step_facts facts = {0};

    (void)state;
    assert_int_equal(step_sums_facts(&sums, &stage, LANES, MICRO_BATCHES, &facts), 0);
    assert_null(facts.lanes);
    add(&sums, 2, 0, 0, 1, 3);
    add(&sums, 3, 1, 0, 1, 2);
    add(&sums, 2, 0, 2, 2, MICRO_BATCHES); /* unit 3 has nothing of these lanes */
    assert_int_equal(step_sums_make_losses(&sums, LANES), 0);
    sums.losses[0] = (struct step_losses){3, 1, 2};
    assert_int_equal(step_sums_facts(&sums, &stage, LANES, MICRO_BATCHES, &facts), 0);
    assert_int_equal(facts.lanes[0].micro_batches, 2);
    assert_true(facts.lanes[0].validated);
    assert_int_equal(facts.lanes[2].micro_batches, 0);
    assert_int_equal(facts.lanes[2].span.count, 2);
    assert_false(facts.lanes[2].validated);
}

/* ---- divisions ---- */

/* Draw random nodes of the tree that do not overlap: the sums of an earlier worker of the step. */
static void draw_sums(struct step_sums *sums, uint64_t seed, unsigned unit, unsigned source)
{
    struct lane_tree_part parts[LANES];
    uint16_t groups[LANES];

    for (unsigned lane = 0; lane < LANES; lane++)
        groups[lane] = (uint16_t)draw(seed, lane, 3);
    unsigned count = lane_tree_parts(LANES, groups, parts);
    for (unsigned i = 0; i < count; i++) {
        unsigned micro_batches = 1 + draw(seed, 100 + i, MICRO_BATCHES);
        if (parts[i].owner == 0)
            continue;
        add(sums, unit, source, parts[i].span.first, parts[i].span.count,
            parts[i].span.count > 1 ? MICRO_BATCHES : micro_batches);
    }
}

struct scene {
    struct plan_layout layout;
    unsigned first_unit[RANKS_MAX + 1], first_lane[RANKS_MAX + 1];
    struct step_sums sums[RANKS_MAX];
    struct step_facts facts[RANKS_MAX];
};

static void make_scene(struct scene *scene, uint64_t seed)
{
    unsigned stages = 1 + draw(seed, 1, 2), replicas = 1 + draw(seed, 2, 3);

    *scene = (struct scene){.layout = {.stage_count = stages,
                                       .replica_count = replicas,
                                       .worker_count = stages * replicas,
                                       .stage_first_unit = scene->first_unit,
                                       .replica_first_lane = scene->first_lane,
                                       .lane_micro_batches = draw(seed, 3, 2) * MICRO_BATCHES}};
    for (unsigned i = 0; i <= stages; i++)
        scene->first_unit[i] = i * UNITS / stages;
    for (unsigned i = 0; i <= replicas; i++)
        scene->first_lane[i] = i * LANES / replicas;
}

static struct step_sums_stage stage_of(const struct scene *scene, unsigned rank)
{
    unsigned stage = rank % scene->layout.stage_count;

    return (struct step_sums_stage){scene->first_unit[stage], scene->first_unit[stage + 1], false};
}

/* For any sums that ranks have and offer, no division counts on a sum that a rank does not choose.
 */
static void test_a_division_counts_on_chosen_sums_alone(void **state)
{
    unsigned kept = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct step_division division;
        struct scene scene;
        make_scene(&scene, seed);
        for (unsigned rank = 0; rank < scene.layout.worker_count; rank++) {
            struct step_sums_stage stage = stage_of(&scene, rank);
            for (unsigned unit = stage.first_unit; unit < stage.end_unit; unit++)
                for (unsigned source = 0; source < 3; source++)
                    if (draw(seed, 50 + source, 4)) /* alike in all units, most of the time */
                        draw_sums(&scene.sums[rank],
                                  seed * 64 + rank * 4 + source +
                                      (draw(seed, 60 + unit, 8) ? 0 : unit << 20),
                                  unit, source);
            assert_int_equal(step_sums_facts(&scene.sums[rank], &stage, LANES, MICRO_BATCHES,
                                             &scene.facts[rank]),
                             0);
        }
        step_division_continue(&scene.layout, 0, 9, LANES, MICRO_BATCHES, scene.facts, &division);
        kept += LANES * MICRO_BATCHES - step_division_left(&division, UINT32_MAX);
        for (unsigned rank = 0; rank < scene.layout.worker_count; rank++) {
            struct step_sums_stage stage = stage_of(&scene, rank);
            unsigned replica = rank / scene.layout.stage_count;
            if (division.step) {
                step_sums_choose(&scene.sums[rank], &division, replica);
                assert_true(step_sums_suffice(&scene.sums[rank], &stage, &division, replica));
            }
            step_sums_done(&scene.sums[rank]);
            step_facts_done(&scene.facts[rank]);
        }
    }
    assert_true(kept > 3000);
}

static void test_a_sum_that_is_missing_does_not_suffice(void **state)
{
    const struct step_sums_stage stage = {0, 1, false};
    struct step_division division = {
        .step = 1, .lanes = LANES, .micro_batches = MICRO_BATCHES, .replicas = 1};
    CLEANUP(step_sums_done) struct step_sums sums = {0};

    (void)state;
    add(&sums, 0, 0, 0, 1, 2);
    division.starts[0] = 2;
    step_sums_choose(&sums, &division, 0);
    assert_true(step_sums_suffice(&sums, &stage, &division, 0));
    division.starts[0] = 3;
    assert_false(step_sums_suffice(&sums, &stage, &division, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_losses_pass_through_a_message),
        cmocka_unit_test(test_losses_of_more_micro_batches_are_taken),
        cmocka_unit_test(test_malformed_sums_are_refused),
        cmocka_unit_test(test_more_micro_batches_then_larger_spans_then_own_sums_are_chosen),
        cmocka_unit_test(test_only_sums_of_a_replicas_own_lanes_are_chosen),
        cmocka_unit_test(test_facts_are_the_least_of_all_units),
        cmocka_unit_test(test_a_division_counts_on_chosen_sums_alone),
        cmocka_unit_test(test_a_sum_that_is_missing_does_not_suffice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
