/* Tests of the metrics file at the begin of a generation: the lines that are still valid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/worker/tiny_state.h"

#include "lib/worker/plan_of_one.h"
#include "worker/session/metrics_writer.h"
#include "worker/session/trainer.h"

#define STEPS 9

static struct worker_options options = {.node = "n0"};
static struct tiny_state tiny;
static struct trainer trainer;

static int begin(void **context)
{
    struct snapshot_options snapshots = {.folder = options.job_dir, .node = options.node};
    struct error error = {0};

    (void)context;
    snprintf(options.job_dir, sizeof(options.job_dir), "/tmp/firn-metrics-XXXXXX");
    assert_non_null(mkdtemp(options.job_dir));
    tiny_state_init(&tiny, true);
    trainer = (struct trainer){.options = &options, .spec = tiny.spec, .state = tiny.state};
    assert_int_equal(snapshot_new(tiny.state, &snapshots, &trainer.checkpoints.snapshot, &error),
                     0);
    trainer.plan = plan_of_one(tiny.state->unit_count, 1);
    trainer.plan->start.source = PLAN_SOURCE_FRESH;
    return 0;
}

static int end(void **context)
{
    char path[sizeof(options.job_dir) + 32];

    (void)context;
    metrics_close(trainer.metrics.file);
    plan_free(trainer.plan);
    snapshot_free(trainer.checkpoints.snapshot);
    tiny_state_done(&tiny);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", options.job_dir);
    unlink(path);
    rmdir(options.job_dir);
    return 0;
}

/* Return the last step that the node's next writer, perhaps another process, finds. */
static uint64_t last_step_when_opened(void)
{
    struct error error = {0};

    assert_int_equal(metrics_writer_open(&trainer, 0, &error), 0);
    return metrics_last_step(trainer.metrics.file);
}

static void test_what_replicas_made_that_differed_is_forgotten(void **context)
{
    struct metrics_line line = {.job = "tiny", .loss = 1, .generation = 6};
    struct error error = {0};

    (void)context;
    assert_int_equal(last_step_when_opened(), 0);
    for (line.step = 1; line.step <= STEPS; line.step++)
        assert_int_equal(metrics_append(trainer.metrics.file, &line, &error), 0);
    trainer.plan->start.resume_step = 4; /* back, but for another reason: lines are compared */
    assert_int_equal(last_step_when_opened(), STEPS);
    trainer.plan->start.disputed = true;
    assert_int_equal(last_step_when_opened(), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_replicas_made_that_differed_is_forgotten, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
