/* Tests of plans: through JSON and back, the peers of each rank, and refused plans. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <string.h>

#include "base/json.h"
#include "elastic/job/job_training.h"
#include "elastic/plan/plan_words.h"
#include "lib/elastic/sample_plan.h"

static void assert_same_json(const struct plan *a, const struct plan *b)
{
    AUTO_JSON json_t *left = plan_encode(a);
    AUTO_JSON json_t *right = plan_encode(b);
    assert_non_null(left);
    assert_true(json_equal(left, right));
}

static struct plan *through_json(const struct plan *plan)
{
    struct error error = {0};
    struct plan *back = NULL;
    AUTO_JSON json_t *tree = plan_encode(plan);
    AUTO_FREE char *text = json_text(tree);
    AUTO_JSON json_t *again = NULL;
    assert_int_equal(json_parse(text, strlen(text), "plan", &again, &error), 0);
    int status = plan_decode(again, &back, &error);
    if (status != 0)
        print_error("%s\n", error.text);
    assert_int_equal(status, 0);
    return back;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    struct plan *back = through_json(plan);
    assert_same_json(plan, back);
    assert_string_equal(back->job, "demo");
    assert_int_equal(back->layout.worker_count, 6);
    assert_int_equal(back->layout.donor_count, 1);
    assert_memory_equal(back->layout.workers, plan->layout.workers,
                        7 * sizeof(*plan->layout.workers));
    assert_memory_equal(back->layout.stage_first_unit, plan->layout.stage_first_unit,
                        3 * sizeof(unsigned));
    assert_memory_equal(back->layout.replica_first_lane, plan->layout.replica_first_lane,
                        4 * sizeof(unsigned));
    assert_int_equal(back->layout.lane_micro_batches, 5);
    assert_true(back->layout.head_seconds == 0.25);
    assert_true(back->layout.copy_seconds == 0.5);
    assert_memory_equal(back->layout.replica_head, plan->layout.replica_head, 4 * sizeof(unsigned));
    assert_true(plan_layout_lanes_computed(&back->layout, 0) == 3.4);
    assert_memory_equal(back->start.moves, plan->start.moves, 3 * sizeof(*plan->start.moves));
    assert_memory_equal(back->start.histories, plan->start.histories,
                        sizeof(*plan->start.histories));
    assert_int_equal(back->start.sums_count, 2);
    assert_memory_equal(back->start.sums, plan->start.sums, 2 * sizeof(*plan->start.sums));
    assert_int_equal(back->checkpoints.copies, 2);
    assert_int_equal(back->checkpoints.copy_node_count, 4);
    assert_memory_equal(back->checkpoints.copy_nodes, plan->checkpoints.copy_nodes,
                        4 * sizeof(*plan->checkpoints.copy_nodes));
    assert_string_equal(back->start.restore_sha256, plan->start.restore_sha256);
    assert_true(back->start.has_commit && back->start.commit.step == 42);
    assert_true(back->start.commit.lane_losses[7] == 0.1);
    assert_true(back->layout.predicted_step_seconds == 0.1);
    assert_true(back->layout.prediction_factor == 1.5);
    assert_true(back->change.switch_seconds == 0.25 && back->change.before_seconds == 0.2);
    assert_int_equal(back->change.busy_ns, 1500000000);
    assert_int_equal(back->change.asked_devices, 2);
    assert_true(plan_shape_is(&back->trial.before, 6, 1) && back->trial.before_seconds == 0.125);
    assert_true(plan_shape_is(&back->trial.slower, 3, 2) && back->trial.slower_frozen == 1);
    assert_int_equal(back->layout.deferred, 1);
    assert_int_equal(back->start.last_dispute, 3);
    assert_int_equal(back->checkpoints.recorded_step, 40);
    assert_int_equal(back->layout.recompute, PLAN_RECOMPUTE_ATTENTION);
    assert_true(back->change.is_limited);
    assert_int_equal(back->change.limit_ns, 12500000000);
    assert_int_equal(back->change.spare_ns, 15000000000);
    assert_true(back->change.revokes_first == 5 && back->change.revokes_last == 6);
    assert_int_equal(back->hosts.count, 2);
    assert_string_equal(back->hosts.list[1].node, "node1");
    assert_string_equal(back->hosts.list[1].http, "[fd00::2]:7400");
    assert_true(back->links.patient && back->change.breaks_off && back->start.disputed);
    assert_int_equal(plan_layout_unit_count(&back->layout), SAMPLE_UNITS);
    assert_int_equal(plan_layout_lane_count(&back->layout), SAMPLE_LANES);
    plan_free(plan);
    plan_free(back);
}

static void test_copy_is_its_own(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    struct plan *copy = plan_copy(plan);
    assert_same_json(plan, copy);
    assert_ptr_not_equal(plan->layout.workers, copy->layout.workers);
    plan_free(plan);
    assert_int_equal(copy->start.moves[2].unit, 5);
    plan_free(copy);
    plan_free(NULL);
}

static void test_shared_until_the_last_owner_lets_go(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    struct plan *shared = plan_share(plan);
    struct plan *copy = plan_copy(shared); /* its own members: the original shares its parts */
    assert_ptr_equal(shared, plan);
    assert_ptr_not_equal(copy, plan);
    plan_free(plan);
    assert_int_equal(shared->start.moves[2].unit, 5);
    assert_same_json(shared, copy);
    plan_free(shared);
    plan_free(copy);
}

static void test_empty_plan(void **state)
{
    (void)state;
    struct plan *plan = plan_new();
    strcpy(plan->job, "demo");
    plan->generation = 2;
    plan->change.reason = PLAN_REASON_PAUSE;
    plan->change.planned = true;
    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = 10;
    struct plan *copy = plan_copy(plan);
    struct plan *back = through_json(copy);
    assert_same_json(plan, back);
    assert_int_equal(plan_layout_unit_count(&back->layout), 0);
    assert_int_equal(plan_layout_lane_count(&back->layout), 0);
    plan_free(plan);
    plan_free(copy);
    plan_free(back);
}

static void test_sentence_with_broken_utf8_still_travels(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    strcpy(plan->change.text, "caf\xc3\xa9 closed");
    struct plan *back = through_json(plan);
    assert_string_equal(back->change.text, "caf\xc3\xa9 closed");
    assert_string_equal(back->numerics, plan->numerics);
    assert_int_equal(back->links.protocol, 2);
    plan_free(back);
    strcpy(plan->change.text, "cut in a letter: \xc3");
    back = through_json(plan);
    assert_string_equal(back->change.text, "cut in a letter: ?");
    plan_free(plan);
    plan_free(back);
}

static void test_find(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    assert_int_equal(plan_layout_find(&plan->layout, "node1", 1), 3);
    assert_int_equal(plan_layout_find(&plan->layout, "node3", 0), 6); /* a donor */
    assert_int_equal(plan_layout_find(&plan->layout, "node3", 1), -1);
    assert_int_equal(plan_layout_find(&plan->layout, "node", 1), -1);
    plan_free(plan);
}

static void assert_peers(const struct plan *plan, unsigned rank, const unsigned *expected,
                         unsigned count)
{
    unsigned peers[64];
    assert_int_equal(plan_peers(plan, rank, true, peers), count);
    assert_memory_equal(peers, expected, count * sizeof(unsigned));
}
#define ASSERT_PEERS(plan, rank, ...)                                                              \
    assert_peers(plan, rank, (const unsigned[]){__VA_ARGS__},                                      \
                 ARRAY_COUNT(((const unsigned[]){__VA_ARGS__})))

static void test_peers(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    ASSERT_PEERS(plan, 0, 1, 2, 3, 4, 5, 6); /* root of the tree, and the donor */
    ASSERT_PEERS(plan, 1, 0, 3, 4,
                 5); /* neighbour, replicas of stage 1, move from 3, sums from 4 */
    ASSERT_PEERS(plan, 2, 0, 3, 4);
    ASSERT_PEERS(plan, 4, 0, 1, 2, 5);
    ASSERT_PEERS(plan, 5, 0, 1, 3, 4);
    ASSERT_PEERS(plan, 6, 0); /* a donor: only its moves */
    unsigned peers[7];        /* of links anew, when the donor has gone */
    assert_int_equal(plan_peers(plan, 6, false, peers), 0);
    assert_int_equal(plan_peers(plan, 0, false, peers), 5);
    assert_int_equal(peers[4], 5);
    plan_free(plan);
}

static void test_shadows(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 0), 3);
    assert_int_equal(plan_layout_shadow_of(&plan->layout, 1), -1);
    for (unsigned unit = 0; unit < SAMPLE_UNITS; unit++) {
        assert_int_equal(plan_layout_keeps(&plan->layout, 0, unit), unit < 2);
        assert_int_equal(plan_layout_keeps(&plan->layout, 1, unit), unit >= 2);
        assert_true(plan_layout_keeps(&plan->layout, 3, unit));  /* its own and the copy */
        assert_false(plan_layout_keeps(&plan->layout, 6, unit)); /* a donor */
    }
    plan->layout.worker_count = plan->layout.stage_count = 20;
    plan->layout.replica_count = 1;
    plan->layout.donor_count = plan->start.move_count = plan->start.history_count =
        plan->start.sums_count = 0;
    plan->layout.shadows[0] = (struct plan_shadow){4, 12};
    ASSERT_PEERS(plan, 4, 0, 3, 5, 12);
    ASSERT_PEERS(plan, 12, 1, 4, 11, 13);
    plan_free(plan);
}

static void test_peers_of_a_pipeline_and_the_tree(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    plan->layout.stage_count = plan->layout.worker_count = 20; /* only the counts matter to peers */
    plan->layout.replica_count = 1;
    plan->layout.donor_count = plan->start.move_count = plan->start.history_count =
        plan->start.sums_count = plan->layout.shadow_count = 0;
    ASSERT_PEERS(plan, 0, 1, 2, 3, 4, 5, 6, 7, 8, 19); /* 19: the other end of the replica */
    ASSERT_PEERS(plan, 1, 0, 2, 9, 10, 11, 12, 13, 14, 15, 16);
    ASSERT_PEERS(plan, 2, 0, 1, 3, 17, 18, 19);
    ASSERT_PEERS(plan, 9, 1, 8, 10);
    ASSERT_PEERS(plan, 19, 0, 2, 18);
    plan_free(plan);
}

/* The relation of peers is symmetric: a link with only one end would wait forever. */
static void test_peers_are_mutual(void **state)
{
    (void)state;
    struct plan *plan = sample_plan();
    for (unsigned rank = 0; rank < 7; rank++) {
        unsigned peers[7];
        unsigned count = plan_peers(plan, rank, true, peers);
        for (unsigned i = 0; i < count; i++) {
            unsigned back[7];
            unsigned back_count = plan_peers(plan, peers[i], true, back);
            bool found = false;
            for (unsigned j = 0; j < back_count; j++)
                found |= back[j] == rank;
            assert_true(found);
        }
    }
    plan_free(plan);
}

static void break_generation(struct plan *plan)
{
    plan->generation = 0;
}
static void break_job(struct plan *plan)
{
    strcpy(plan->job, "Not A Name");
}
static void break_key(struct plan *plan)
{
    plan->links.key[63] = 'g';
}
static void break_key_length(struct plan *plan)
{
    plan->links.key[62] = '\0';
}
static void break_time(struct plan *plan)
{
    plan->layout.predicted_step_seconds = -1;
}
static void break_before(struct plan *plan)
{
    plan->change.before_seconds = INFINITY;
}
static void break_pause(struct plan *plan)
{
    plan->change.switch_seconds = INFINITY;
}

static void break_trial(struct plan *plan)
{
    plan->trial.before_seconds = -1;
}

static void break_deferred(struct plan *plan)
{
    plan->layout.deferred = plan->layout.stage_count;
}

static void break_factor(struct plan *plan)
{
    plan->layout.prediction_factor = INFINITY;
}
static void break_counts(struct plan *plan)
{
    plan->layout.worker_count = 5;
    plan->layout.donor_count = 2;
}
static void break_first_unit(struct plan *plan)
{
    plan->layout.stage_first_unit[0] = 1;
}
static void break_empty_stage(struct plan *plan)
{
    plan->layout.stage_first_unit[1] = SAMPLE_UNITS;
}
static void break_lane_order(struct plan *plan)
{
    plan->layout.replica_first_lane[2] = 2;
}
static void break_lane_count(struct plan *plan)
{
    plan->layout.replica_first_lane[3] = JOB_LANES_MAX + 1;
}
static void break_first_head(struct plan *plan)
{
    plan->layout.replica_head[0] = 1;
}
static void break_last_head(struct plan *plan)
{
    plan->layout.replica_head[3] = 1;
}
static void break_head(struct plan *plan)
{
    plan->layout.replica_head[1] = 5;
}
static void break_lane_size(struct plan *plan)
{
    plan->layout.lane_micro_batches = 0;
}
static void break_frozen(struct plan *plan)
{
    plan->layout.frozen_layers = SAMPLE_UNITS;
}
static void break_two_ranks_on_a_slot(struct plan *plan)
{
    plan->layout.workers[6] = plan->layout.workers[2];
}
static void break_node(struct plan *plan)
{
    strcpy(plan->layout.workers[3].node, "");
}
static void break_address(struct plan *plan)
{
    plan->layout.workers[3].address[0] = '\0';
}
static void break_slot(struct plan *plan)
{
    plan->layout.workers[3].slot = PLAN_SLOTS_MAX;
}
static void break_fresh(struct plan *plan)
{
    plan->start.source = PLAN_SOURCE_FRESH;
    plan->start.has_commit = false;
    plan->start.move_count = plan->start.sums_count = 0;
}
static void break_moves_from_checkpoint(struct plan *plan)
{
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    plan->start.has_commit = false;
    strcpy(plan->start.restore_path, "/c/42");
}
static void break_commit_from_checkpoint(struct plan *plan)
{
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    plan->start.move_count = plan->start.sums_count = 0;
    strcpy(plan->start.restore_path, "/c/42");
}
static void break_sums_from_checkpoint(struct plan *plan)
{
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    plan->start.move_count = 0;
    plan->start.has_commit = false;
    strcpy(plan->start.restore_path, "/c/42");
}
static void break_sums_rank(struct plan *plan)
{
    plan->start.sums[1].to_rank = 6;
}
static void break_sums_to_itself(struct plan *plan)
{
    plan->start.sums[0].to_rank = 4;
}
static void break_sums_order(struct plan *plan)
{
    plan->start.sums[1] = plan->start.sums[0];
}
static void break_restore_path(struct plan *plan)
{
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    plan->start.move_count = plan->start.sums_count = 0;
    plan->start.has_commit = false;
}
static void break_commit_step(struct plan *plan)
{
    plan->start.commit.step = 41;
}
static void break_commit_incomplete(struct plan *plan)
{
    plan->start.commit.unit_squares[3] = step_record_unknown();
}
static void break_commit_shape(struct plan *plan)
{
    plan->start.commit.lane_count--;
}
static void break_move_from(struct plan *plan)
{
    plan->start.moves[0].from_rank = 7;
}
static void break_move_to_donor(struct plan *plan)
{
    plan->start.moves[2].to_rank = 6;
}
static void break_move_to_itself(struct plan *plan)
{
    plan->start.moves[2].from_rank = 1;
}
static void break_move_to_other_stage(struct plan *plan)
{
    plan->start.moves[2].unit = 1;
}
static void break_move_twice(struct plan *plan)
{
    plan->start.moves[1].unit = 0;
}
static void break_shadow_stage(struct plan *plan)
{
    plan->layout.shadows[0].stage = 2;
}
static void break_shadow_rank(struct plan *plan)
{
    plan->layout.shadows[0].rank = 6; /* a donor */
}
static void break_shadow_of_itself(struct plan *plan)
{
    plan->layout.shadows[0].rank = 2;
}
static void break_shadow_node(struct plan *plan)
{
    plan->layout.shadows[0].rank = 1;
}
static void break_slow_node(struct plan *plan)
{
    plan->slow[0].node[0] = '\0';
}
static void break_slow_speed(struct plan *plan)
{
    plan->slow[1].speed = 0;
}
static void break_slow_times(struct plan *plan)
{
    plan->slow[0].times = 0;
}
static void break_slow_twice(struct plan *plan)
{
    strcpy(plan->slow[1].node, "node3");
}
static void break_shadow_order(struct plan *plan)
{
    free(plan->layout.shadows);
    plan->layout.shadows = calloc(2, sizeof(*plan->layout.shadows));
    plan->layout.shadows[0] = (struct plan_shadow){1, 2};
    plan->layout.shadows[1] = (struct plan_shadow){0, 3};
    plan->layout.shadow_count = 2;
}
static void break_history_rank(struct plan *plan)
{
    plan->start.histories[0].to_rank = 7;
}
static void break_history_to_itself(struct plan *plan)
{
    plan->start.histories[0].to_rank = 0;
}

struct breach {
    void (*break_it)(struct plan *plan);
    const char *named;
};

static void expect_refused(const struct breach *breach)
{
    struct plan *plan = sample_plan();
    struct plan *back = NULL;
    struct error error = {0};
    assert_int_equal(plan_check(plan, &error), 0);
    breach->break_it(plan);
    assert_int_equal(plan_check(plan, &error), -EINVAL);
    if (!strstr(error.text, breach->named))
        fail_msg("\"%s\" does not name \"%s\"", error.text, breach->named);
    AUTO_JSON json_t *tree = plan_encode(plan);
    assert_int_equal(plan_decode(tree, &back, &error), -EINVAL);
    assert_null(back);
    plan_free(plan);
}

static void test_check_refuses_every_broken_invariant(void **state)
{
    (void)state;
    static const struct breach cases[] = {
        {break_generation, "generation"},
        {break_job, "job"},
        {break_key, "key"},
        {break_key_length, "key"},
        {break_time, "predicted_step_seconds"},
        {break_factor, "prediction_factor"},
        {break_pause, "switch_seconds"},
        {break_before, "predicted_before_seconds"},
        {break_trial, "before: \"step_seconds\""},
        {break_deferred, "deferred"},
        {break_counts, "2 stages x 3 replicas are not 5 workers"},
        {break_first_unit, "stage_first_unit"},
        {break_empty_stage, "range 1 is empty"},
        {break_lane_order, "replica_first_lane"},
        {break_lane_count, "replica_first_lane"},
        {break_first_head, "\"replica_head\"[0] is 1 with lanes of 5 micro-batches"},
        {break_last_head, "replica_head"},
        {break_head, "replica_head"},
        {break_lane_size, "replica_head"},
        {break_frozen, "frozen_layers"},
        {break_two_ranks_on_a_slot, "slot 0 of node node1 has two ranks"},
        {break_node, "workers[3]"},
        {break_address, "workers[3]"},
        {break_slot, "slot"},
        {break_fresh, "fresh"},
        {break_moves_from_checkpoint, "memory"},
        {break_commit_from_checkpoint, "memory"},
        {break_sums_from_checkpoint, "sums"},
        {break_sums_rank, "sums[1]: no such rank"},
        {break_sums_to_itself, "sums[0]: from rank 4 to itself"},
        {break_sums_order, "sums[1]: the ranks must ascend"},
        {break_restore_path, "restore_path"},
        {break_commit_step, "commit"},
        {break_commit_incomplete, "not complete"},
        {break_commit_shape, "7"},
        {break_move_from, "moves[0]"},
        {break_move_to_donor, "moves[2]"},
        {break_move_to_itself, "itself"},
        {break_move_to_other_stage, "does not own unit 1"},
        {break_move_twice, "unit 0 moves to rank 0 twice"},
        {break_shadow_stage, "shadows[0]: no such"},
        {break_shadow_rank, "shadows[0]: no such"},
        {break_shadow_of_itself, "computes stage 0 itself"},
        {break_shadow_node, "stage 0 is on node node0 itself"},
        {break_shadow_order, "ascend"},
        {break_history_rank, "histories[0]"},
        {break_history_to_itself, "histories[0]"},
        {break_slow_node, "slow[0]: node"},
        {break_slow_speed, "slow[1]: a speed of 0"},
        {break_slow_times, "slow[0]: a speed of 0.25, found 0 times"},
        {break_slow_twice, "slow[1]: node3/1 twice"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        expect_refused(&cases[i]);
}

/* Every key except the rare ones is required, and every wrong type is refused. */
static void test_decode_refuses_missing_and_mistyped_keys(void **state)
{
    (void)state;
    static const char *const rare[] = {"commit",        "shadows",
                                       "arithmetic",    "copies",
                                       "slow",          "recompute",
                                       "patient",       "limit_ns",
                                       "breaks_off",    "disputed",
                                       "links",         "prediction_factor",
                                       "last_dispute",  "switch_seconds",
                                       "deferred",      "before",
                                       "slower",        "busy_ns",
                                       "recorded_step", "spare_ns",
                                       "revokes",       "hosts",
                                       "sums",          "predicted_before_seconds",
                                       "asked_devices", "lane_micro_batches",
                                       "replica_head",  "head_seconds",
                                       "copy_seconds"};
    struct plan *plan = sample_plan();
    AUTO_JSON json_t *tree = plan_encode(plan);
    const char *key;
    json_t *value;
    json_object_foreach(tree, key, value)
    {
        struct error error = {0};
        struct plan *back = NULL;
        AUTO_JSON json_t *without = json_deep_copy(tree);
        AUTO_JSON json_t *mistyped = json_deep_copy(tree);
        assert_int_equal(json_object_del(without, key), 0);
        assert_int_equal(json_object_set_new(mistyped, key, json_pack("{si}", "x", 1)), 0);
        assert_int_equal(plan_decode(mistyped, &back, &error), -EINVAL);
        assert_non_null(strstr(error.text, strcmp(key, "commit") == 0 ? "step" : key));
        bool needed = true;
        for (size_t i = 0; i < ARRAY_COUNT(rare); i++)
            needed = needed && strcmp(key, rare[i]) != 0;
        if (!needed)
            continue;
        assert_int_equal(plan_decode(without, &back, &error), -EINVAL);
        assert_non_null(strstr(error.text, key));
    }
    plan_free(plan);
}

/* An array that is shorter or longer than its count would be read past its end. */
static void test_decode_refuses_arrays_of_another_length(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *named;
    } cases[] = {
        {"stage_first_unit", "[0,2]", "2 elements where 3 are needed"},
        {"stage_first_unit", "[]", "0 elements where 3 are needed"},
        {"replica_first_lane", "[0,3,6,7,8]", "5 elements, more than 4"},
        {"replica_head", "[0,2]", "2 elements where 4 are needed"},
        {"lane_micro_batches", "65537", "lane_micro_batches"},
        {"workers", "\"\"", "donors"},
        {"workers", "[]", "one packed text"},
        {"donors", "8", "donors"},
        {"stages", "515", "stages"},
        {"replicas", "1025", "replicas"},
        {"moves", "[[0,6]]", "\"moves\"[0] must be [unit, from, to]"},
        {"moves", "[[0,6,0,0]]", "\"moves\"[0]"},
        {"moves", "[{}]", "\"moves\"[0]"},
        {"histories", "[[0,1,2]]", "\"histories\"[0] must be [from, to]"},
        {"histories", "[[0,-1]]", "\"histories\"[0]"},
    };
    struct plan *plan = sample_plan();
    AUTO_JSON json_t *whole = plan_encode(plan);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct error error = {0};
        struct plan *back = NULL;
        AUTO_JSON json_t *tree = json_deep_copy(whole);
        json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
        assert_int_equal(json_object_set_new(tree, cases[i].key, value), 0);
        assert_int_equal(plan_decode(tree, &back, &error), -EINVAL);
        if (!strstr(error.text, cases[i].named))
            fail_msg("\"%s\" does not name \"%s\"", error.text, cases[i].named);
    }
    plan_free(plan);
}

static void test_words_cover_every_value(void **state)
{
    (void)state;
    assert_string_equal(plan_reason_word(PLAN_REASON_START), "start");
    assert_string_equal(plan_reason_word(PLAN_REASON_CANCEL), "cancel");
    assert_string_equal(plan_source_word(PLAN_SOURCE_FRESH), "fresh");
    assert_string_equal(plan_source_word(PLAN_SOURCE_CHECKPOINT), "checkpoint");
    assert_string_equal(plan_recompute_word(PLAN_RECOMPUTE_NONE), "none");
    assert_string_equal(plan_recompute_word(PLAN_RECOMPUTE_FULL), "full");
}

static void test_a_reason_that_says_the_layout(void **state)
{
    static const struct {
        const char *reason;
        bool says;
    } cases[] = {
        {"2 stages x 3 replicas from step 0", true},
        {"free slots are put to use: 2 stages x 2 replicas -> 2 x 3, predicted step 24.9 ms", true},
        {"another scale is asked for: 2 stages x 2 replicas -> 2 x 4, predicted step 1.0 ms",
         false},
        {"lost b/0: 6 slots -> 4, step 24 is replayed", false},
    };
    struct plan *plan = plan_new();
    (void)state;
    assert_non_null(plan);
    plan->layout.stage_count = 2;
    plan->layout.replica_count = 3;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(plan->change.text, sizeof(plan->change.text), "%s", cases[i].reason);
        assert_int_equal(plan_says_layout(plan), cases[i].says);
    }
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reason_that_says_the_layout),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_copy_is_its_own),
        cmocka_unit_test(test_shared_until_the_last_owner_lets_go),
        cmocka_unit_test(test_empty_plan),
        cmocka_unit_test(test_sentence_with_broken_utf8_still_travels),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_shadows),
        cmocka_unit_test(test_peers_of_a_pipeline_and_the_tree),
        cmocka_unit_test(test_peers_are_mutual),
        cmocka_unit_test(test_check_refuses_every_broken_invariant),
        cmocka_unit_test(test_decode_refuses_missing_and_mistyped_keys),
        cmocka_unit_test(test_decode_refuses_arrays_of_another_length),
        cmocka_unit_test(test_words_cover_every_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
