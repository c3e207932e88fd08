/*
 * firn's main promise: the same job gives the same metrics and the same parameters, to the bit, on
 * every layout that fits, while freezing moves the boundary.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "integration/worker_crew.h"

#define STEPS 14

#define LLAMA "\"family\":\"llama\",\"heads\":4,\"kv_heads\":2,\"head_width\":10,\"hidden\":84"

#define QWEN2 "\"family\":\"llama\",\"heads\":4,\"kv_heads\":2,\"head_width\":8,\"qkv_bias\":true"

#define QWEN3 "\"family\":\"llama\",\"heads\":4,\"kv_heads\":2,\"head_width\":10,\"qk_norm\":true"

static struct job_spec small_job(const char *family)
{
    struct job_spec spec = crew_job("layouts", family, STEPS, 6, 2);

    spec.checkpoint.every = 4;
    spec.evaluate.batches = 5;
    return spec;
}

/* The numbers of a layout; SHARES: 1: replicas share lanes; DEFERRED: weight gradients. */
enum { STAGES, REPLICAS, SHARES, DEFERRED, LAYOUT_NUMBERS };

static void train(struct crew *crew, const struct job_spec *spec, const unsigned *layout)
{
    unsigned stages = layout[STAGES], replicas = layout[REPLICAS];

    crew_init(crew, spec);
    for (unsigned slot = 0; slot < stages * replicas; slot++)
        crew_spawn(crew, slot);
    struct plan *plan = crew_plan(crew, stages, replicas);
    if (layout[SHARES])
        crew_share_lanes(crew, plan);
    plan->layout.deferred = layout[DEFERRED];
    crew_send(crew, plan, CONTROL_SWITCH);
    crew_pump(crew, crew_finished, NULL, 120);
    plan_free(plan);
}

static char *run_layout(const struct job_spec *spec, const unsigned *layout, char ret_digest[33])
{
    struct crew crew;
    char *exact;

    train(&crew, spec, layout);
    exact = crew_exact(&crew, 0);
    crew_digest(&crew, STEPS, ret_digest);
    crew_done(&crew);
    return exact;
}

/* Compare each of @layouts with one worker alone. Return the metrics of that worker, to be freed.
 */
static const unsigned alone[LAYOUT_NUMBERS] = {1, 1}, square[LAYOUT_NUMBERS] = {2, 2};

static char *expect_same(const struct job_spec *spec, const unsigned (*layouts)[LAYOUT_NUMBERS],
                         size_t count)
{
    char digest[33], other_digest[33];
    char *metrics = run_layout(spec, alone, digest);
    unsigned lines = 0;

    for (const char *at = metrics; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, STEPS);
    for (size_t i = 0; i < count; i++) {
        AUTO_FREE char *other = run_layout(spec, layouts[i], other_digest);
        print_message("%u x %u%s: %s\n", layouts[i][STAGES], layouts[i][REPLICAS],
                      layouts[i][SHARES] ? " with shared lanes" : "", other_digest);
        crew_expect_same(metrics, other, digest, other_digest);
    }
    return metrics;
}

static void expect_same_bits(const char *family, const unsigned (*layouts)[LAYOUT_NUMBERS],
                             size_t count)
{
    struct job_spec spec = small_job(family);

    free(expect_same(&spec, layouts, count));
}

/* Return the last line of a job of @steps, trained with a learning rate that does not depend on
 * @steps. */
static char *last_line(unsigned steps)
{
    struct job_spec spec = small_job(LLAMA);
    struct crew crew;

    spec.train.steps = steps;
    spec.train.optimizer.schedule = JOB_SCHEDULE_CONSTANT;
    spec.checkpoint.every = 0;
    train(&crew, &spec, square);
    AUTO_FREE char *exact = crew_exact(&crew, 0);
    crew_done(&crew);
    exact[strlen(exact) - 1] = '\0';
    const char *line = strrchr(exact, '\n');
    return strdup(line ? line + 1 : exact);
}

/* The finished model's evaluation equals that at the start of the step that would have been next.
 */
static void test_the_finished_model_is_evaluated(void **state)
{
    (void)state;
    AUTO_FREE char *shorter = last_line(7);
    AUTO_FREE char *longer = last_line(8);
    char final[32], next[32];

    assert_int_equal(sscanf(shorter, "7 %*s %*s %*s %*s %31s", final), 1);
    assert_int_equal(sscanf(longer, "8 %*s %*s %*s %31s", next), 1);
    assert_string_equal(final, next);
    assert_string_not_equal(final, "-");
}

static void test_every_layout_gives_the_same_bits(void **state)
{
    static const unsigned layouts[][LAYOUT_NUMBERS] = {{1, 2}, {1, 3}, {1, 6}, {2, 1}, {2, 2},
                                                       {2, 3}, {3, 1}, {3, 2}, {6, 1}, {1, 5},
                                                       {5, 1}, {1, 4}, {4, 1}};

    (void)state;
    expect_same_bits(CREW_GPT2, layouts, ARRAY_COUNT(layouts));
}

/* Also with split backwards, layers that freeze, and a part that ends where a lane does. */
static void test_so_do_replicas_that_share_lanes(void **state)
{
    static const unsigned layouts[][LAYOUT_NUMBERS] = {
        {1, 4, 1}, {1, 5, 1}, {2, 4, 1, 1}, {3, 4, 1, 2}, {2, 5, 1}, {1, 5},
    };
    struct job_spec spec = small_job(CREW_GPT2);

    (void)state;
    spec.train.micro_batches_per_lane = 7;
    free(expect_same(&spec, layouts, ARRAY_COUNT(layouts)));
}

static void test_so_does_llama(void **state)
{
    static const unsigned layouts[][LAYOUT_NUMBERS] = {{2, 2}, {3, 1}};

    (void)state;
    expect_same_bits(LLAMA, layouts, ARRAY_COUNT(layouts));
}

static void test_so_do_its_relatives(void **state)
{
    static const unsigned layouts[][LAYOUT_NUMBERS] = {{2, 3}};

    (void)state;
    expect_same_bits(QWEN2, layouts, ARRAY_COUNT(layouts));
    expect_same_bits(QWEN3, layouts, ARRAY_COUNT(layouts));
}

/* A job begins from another job's result, in a folder that Hugging Face's tools read. */
static void test_so_does_a_job_from_a_folder(void **state)
{
    static const unsigned layouts[][LAYOUT_NUMBERS] = {{2, 2}};
    struct job_spec spec = small_job(LLAMA);
    struct crew crew;
    char family[2048], folder[512], checkpoint[1024];

    (void)state;
    train(&crew, &spec, alone);
    snprintf(folder, sizeof(folder), "%s/checkpoints", crew.dir);
    checkpoint_path(folder, STEPS, checkpoint);
    /* freezing has untied the table */
    snprintf(family, sizeof(family), LLAMA ",\"tied\":false,\"from\":\"%s\"", checkpoint);
    expect_same_bits(family, layouts, ARRAY_COUNT(layouts));
    crew_done(&crew);
}

/* Expect the same bits on several layouts, with layers that freeze and thaw at least so often. */
static void expect_turns(const struct job_spec *spec, unsigned least_frozen, unsigned least_thawed)
{
    static const unsigned layouts[][LAYOUT_NUMBERS] = {{1, 3}, {2, 1}, {2, 3}, {3, 2}, {6, 1}};
    AUTO_FREE char *exact = expect_same(spec, layouts, ARRAY_COUNT(layouts));
    unsigned frozen, thawed;

    crew_count_turns(exact, &frozen, &thawed);
    if (frozen < least_frozen || thawed < least_thawed)
        fail_msg("%u times frozen and %u times thawed:\n%s", frozen, thawed, exact);
}

/* Any loss that is not the best one thaws: here the learning rate is too high for it to fall. */
static void freeze_and_thaw(const char *family)
{
    struct job_spec spec = small_job(family);

    spec.elastic.freeze.policy = JOB_FREEZE_SCHEDULE;
    spec.elastic.freeze.every = 1;
    spec.elastic.freeze.thaw = 1e-9;
    spec.evaluate.every = 1;
    spec.train.optimizer.lr = 0.05;
    expect_turns(&spec, 2, 1);
}

static void test_so_do_layers_that_thaw(void **state)
{
    (void)state;
    freeze_and_thaw(CREW_GPT2);
    freeze_and_thaw(LLAMA ",\"tied\":false");
}

/* With the largest tolerance a layer freezes as soon as it can: at its third measurement. */
static void freeze_by_plasticity(const char *family)
{
    struct job_spec spec = small_job(family);

    spec.elastic.freeze.policy = JOB_FREEZE_PLASTICITY;
    spec.elastic.freeze.every = 1;
    spec.elastic.freeze.tolerance = 1;
    spec.elastic.freeze.patience = 1;
    spec.evaluate.every = 1;
    expect_turns(&spec, 2, 0);
}

static void test_so_do_layers_that_freeze_by_plasticity(void **state)
{
    (void)state;
    freeze_by_plasticity(CREW_GPT2);
    freeze_by_plasticity(LLAMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_finished_model_is_evaluated),
        cmocka_unit_test(test_every_layout_gives_the_same_bits),
        cmocka_unit_test(test_so_do_replicas_that_share_lanes),
        cmocka_unit_test(test_so_does_llama),
        cmocka_unit_test(test_so_do_its_relatives),
        cmocka_unit_test(test_so_does_a_job_from_a_folder),
        cmocka_unit_test(test_so_do_layers_that_thaw),
        cmocka_unit_test(test_so_do_layers_that_freeze_by_plasticity)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
