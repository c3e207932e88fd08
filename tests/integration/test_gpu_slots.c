/*
 * Whole jobs on GPU slots: the same bits on every layout, through a death and out of a checkpoint,
 * and the losses of CPU slots up to rounding.
 *
 * The GPU is the emulator's (tests/emulator). A worker can reach its memory only through the kernel
 * table: a worker that used a device pointer as its own would die of a fault. With
 * FIRN_CUDA_LIBRARY set and CREW_DEVICE=cuda:0 the same tests run on a real GPU.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "emulator/emulator.h"
#include "integration/worker_crew.h"

#define STEPS          8
#define CHECKPOINT     2
#define WAIT_SECONDS   100
#define F32_TOLERANCE  1e-4
#define BF16_TOLERANCE 3e-2

static struct job_spec small_job(enum job_precision precision, unsigned width)
{
    static const char text[] =
        "{\"name\":\"gpu\",\"model\":{\"family\":\"gpt2\",\"layers\":2,\"width\":16,\"heads\":2,"
        "\"context\":8,\"vocab\":256,\"tied\":true},\"data\":{\"format\":\"bytes\",\"path\":\"" CREW_TEXT
        "\",\"validation\":0.1},\"train\":{\"steps\":8,\"lanes\":4,\"micro_batch\":1,"
        "\"micro_batches_per_lane\":2,\"seed\":7,\"optimizer\":{\"lr\":0.01,\"warmup\":2}},"
        "\"elastic\":{\"freeze\":{\"policy\":\"schedule\",\"alpha\":0.5,\"every\":6}},"
        "\"checkpoint\":{\"every\":2,\"keep\":9},\"evaluate\":{\"every\":8,\"batches\":2}}";
    struct job_spec spec;
    struct error error = {0};
    json_t *tree = json_loads(text, 0, NULL);

    assert_non_null(tree);
    json_object_set_new(json_object_get(tree, "model"), "width", json_integer((json_int_t)width));
    if (crew_is_large())
        json_object_set_new(json_object_get(tree, "model"), "context", json_integer(64));
    if (job_spec_decode(tree, "test", NULL, NULL, &spec, &error))
        fail_msg("%s", error.text);
    json_decref(tree);
    spec.train.precision = precision;
    return spec;
}

static const char *gpu(void)
{
    return getenv("CREW_DEVICE") ? getenv("CREW_DEVICE") : "cuda";
}

static void start(struct crew *crew, enum job_precision precision, const char *device,
                  unsigned workers)
{
    struct job_spec spec = small_job(precision, crew_is_large() ? 128 : 16);

    crew_init(crew, &spec);
    crew->device = device;
    for (unsigned slot = 0; slot < workers; slot++)
        crew_spawn(crew, slot);
}

/* Return the run's metrics, malloc'ed, and the digest of its last state. */
static char *finish(struct crew *crew, char ret_digest[33])
{
    crew_pump(crew, crew_finished, NULL, WAIT_SECONDS);
    char *exact = crew_exact(crew, 0);
    crew_digest(crew, STEPS, ret_digest);
    return exact;
}

static char *run_layout(enum job_precision precision, const char *device, unsigned stages,
                        unsigned replicas, enum plan_recompute recompute, char ret_digest[33])
{
    struct crew crew;

    start(&crew, precision, device, stages * replicas);
    struct plan *plan = crew_plan(&crew, stages, replicas);
    plan->layout.recompute = recompute;
    crew_send(&crew, plan, CONTROL_SWITCH);
    char *exact = finish(&crew, ret_digest);
    plan_free(plan);
    crew_done(&crew);
    return exact;
}

/* The loss of line @index of crew_exact(), "step loss norm frozen" */
static double loss_of(const char *exact, unsigned index)
{
    char bits[32];
    double loss;

    while (index-- > 0)
        exact = strchr(exact, '\n') + 1;
    assert_int_equal(sscanf(exact, "%*s %31s", bits), 1);
    assert_true(bits64_parse(bits, &loss));
    return loss;
}

static void compare_with_cpu(const char *exact, double tolerance)
{
    char digest[33];
    AUTO_FREE char *oracle =
        run_layout(JOB_PRECISION_F32, "cpu", 1, 1, PLAN_RECOMPUTE_NONE, digest);

    for (unsigned i = 0; i < STEPS; i++)
        if (!(fabs(loss_of(exact, i) - loss_of(oracle, i)) <= tolerance * loss_of(oracle, i)))
            fail_msg("step %u: loss %.7g, on CPU slots %.7g", i + 1, loss_of(exact, i),
                     loss_of(oracle, i));
}

static void checkpoint_of(const struct crew *crew, char ret_path[1024])
{
    char folder[512];

    snprintf(folder, sizeof(folder), "%s/checkpoints", crew->dir);
    checkpoint_path(folder, CHECKPOINT, ret_path);
}

static bool checkpoint_is_there(const struct crew *crew, void *context)
{
    char path[1024];

    (void)context;
    checkpoint_of(crew, path);
    return access(path, F_OK) == 0;
}

static bool one_is_gone_and_the_other_knows(const struct crew *crew, void *context)
{
    (void)context;
    return crew->workers[1].exited && crew->workers[0].status.phase == WORKER_STUCK;
}

/* One worker of two dies; two workers, one of them new, continue from the complete checkpoint. */
static char *run_with_death(enum job_precision precision, unsigned stages, unsigned replicas,
                            char ret_digest[33])
{
    struct crew crew;

    start(&crew, precision, gpu(), 2);
    struct plan *plan = crew_plan(&crew, stages, replicas);
    crew_send(&crew, plan, CONTROL_SWITCH);
    plan_free(plan);
    crew_pump(&crew, checkpoint_is_there, NULL, WAIT_SECONDS);
    crew_kill(&crew, 1, SIGKILL);
    crew_pump(&crew, one_is_gone_and_the_other_knows, NULL, WAIT_SECONDS);
    crew_spawn(&crew, 1);
    plan = crew_plan(&crew, replicas, stages); /* another layout, too */
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    plan->start.resume_step = CHECKPOINT;
    checkpoint_of(&crew, plan->start.restore_path);
    crew_send(&crew, plan, CONTROL_SWITCH);
    plan_free(plan);
    char *exact = finish(&crew, ret_digest);
    crew_done(&crew);
    return exact;
}

static void test_f32_on_every_layout(void **state)
{
    static const struct {
        unsigned stages, replicas;
        enum plan_recompute recompute;
    } layouts[] = {
        {2, 1, PLAN_RECOMPUTE_NONE}, {1, 2, PLAN_RECOMPUTE_ATTENTION}, {2, 2, PLAN_RECOMPUTE_FULL}};
    char digest[33], other_digest[33];
    AUTO_FREE char *alone = run_layout(JOB_PRECISION_F32, gpu(), 1, 1, PLAN_RECOMPUTE_NONE, digest);

    (void)state;
    compare_with_cpu(alone, F32_TOLERANCE);
    for (size_t i = 0; i < ARRAY_COUNT(layouts); i++) {
        AUTO_FREE char *other = run_layout(JOB_PRECISION_F32, gpu(), layouts[i].stages,
                                           layouts[i].replicas, layouts[i].recompute, other_digest);
        crew_expect_same(alone, other, digest, other_digest);
    }
}

static void test_bf16_through_a_death(void **state)
{
    char digest[33], other_digest[33];
    AUTO_FREE char *alone =
        run_layout(JOB_PRECISION_BF16, gpu(), 1, 1, PLAN_RECOMPUTE_NONE, digest);
    AUTO_FREE char *revived = run_with_death(JOB_PRECISION_BF16, 2, 1, other_digest);

    (void)state;
    compare_with_cpu(alone, BF16_TOLERANCE);
    crew_expect_same(alone, revived, digest, other_digest);
}

/* A step has 8 of 36 samples: more than an epoch is kept before the last steps. */
#define EPOCHS_STEPS  24
#define EPOCH_SAMPLES 36

static void write_data(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    for (unsigned i = 0; i < EPOCH_SAMPLES * 8 + 1; i++)
        fputc((int)('a' + i * i % 23), file);
    fclose(file);
}

/* One layer of two is frozen from the start. @ret_loaded: lines of metrics that report loads */
static char *run_epochs(uint64_t cache_mb, unsigned replicas, const char *data, char ret_digest[33],
                        unsigned *ret_loaded)
{
    struct job_spec spec = small_job(JOB_PRECISION_BF16, 16);
    struct crew crew;

    spec.elastic.freeze.policy = JOB_FREEZE_NONE;
    spec.elastic.freeze.from_start = 1;
    spec.elastic.freeze.cache_mb = cache_mb;
    spec.train.steps = EPOCHS_STEPS;
    spec.train.micro_batch = 2;
    spec.train.micro_batches_per_lane = 1;
    spec.evaluate.every = 6;
    spec.model.context = 8;
    spec.data.validation_share = 0.12;
    snprintf(spec.data.path.paths[0], sizeof(spec.data.path.paths[0]), "%s", data);
    crew_init(&crew, &spec);
    crew.device = gpu();
    for (unsigned slot = 0; slot < replicas; slot++)
        crew_spawn(&crew, slot);
    struct plan *plan = crew_plan(&crew, 1, replicas);
    crew_send(&crew, plan, CONTROL_SWITCH);
    crew_pump(&crew, crew_finished, NULL, WAIT_SECONDS);
    char *exact = crew_exact(&crew, 0);
    crew_digest(&crew, EPOCHS_STEPS, ret_digest);
    *ret_loaded = crew_count_lines(&crew, 0, "frozen_loaded");
    plan_free(plan);
    crew_done(&crew);
    return exact;
}

/* Later epochs load the outputs of frozen layers from host memory. */
static void test_kept_outputs_change_no_bit(void **state)
{
    char digest[33], other_digest[33], data[] = "/tmp/firn-gpu-data-XXXXXX";
    unsigned loaded;
    int descriptor = mkstemp(data);

    (void)state;
    assert_true(descriptor >= 0);
    close(descriptor);
    write_data(data);
    AUTO_FREE char *without = run_epochs(0, 1, data, digest, &loaded);
    assert_int_equal(loaded, 0);
    for (unsigned replicas = 1; replicas <= 2; replicas++) {
        AUTO_FREE char *with = run_epochs(64, replicas, data, other_digest, &loaded);
        crew_expect_same(without, with, digest, other_digest);
        assert_true(loaded > (replicas == 1 ? EPOCHS_STEPS / 2 : 0));
    }
    unlink(data);
}

/* Any loss that is not the best one thaws. */
static char *run_thawing(const char *device, unsigned stages, unsigned replicas,
                         char ret_digest[33])
{
    struct job_spec spec = small_job(JOB_PRECISION_BF16, 16);
    struct crew crew;

    spec.model.tied = false;
    spec.elastic.freeze.every = 1;
    spec.elastic.freeze.thaw = 1e-9;
    spec.evaluate.every = 1;
    spec.train.optimizer.lr = 0.1;
    crew_init(&crew, &spec);
    crew.device = device;
    for (unsigned slot = 0; slot < stages * replicas; slot++)
        crew_spawn(&crew, slot);
    struct plan *plan = crew_plan(&crew, stages, replicas);
    crew_send(&crew, plan, CONTROL_SWITCH);
    char *exact = finish(&crew, ret_digest);
    plan_free(plan);
    crew_done(&crew);
    return exact;
}

static void test_layers_that_thaw(void **state)
{
    char digest[33], other_digest[33];
    unsigned frozen, thawed;
    AUTO_FREE char *alone = run_thawing(gpu(), 1, 1, digest);

    (void)state;
    for (unsigned stages = 1; stages <= 2; stages++) {
        AUTO_FREE char *other = run_thawing(gpu(), stages, 2, other_digest);
        crew_expect_same(alone, other, digest, other_digest);
    }
    crew_count_turns(alone, &frozen, &thawed);
    if (!thawed)
        fail_msg("nothing thaws:\n%s", alone);
}

static bool first_refuses(const struct crew *crew, void *context)
{
    (void)context;
    return crew->workers[0].status.phase == WORKER_REFUSED && crew->workers[0].exited;
}

static void test_what_does_not_fit_is_refused_with_the_numbers(void **state)
{
    struct job_spec spec = small_job(JOB_PRECISION_BF16, 256);
    struct crew crew;

    (void)state;
    if (getenv("CREW_DEVICE")) /* a real GPU has more */
        skip();
    crew_init(&crew, &spec);
    crew.device = gpu();
    assert_int_equal(setenv("EMULATOR_MEMORY_MIB", "100", 1), 0); /* the emulator takes 96 itself */
    crew_spawn(&crew, 0);
    assert_int_equal(unsetenv("EMULATOR_MEMORY_MIB"), 0);
    struct plan *plan = crew_plan(&crew, 1, 1);
    crew_send(&crew, plan, CONTROL_SWITCH);
    crew_pump(&crew, first_refuses, NULL, WAIT_SECONDS);
    print_message("  %s\n", crew.workers[0].status.text);
    assert_non_null(strstr(crew.workers[0].status.text, "of 100 MiB"));
    plan_free(plan);
    crew_done(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_on_every_layout),
        cmocka_unit_test(test_bf16_through_a_death),
        cmocka_unit_test(test_layers_that_thaw),
        cmocka_unit_test(test_kept_outputs_change_no_bit),
        cmocka_unit_test(test_what_does_not_fit_is_refused_with_the_numbers),
    };

    if (EMULATOR_JUMPS_ARE_SLOW && !getenv("CREW_DEVICE")) {
        printf("skipped: under the address sanitizer the emulator takes minutes\n");
        return 0;
    }
    if (setenv("FIRN_CUDA_LIBRARY", EMULATED_BACKEND, 0))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
