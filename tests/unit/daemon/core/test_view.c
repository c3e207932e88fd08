/*
 * Tests of the view, the leader's input: every key in its place, slots of other jobs busy; a
 * damaged key is an error if the decision depends on it, and skipped if not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "daemon/core/view.h"
#include "elastic/job/job_spec.h"
#include "lib/daemon/keys.h"
#include "lib/elastic/sample_plan.h"
#include "membership/kv/keys.h"

#define STEPS 500

static void put_spec(struct mirror *mirror, const char *job)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"name\": \"%s\", \"model\": {\"layers\": 2, \"width\": 16, \"heads\": 2, "
             "\"context\": 8}, \"data\": {\"path\": [\"/data\"]}, \"train\": {\"steps\": %d}}",
             job, STEPS);
    keys_put_leaf(mirror, job, "spec", text);
}

static void put_node(struct mirror *mirror, const char *name, bool draining)
{
    struct node_record record = {
        .link_port = 7600, .incarnation = 77, .draining = draining, .slot_count = 2};
    char key[KV_KEY_MAX];

    snprintf(record.host, sizeof(record.host), "10.0.0.1");
    if (!draining)
        record.rates = (struct record_rates){.bf16_flops = 7e14, .link_bytes = 5e10};
    for (unsigned slot = 0; slot < 2; slot++) {
        snprintf(record.slots[slot].kind, sizeof(record.slots[slot].kind), "cpu");
        record.slots[slot].thread_count = 1;
        record.slots[slot].memory_bytes = 1000 + slot;
        record.slots[slot].speed = 0.5;
    }
    if (draining) {
        snprintf(record.numerics_identity, sizeof(record.numerics_identity), "H100");
        snprintf(record.other_numerics_identities[0], sizeof(record.other_numerics_identities[0]),
                 "A100");
        snprintf(record.other_numerics_identities[1], sizeof(record.other_numerics_identities[1]),
                 "L40");
        record.slots[1].computes = 2;
    }
    for (unsigned slot = 0; slot < 2; slot++)
        snprintf(record.slots[slot].bad, sizeof(record.slots[slot].bad), "%s",
                 draining ? "broken" : "");
    record.slots[1].retry_unix_ns = draining ? 5 : 0;
    keys_put_tree(mirror, keys_node(key, CLUSTER, name), node_record_encode(&record));
}

static void put_plan(struct mirror *mirror, const char *job, const char *leaf, uint64_t generation)
{
    struct plan *plan = sample_plan();
    char key[KV_KEY_MAX];

    plan->generation = generation;
    snprintf(plan->job, sizeof(plan->job), "%s", job);
    keys_put_tree(mirror, keys_job(key, CLUSTER, job, leaf), plan_encode(plan));
    plan_free(plan);
}

/* Put a plan in force that restores the checkpoint of @step. */
static void put_restoring_plan(struct mirror *mirror, const char *job, uint64_t step)
{
    struct plan *plan = sample_plan();
    char key[KV_KEY_MAX];

    plan->change.planned = plan->start.has_commit = false;
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    plan->start.resume_step = step;
    plan->start.move_count = plan->start.sums_count = plan->layout.donor_count = 0;
    snprintf(plan->start.restore_path, sizeof(plan->start.restore_path), "/ck");
    snprintf(plan->job, sizeof(plan->job), "%s", job);
    keys_put_tree(mirror, keys_job(key, CLUSTER, job, "generation"), plan_encode(plan));
    plan_free(plan);
}

static void put_report(struct mirror *mirror, const char *job, uint64_t generation,
                       const char *node)
{
    AUTO_FREE struct node_report *report = calloc(1, sizeof(*report));
    char key[KV_KEY_MAX];

    report->generation = generation;
    snprintf(report->node, sizeof(report->node), "%s", node);
    report->worker_count = 1;
    report->workers[0].phase = WORKER_RUNNING;
    report->workers[0].generation = generation;
    keys_put_tree(mirror, keys_report(key, CLUSTER, job, generation, node),
                  node_report_encode(report));
}

static void put_state(struct mirror *mirror, const char *job, const char *word)
{
    struct state_record record = {.unix_ns = 1};
    char key[KV_KEY_MAX];

    snprintf(record.state, sizeof(record.state), "%s", word);
    keys_put_tree(mirror, keys_said(key, CLUSTER, job, "state"), state_record_encode(&record));
}

static struct view *make_view(const struct mirror *mirror, const char *job, uint64_t bad_step)
{
    struct view *view = NULL;
    struct refused_checkpoints refused = {0};
    struct error error = {0};
    char key[KV_KEY_MAX];

    if (bad_step)
        refused_add(&refused,
                    mirror_find(mirror, keys_checkpoint(key, CLUSTER, job, bad_step))->mod_revision,
                    "");
    if (view_make(mirror, CLUSTER, job, 123, 456, &refused, &view, &error))
        fail_msg("%s", error.text);
    return view;
}

static void test_no_spec(void **state)
{
    struct mirror mirror = {0};
    struct view *view = NULL;
    struct error error = {0};

    (void)state;
    keys_put_leaf(&mirror, "demo", "desired", "{\"state\": \"running\"}");
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, NULL, &view, &error), -ENOENT);
    assert_null(view);
    mirror_done(&mirror);
}

static void test_new_job(void **state)
{
    struct mirror mirror = {0};

    (void)state;
    put_spec(&mirror, "demo");
    struct view *view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.now_ns, 123);
    assert_int_equal(view->view.failure_timeout_ns, 456);
    assert_int_equal(view->view.spec->train.steps, STEPS);
    assert_null(view->view.plan);
    assert_null(view->view.next);
    assert_int_equal(view->plan_revision, 0);
    assert_int_equal(view->view.wish.desired, JOB_DESIRED_RUNNING);
    assert_int_equal(view->view.node_count, 0);
    assert_int_equal(view->view.report_count, 0);
    assert_int_equal(view->view.checkpoint.step, 0);
    assert_false(view->view.finished);
    assert_string_equal(view->state.state, "");
    view_free(view);
    mirror_done(&mirror);
}

static void test_nodes(void **state)
{
    struct mirror mirror = {0};
    char key[KV_KEY_MAX];

    (void)state;
    put_spec(&mirror, "demo");
    put_node(&mirror, "b", true);
    put_node(&mirror, "a", false);
    keys_put(&mirror, keys_node(key, CLUSTER, "torn"), "{\"slots\": ");
    keys_put(&mirror, keys_node(key, "other", "z"), "{}");
    struct view *view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.node_count, 2);
    const struct member *nodes = view->view.nodes;
    assert_string_equal(nodes[0].name, "a");
    assert_string_equal(nodes[0].host, "10.0.0.1");
    assert_int_equal(nodes[0].link_port, 7600);
    assert_int_equal(nodes[0].incarnation, 77);
    assert_false(nodes[0].draining);
    assert_int_equal(nodes[0].slot_count, 2);
    assert_int_equal(nodes[0].slots[1].index, 1);
    assert_int_equal(nodes[0].slots[1].memory_bytes, 1001);
    assert_true(nodes[0].slots[1].speed > 0.49 && nodes[0].slots[1].speed < 0.51);
    assert_false(nodes[0].slots[1].bad);
    assert_true(nodes[0].measured.flops_per_second[JOB_PRECISION_BF16] == 7e14);
    assert_true(nodes[0].measured.link_bytes_per_second == 5e10);
    assert_true(nodes[0].measured.memory_bytes_per_second == 0.0);
    assert_true(nodes[1].measured.link_bytes_per_second == 0.0);
    assert_true(nodes[1].draining);
    assert_true(nodes[1].slots[0].bad && !nodes[1].slots[0].tried_again);
    assert_true(nodes[1].slots[1].bad && nodes[1].slots[1].tried_again);
    assert_string_equal(nodes[0].other_numerics_identities[0], "");
    assert_int_equal(nodes[0].slots[1].computes, 0);
    assert_string_equal(nodes[1].other_numerics_identities[1], "L40");
    assert_int_equal(nodes[1].slots[0].computes, 0);
    assert_int_equal(nodes[1].slots[1].computes, 2);
    view_free(view);
    mirror_done(&mirror);
}

static void test_plans_and_reports(void **state)
{
    char key[KV_KEY_MAX];
    struct mirror mirror = {0};

    (void)state;
    put_spec(&mirror, "demo");
    put_plan(&mirror, "demo", "generation", 7);
    put_plan(&mirror, "demo", "next", 8);
    put_report(&mirror, "demo", 7, "a");
    put_report(&mirror, "demo", 7, "b");
    put_report(&mirror, "demo", 8, "a");
    put_report(&mirror, "demo", 6, "a");  /* of the generation before */
    put_report(&mirror, "demo", 70, "a"); /* not of 7 */
    put_report(&mirror, "demox", 7, "a"); /* of another job */
    keys_put(&mirror, keys_said(key, CLUSTER, "demo", "reports/7/c"),
             "{}"); /* damaged: treated as if it were absent */
    struct view *view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.plan->generation, 7);
    assert_int_equal(view->view.next->generation, 8);
    assert_int_equal(view->plan_revision, 2);
    assert_int_equal(view->next_revision, 3);
    assert_int_equal(view->view.report_count, 3);
    assert_string_equal(view->view.reports[0]->node, "a");
    assert_string_equal(view->view.reports[1]->node, "b");
    assert_int_equal(view->view.reports[2]->generation, 8);
    view_free(view);
    assert_non_null(mirror_find(&mirror, keys_report(key, CLUSTER, "demo", 7, "a"))->meaning);
    put_plan(&mirror, "demo", "generation", 8);
    view = make_view(&mirror, "demo", 0); /* reports of 7 are not remembered */
    assert_null(mirror_find(&mirror, keys_report(key, CLUSTER, "demo", 7, "a"))->meaning);
    assert_non_null(mirror_find(&mirror, keys_report(key, CLUSTER, "demo", 8, "a"))->meaning);
    view_free(view);
    mirror_done(&mirror);
}

/* The previous generation trains until the switch: its reports count, and older reports do not. */
static void test_reports_until_a_switch(void **state)
{
    char key[KV_KEY_MAX];
    struct mirror mirror = {0};
    struct plan *plan = sample_plan();

    (void)state;
    put_spec(&mirror, "demo");
    plan->generation = 8;
    plan->follows = 6;
    plan->change.planned = true;
    plan->start.source = PLAN_SOURCE_MEMORY;
    snprintf(plan->job, sizeof(plan->job), "demo");
    keys_put_tree(&mirror, keys_job(key, CLUSTER, "demo", "generation"), plan_encode(plan));
    for (uint64_t generation = 5; generation <= 8; generation++)
        put_report(&mirror, "demo", generation, "a");
    struct view *view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.report_count, 2);
    assert_int_equal(view->view.reports[0]->generation, 6);
    assert_int_equal(view->view.reports[1]->generation, 8);
    view_free(view);
    plan_free(plan);
    mirror_done(&mirror);
}

static void test_wishes_and_words(void **state)
{
    struct desired_record desired = {
        .wish = RECORD_PAUSED, .devices = 5, .stages = 2, .replicas = 3};
    struct progress_record progress = {
        .generation = 7, .step = 40, .steps = STEPS, .frozen_layers = 1, .step_seconds = 0.25};
    struct mirror mirror = {0};
    char key[KV_KEY_MAX];

    (void)state;
    progress.straggler_count = 1;
    progress.stragglers[0].rank = 1;
    progress.stragglers[0].speed = 0.25;
    put_spec(&mirror, "demo");
    put_plan(&mirror, "demo", "generation", 7);
    keys_put_tree(&mirror, keys_job(key, CLUSTER, "demo", "desired"),
                  desired_record_encode(&desired));
    keys_put_tree(&mirror, keys_said(key, CLUSTER, "demo", "progress"),
                  progress_record_encode(&progress));
    put_state(&mirror, "demo", "pausing");
    struct view *view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.wish.desired, JOB_DESIRED_PAUSED);
    assert_int_equal(view->view.wish.devices, 5);
    assert_int_equal(view->view.wish.stages, 2);
    assert_int_equal(view->view.wish.replicas, 3);
    assert_int_equal(view->view.progress.frozen_layers, 1);
    assert_int_equal(view->view.progress.step, 40);
    assert_true(view->view.progress.step_seconds > 0.2);
    assert_true(view->view.progress.last_step_seconds > 0.2);
    assert_int_equal(view->view.stragglers.count, 1);
    assert_int_equal(view->view.stragglers.judgements[0].rank, 1);
    assert_true(view->view.stragglers.judgements[0].speed < 0.3);
    assert_string_equal(view->state.state, "pausing");
    view_free(view);

    /* A measurement under another generation does not count for this generation. */
    put_plan(&mirror, "demo", "generation", 9);
    view = make_view(&mirror, "demo", 0);
    assert_true(view->view.progress.step_seconds == 0);
    assert_true(view->view.progress.last_step_seconds > 0.2);
    assert_int_equal(view->view.stragglers.count, 0);
    assert_int_equal(view->view.progress.frozen_layers, 1);
    view_free(view);

    /* Messages for operators may be damaged; inputs of decisions may not. */
    keys_put(&mirror, keys_said(key, CLUSTER, "demo", "progress"), "{");
    keys_put(&mirror, keys_said(key, CLUSTER, "demo", "state"), "[]");
    view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.progress.step, view->plan->start.resume_step);
    assert_string_equal(view->state.state, "");
    view_free(view);
    mirror_done(&mirror);
}

struct said {
    enum plan_source source;
    bool planned;
    uint64_t generation, step;
    bool counts;
};

/*
 * Check the progress in the view of a plan of generation 7 that follows 6 and resumes at step 30.
 */
static void check_progress(const struct said *said)
{
    struct progress_record progress = {
        .generation = said->generation, .step = said->step, .steps = STEPS, .frozen_layers = 5};
    struct plan *plan = sample_plan();
    struct mirror mirror = {0};
    char key[KV_KEY_MAX];

    put_spec(&mirror, "demo");
    snprintf(plan->job, sizeof(plan->job), "demo");
    plan->generation = 7;
    plan->follows = 6;
    plan->layout.frozen_layers = 2;
    plan->change.planned = said->planned;
    plan->start.resume_step = 30;
    plan->start.has_commit = false;
    if (said->source != PLAN_SOURCE_MEMORY) {
        plan->start.source = said->source;
        plan->start.move_count = plan->layout.donor_count = plan->start.history_count =
            plan->start.sums_count = 0;
        snprintf(plan->start.restore_path, sizeof(plan->start.restore_path),
                 "/checkpoints/demo/30");
    }
    keys_put_tree(&mirror, keys_job(key, CLUSTER, "demo", "generation"), plan_encode(plan));
    keys_put_tree(&mirror, keys_said(key, CLUSTER, "demo", "progress"),
                  progress_record_encode(&progress));
    struct view *view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.progress.step, said->counts ? said->step : plan->start.resume_step);
    assert_int_equal(view->view.progress.frozen_layers, said->counts ? 5 : 2);
    view_free(view);
    plan_free(plan);
    mirror_done(&mirror);
}

static void test_progress_of_a_life_that_is_over(void **state)
{
    static const struct said cases[] = {
        {PLAN_SOURCE_MEMORY, true, 7, 40, true},
        {PLAN_SOURCE_MEMORY, true, 6, 40, true},  /* which continues until 7 takes over */
        {PLAN_SOURCE_MEMORY, true, 5, 40, false}, /* 6 may have begun from a checkpoint */
        {PLAN_SOURCE_MEMORY, false, 7, 40, true},
        {PLAN_SOURCE_MEMORY, false, 6, 30, true},
        {PLAN_SOURCE_MEMORY, false, 6, 40, false}, /* lost with the node that computed them */
        {PLAN_SOURCE_CHECKPOINT, false, 7, 40, true},
        {PLAN_SOURCE_CHECKPOINT, false, 6, 30, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_progress(&cases[i]);
}

static void test_damaged_keys_are_refused(void **state)
{
    static const char *const leaves[] = {"spec", "generation", "next", "desired"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(leaves); i++) {
        struct mirror mirror = {0};
        struct view *view = NULL;
        struct error error = {0};
        put_spec(&mirror, "demo");
        keys_put_leaf(&mirror, "demo", leaves[i], "{\"what\": 1}");
        assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, NULL, &view, &error), -EINVAL);
        assert_true(error.text[0] != '\0');
        keys_put_leaf(&mirror, "demo", leaves[i], "{\"what\": ");
        error = (struct error){0};
        assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, NULL, &view, &error), -EINVAL);
        assert_non_null(strstr(error.text, leaves[i]));
        assert_null(view);
        mirror_done(&mirror);
    }
}

static void test_checkpoints(void **state)
{
    struct mirror mirror = {0};
    struct view *view;

    (void)state;
    put_spec(&mirror, "demo");
    keys_put_checkpoint(&mirror, "demo", 5, "a", "");
    keys_put_checkpoint(&mirror, "demo", 50, "a", "");
    keys_put_checkpoint(&mirror, "demo", 400, "a",
                        ""); /* after 50 as a number, before it as text */
    keys_put_checkpoint(&mirror, "other", 450, "a", "");
    view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.checkpoint.step, 400);
    assert_string_equal(view->view.checkpoint.path, "/ck/demo/400");
    assert_false(view->view.finished);
    view_free(view);

    view = make_view(&mirror, "demo", 400); /* known to be damaged: the one before */
    assert_int_equal(view->view.checkpoint.step, 50);
    view_free(view);
    view = make_view(&mirror, "demo", 5);
    assert_int_equal(view->view.checkpoint.step, 400);
    view_free(view);

    keys_put_leaf(&mirror, "demo", "checkpoints/0000000450", "{}"); /* damaged: the one before */
    view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.checkpoint.step, 400);
    view_free(view);

    keys_put_checkpoint(&mirror, "demo", STEPS, "a", "");
    view = make_view(&mirror, "demo", 0);
    assert_true(view->view.finished);
    view_free(view);
    mirror_done(&mirror);
}

/*
 * The nodes that could be asked lacked parts of it: the leader retries when b or c is back, not
 * before.
 */
static void test_a_checkpoint_that_some_were_not_asked_for(void **state)
{
    struct mirror mirror = {0};
    struct refused_checkpoints refused = {0};
    struct view *view = NULL;
    char key[KV_KEY_MAX];

    (void)state;
    put_spec(&mirror, "demo");
    put_node(&mirror, "a", false);
    keys_put_checkpoint(&mirror, "demo", 50, "a", "");
    keys_put_checkpoint(&mirror, "demo", 400, "a", "");
    refused_add(&refused,
                mirror_find(&mirror, keys_checkpoint(key, CLUSTER, "demo", 400))->mod_revision,
                "b+c");
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, &refused, &view, NULL), 0);
    assert_int_equal(view->view.checkpoint.step, 50);
    assert_string_equal(view->view.checkpoint.missing,
                        "node b or c: it has a part of the checkpoint of step 400");
    view_free(view);
    put_node(&mirror, "c", false);
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, &refused, &view, NULL), 0);
    assert_int_equal(view->view.checkpoint.step, 400);
    assert_string_equal(view->view.checkpoint.missing, "");
    view_free(view);
    mirror_done(&mirror);
}

static void mark(struct mirror *mirror, uint64_t step, const char *damaged)
{
    struct checkpoint_record record = {0};
    char key[KV_KEY_MAX];
    AUTO_JSON json_t *tree = json_loads(
        mirror_find(mirror, keys_checkpoint(key, CLUSTER, "demo", step))->value, 0, NULL);

    assert_int_equal(checkpoint_record_decode(tree, &record, NULL), 0);
    assert_string_equal(record.damaged, "");
    snprintf(record.damaged, sizeof(record.damaged), "%s", damaged);
    keys_put_tree(mirror, key, checkpoint_record_encode(&record));
    checkpoint_record_done(&record);
}

/* A checkpoint is damaged by its record, or by a finding of the leader that is not recorded yet. */
static void test_damaged_checkpoints_are_passed_over_and_counted(void **state)
{
    struct mirror mirror = {0};
    struct refused_checkpoints refused = {0};
    struct view *view = NULL;
    char key[KV_KEY_MAX];

    (void)state;
    put_spec(&mirror, "demo");
    put_node(&mirror, "a", false);
    keys_put_checkpoint(&mirror, "demo", 50, "a", "");
    keys_put_checkpoint(&mirror, "demo", 400, "a", "");
    mark(&mirror, 400, "chunk 3 is bad");
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, &refused, &view, NULL), 0);
    assert_int_equal(view->view.checkpoint.step, 50);
    view_free(view);
    refused_add_damaged(
        &refused, mirror_find(&mirror, keys_checkpoint(key, CLUSTER, "demo", 50))->mod_revision,
        "cut off");
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, &refused, &view, NULL), 0);
    assert_int_equal(view->view.checkpoint.step, 0);
    assert_int_equal(view->view.checkpoint.damaged_count, 2);
    assert_string_equal(view->view.checkpoint.damaged, "step 400: chunk 3 is bad");
    view_free(view);
    mirror_done(&mirror);
}

#define MANY 1000

static char *name_of(unsigned node, char ret_name[NAME_SIZE])
{
    snprintf(ret_name, NAME_SIZE, "node-of-a-%053u", node % MANY);
    return ret_name;
}

/*
 * The view has the places of a checkpoint, for any number of places and any length of their names:
 * without them the checkpoint would be taken for one in a shared folder, and for lost.
 */
static void test_copies_on_a_thousand_nodes_of_long_names(void **state)
{
    struct mirror mirror = {0};
    struct bytes text = {0};
    struct view *view;
    char name[NAME_SIZE], next[NAME_SIZE], key[KV_KEY_MAX];

    (void)state;
    put_spec(&mirror, "demo");
    for (unsigned i = 0; i < MANY; i++) {
        keys_put_registered(&mirror, name_of(i, name));
        assert_int_equal(
            bytes_append_format(&text, "%s%s+%s", i ? " " : "", name, name_of(i + 1, next)), 0);
    }
    assert_int_equal(bytes_append(&text, "", 1), 0);
    keys_put_checkpoint(&mirror, "demo", 50, name, (const char *)text.data);
    assert_true(strlen(mirror_find(&mirror, keys_checkpoint(key, CLUSTER, "demo", 50))->value) <
                KV_VALUE_MAX);
    view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.checkpoint.step, 50);
    assert_string_equal(view->view.checkpoint.shares, (const char *)text.data);
    view_free(view);

    keys_remove(&mirror, keys_node(key, CLUSTER, name_of(7, name)));
    view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.checkpoint.step, 50); /* 8 has a copy of 7's share */
    view_free(view);
    keys_remove(&mirror, keys_node(key, CLUSTER, name_of(8, name)));
    view = make_view(&mirror, "demo", 0);
    assert_int_equal(view->view.checkpoint.step, 0);
    assert_non_null(strstr(view->view.checkpoint.missing, "it has a part of the checkpoint"));
    view_free(view);
    bytes_done(&text);
    mirror_done(&mirror);
}

/*
 * While a checkpoint is read, the one before it matters, too: the leader may have to fall back to
 * it.
 */
static void test_the_checkpoint_before_the_one_that_is_read(void **state)
{
    struct mirror mirror = {0};
    struct refused_checkpoints refused = {0};
    struct view *view = NULL;
    char key[KV_KEY_MAX];

    (void)state;
    put_spec(&mirror, "demo");
    put_node(&mirror, "a", false);
    keys_put_checkpoint(&mirror, "demo", 5, "a", "");
    keys_put_checkpoint(&mirror, "demo", 50, "a", "");
    keys_put_checkpoint(&mirror, "demo", 400, "a", "");
    put_restoring_plan(&mirror, "demo", 400);
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, NULL, &view, NULL), 0);
    assert_int_equal(view->view.checkpoint.step, 400);
    assert_int_equal(view->view.checkpoint.before_step, 50);
    assert_false(view->view.checkpoint.before_is_away);
    view_free(view);
    refused_add(&refused,
                mirror_find(&mirror, keys_checkpoint(key, CLUSTER, "demo", 50))->mod_revision, "b");
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, &refused, &view, NULL), 0);
    assert_int_equal(view->view.checkpoint.before_step, 5);
    assert_true(view->view.checkpoint.before_is_away);
    assert_string_equal(view->view.checkpoint.missing, "");
    assert_int_equal(view->view.checkpoint.given_up_count, 0);
    view_free(view);
    refused_add(&refused,
                mirror_find(&mirror, keys_checkpoint(key, CLUSTER, "demo", 50))->mod_revision, "");
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, &refused, &view, NULL), 0);
    assert_int_equal(view->view.checkpoint.before_step, 5);
    assert_int_equal(view->view.checkpoint.given_up_count, 1);
    view_free(view);
    put_restoring_plan(&mirror, "demo", 5);
    assert_int_equal(view_make(&mirror, CLUSTER, "demo", 1, 1, &refused, &view, NULL), 0);
    assert_int_equal(view->view.checkpoint.before_step, 0);
    assert_false(view->view.checkpoint.before_is_away);
    view_free(view);
    mirror_done(&mirror);
}

/* The sample plan has ranks on slots 0 and 1 of node0, node1, node2 and slot 0 of node3. */
static void check_busy(const struct mirror *mirror, const char *job, bool busy)
{
    struct view *view = make_view(mirror, job, 0);

    assert_int_equal(view->view.node_count, 2);
    assert_int_equal(view->view.nodes[0].slots[0].busy, busy);
    assert_int_equal(view->view.nodes[0].slots[1].busy, busy);
    assert_int_equal(view->view.nodes[1].slots[0].busy, busy);
    assert_false(view->view.nodes[1].slots[1].busy);
    view_free(view);
}

static void test_slots_of_other_jobs_are_busy(void **state)
{
    struct mirror mirror = {0};

    (void)state;
    put_spec(&mirror, "demo");
    put_spec(&mirror, "other");
    put_node(&mirror, "node0", false);
    put_node(&mirror, "node3", false);
    check_busy(&mirror, "demo", false);
    put_plan(&mirror, "other", "next", 1); /* the plan in preparation counts */
    check_busy(&mirror, "demo", true);
    check_busy(&mirror, "other", false);
    put_state(&mirror, "other", "running");
    check_busy(&mirror, "demo", true);
    put_state(&mirror, "other", "completed"); /* over: its plan holds no slots any more */
    check_busy(&mirror, "demo", false);
    put_state(&mirror, "other", "paused"); /* may still hand over */
    check_busy(&mirror, "demo", true);
    mirror_done(&mirror);
}

static void put_phase(struct mirror *mirror, const char *node, uint64_t generation, unsigned slot,
                      enum worker_phase phase)
{
    AUTO_FREE struct node_report *report = calloc(1, sizeof(*report));
    char key[KV_KEY_MAX];

    report->generation = generation;
    snprintf(report->node, sizeof(report->node), "%s", node);
    report->worker_count = 1;
    report->workers[0].slot = slot;
    report->workers[0].phase = phase;
    keys_put_tree(mirror, keys_report(key, CLUSTER, "other", generation, node),
                  node_report_encode(report));
}

/* Slot 0 of node3 has a worker that the plan releases, like all workers when a job pauses. */
static void test_whoever_has_left_holds_no_slot(void **state)
{
    static const struct {
        enum worker_phase phase;
        bool busy;
    } cases[] = {
        {WORKER_RUNNING, true}, {WORKER_STUCK, true}, {WORKER_LEFT, false}, {WORKER_DEAD, false}};
    struct mirror mirror = {0};

    (void)state;
    put_spec(&mirror, "demo");
    put_node(&mirror, "node2", false);
    put_node(&mirror, "node3", false);
    put_plan(&mirror, "other", "generation", 3);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        put_phase(&mirror, "node3", 3, 0, cases[i].phase);
        put_phase(&mirror, "node2", 3, 0, cases[i].phase); /* which trains on */
        struct view *view = make_view(&mirror, "demo", 0);
        const struct member_slot *slot = &view->view.nodes[1].slots[0];
        assert_int_equal(slot->busy, cases[i].busy);
        assert_int_equal(slot->leaves, cases[i].busy);
        slot = &view->view.nodes[0].slots[0];
        assert_true(slot->busy && !slot->leaves);
        assert_string_equal(view->view.holders[slot->holder - 1], "other");
        view_free(view);
    }
    mirror_done(&mirror);
}

/* Slot 1 of node3 has no rank in the plan of generation 3, which follows 2 and has not begun. */
static void test_a_released_worker_holds_its_slot_until_it_has_left(void **state)
{
    static const struct {
        uint64_t generation;
        enum worker_phase phase;
    } cases[] = {{2, WORKER_RUNNING}, {3, WORKER_RUNNING}, {3, WORKER_LEFT}};
    struct plan *plan = sample_plan();
    struct mirror mirror = {0};
    char key[KV_KEY_MAX];

    (void)state;
    put_spec(&mirror, "demo");
    put_node(&mirror, "node3", false);
    plan->generation = 3;
    plan->follows = 2;
    keys_put_tree(&mirror, keys_job(key, CLUSTER, "other", "generation"), plan_encode(plan));
    plan_free(plan);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        put_phase(&mirror, "node3", cases[i].generation, 1, cases[i].phase);
        struct view *view = make_view(&mirror, "demo", 0);
        assert_int_equal(view->view.nodes[0].slots[1].busy, cases[i].phase != WORKER_LEFT);
        assert_int_equal(view->view.nodes[0].slots[1].leaves, cases[i].phase != WORKER_LEFT);
        view_free(view);
    }
    mirror_done(&mirror);
}

static void test_over(void **state)
{
    static const char *const over[] = {"completed", "cancelled", "failed"};
    static const char *const not [] = {"", "running", "paused", "waiting", "recovering"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(over); i++)
        assert_true(view_job_over(over[i]));
    for (size_t i = 0; i < ARRAY_COUNT(not ); i++)
        assert_false(view_job_over(not [i]));
}

static void put_wish(struct mirror *mirror, const char *job, enum record_wish wish)
{
    struct desired_record desired = {.wish = wish};
    char key[KV_KEY_MAX];

    keys_put_tree(mirror, keys_job(key, CLUSTER, job, "desired"), desired_record_encode(&desired));
}

static void test_jobs_at_rest(void **state)
{
    struct mirror mirror = {0};

    (void)state;
    assert_false(view_job_rests(&mirror, CLUSTER, "demo")); /* no state recorded yet */
    put_state(&mirror, "demo", "paused");
    assert_false(view_job_rests(&mirror, CLUSTER, "demo"));
    put_state(&mirror, "demo", "failed");
    assert_false(view_job_rests(&mirror, CLUSTER, "demo")); /* running is desired by default */
    put_wish(&mirror, "demo", RECORD_CANCELLED);
    assert_true(view_job_rests(&mirror, CLUSTER, "demo"));
    put_wish(&mirror, "demo", RECORD_RUNNING);
    assert_false(view_job_rests(&mirror, CLUSTER, "demo"));
    put_state(&mirror, "demo", "completed");
    assert_true(view_job_rests(&mirror, CLUSTER, "demo"));
    mirror_done(&mirror);
}

static void test_cancelled_jobs(void **state)
{
    struct mirror mirror = {0};

    (void)state;
    assert_false(view_job_cancelled(&mirror, CLUSTER, "demo"));
    put_wish(&mirror, "demo", RECORD_PAUSED);
    assert_false(view_job_cancelled(&mirror, CLUSTER, "demo"));
    put_wish(&mirror, "demo", RECORD_CANCELLED);
    assert_true(view_job_cancelled(&mirror, CLUSTER, "demo"));
    assert_false(view_job_cancelled(&mirror, CLUSTER, "another"));
    mirror_done(&mirror);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_spec),
        cmocka_unit_test(test_new_job),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_plans_and_reports),
        cmocka_unit_test(test_reports_until_a_switch),
        cmocka_unit_test(test_wishes_and_words),
        cmocka_unit_test(test_progress_of_a_life_that_is_over),
        cmocka_unit_test(test_damaged_keys_are_refused),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_damaged_checkpoints_are_passed_over_and_counted),
        cmocka_unit_test(test_a_checkpoint_that_some_were_not_asked_for),
        cmocka_unit_test(test_copies_on_a_thousand_nodes_of_long_names),
        cmocka_unit_test(test_the_checkpoint_before_the_one_that_is_read),
        cmocka_unit_test(test_slots_of_other_jobs_are_busy),
        cmocka_unit_test(test_whoever_has_left_holds_no_slot),
        cmocka_unit_test(test_a_released_worker_holds_its_slot_until_it_has_left),
        cmocka_unit_test(test_over),
        cmocka_unit_test(test_jobs_at_rest),
        cmocka_unit_test(test_cancelled_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
