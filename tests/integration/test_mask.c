/*
 * Training with a mask that marks the tokens that count: the mean is over the counted tokens of the
 * whole step, with the same bits on every layout and across a death, even if no token counts in
 * whole lanes and whole steps.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/bits.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "integration/worker_crew.h"

#define STEPS        300
#define STEPS_FEW    6
#define CHECKPOINT   50
#define SAMPLES      480
#define HELD_OUT     432 /* samples from here on: the last tenth */
#define CONTEXT_MAX  64
#define WAIT_SECONDS 120

static char folder[64], text_path[96], mask_path[96];

static void write_file(const char *path, const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Token @at of sample @sample, and whether it counts. */
typedef void token_function(size_t sample, size_t at, uint8_t *ret_token, uint8_t *ret_counts);

/* In every thirtieth sample, and in the held-out samples, every other token counts: a step of
 * twelve samples mostly has no counted token. */
static void rarely(size_t sample, size_t at, uint8_t *ret_token, uint8_t *ret_counts)
{
    *ret_token = (uint8_t)('a' + (at * 7 + sample * sample) % 26);
    *ret_counts = (sample % 30 == 0 || sample >= HELD_OUT) && at % 2 == 1;
}

/* All samples are equal. */
static void always(size_t sample, size_t at, uint8_t *ret_token, uint8_t *ret_counts)
{
    (void)sample;
    *ret_token = (uint8_t)('a' + at * at % 26);
    *ret_counts = 1;
}

static void two_of_three(size_t sample, size_t at, uint8_t *ret_token, uint8_t *ret_counts)
{
    always(sample, at, ret_token, ret_counts);
    *ret_counts = sample % 3 != 1;
}

/* A sample's loss begins with its second token. */
static void write_data(unsigned context, token_function *function)
{
    static uint8_t text[SAMPLES * CONTEXT_MAX + 1], mask[SAMPLES * CONTEXT_MAX + 1];
    size_t count = (size_t)SAMPLES * context;

    for (size_t i = 0; i < count; i++)
        function(i / context, i % context, &text[i + 1], &mask[i + 1]);
    text[0] = text[count];
    write_file(text_path, text, count + 1);
    write_file(mask_path, mask, count + 1);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/firn-mask-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(text_path, sizeof(text_path), "%s/chats.txt", folder);
    snprintf(mask_path, sizeof(mask_path), "%s/chats.mask", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(text_path);
    unlink(mask_path);
    return rmdir(folder);
}

static struct job_spec masked_job(unsigned steps, token_function *function)
{
    struct job_spec spec = crew_job("mask", CREW_GPT2, steps, 6, 1);

    write_data(spec.model.context, function);
    spec.data.path.count = spec.data.mask.count = 1;
    strcpy(spec.data.path.paths[0], text_path);
    strcpy(spec.data.mask.paths[0], mask_path);
    spec.elastic.freeze.every = 100;
    spec.evaluate.every = 100;
    spec.checkpoint.every = CHECKPOINT;
    return spec;
}

static void start(struct crew *crew, const struct job_spec *spec, unsigned stages,
                  unsigned replicas)
{
    crew_init(crew, spec);
    for (unsigned slot = 0; slot < stages * replicas; slot++)
        crew_spawn(crew, slot);
    struct plan *plan = crew_plan(crew, stages, replicas);
    crew_send(crew, plan, CONTROL_SWITCH);
    plan_free(plan);
}

static char *finish(struct crew *crew, char ret_digest[33])
{
    crew_pump(crew, crew_finished, NULL, WAIT_SECONDS);
    char *exact = crew_exact(crew, 0);
    crew_digest(crew, crew->spec.train.steps, ret_digest);
    crew_done(crew);
    return exact;
}

static char *run_layout(const struct job_spec *spec, unsigned stages, unsigned replicas,
                        char ret_digest[33])
{
    struct crew crew;

    start(&crew, spec, stages, replicas);
    return finish(&crew, ret_digest);
}

/* ---- a death ---- */

static bool checkpoint_is_there(const struct crew *crew, void *context)
{
    char checkpoints[512];

    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", crew->dir);
    checkpoint_path(checkpoints, CHECKPOINT, context);
    return access(context, F_OK) == 0;
}

static bool one_is_gone_and_the_other_knows(const struct crew *crew, void *context)
{
    (void)context;
    return crew->workers[1].exited && crew->workers[0].status.phase == WORKER_STUCK;
}

/* Train the survivor's steps since the checkpoint again, and compare them with its metrics. */
static char *run_with_death(const struct job_spec *spec, char ret_digest[33])
{
    char path[1024];
    struct crew crew;

    start(&crew, spec, 1, 2);
    crew_pump(&crew, checkpoint_is_there, path, WAIT_SECONDS);
    crew_kill(&crew, 1, SIGKILL);
    crew_pump(&crew, one_is_gone_and_the_other_knows, NULL, WAIT_SECONDS);
    crew_spawn(&crew, 1);
    struct plan *plan = crew_plan(&crew, 2, 1); /* another layout, too */
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    plan->start.resume_step = CHECKPOINT;
    strcpy(plan->start.restore_path, path);
    crew_send(&crew, plan, CONTROL_SWITCH);
    plan_free(plan);
    return finish(&crew, ret_digest);
}

/* ---- the tests ---- */

/* Count the steps with a loss and a norm of exactly 0. */
static unsigned count_empty_steps(const char *exact)
{
    static const char empty[] = " 0000000000000000 0000000000000000 ";
    unsigned count = 0;

    for (const char *at = exact; (at = strstr(at, empty)); at++)
        count++;
    return count;
}

static void expect_equal(const char *alone, const char *digest, char *other,
                         const char *other_digest)
{
    assert_string_equal(alone, other);
    assert_string_equal(digest, other_digest);
    free(other);
}

static void test_the_same_bits_however_it_runs(void **state)
{
    static const unsigned layouts[][2] = {{1, 3}, {2, 2}, {3, 1}};
    const struct job_spec spec = masked_job(STEPS, rarely);
    char digest[33], other_digest[33];
    AUTO_FREE char *alone = run_layout(&spec, 1, 1, digest);

    (void)state;
    unsigned empty = count_empty_steps(alone);
    print_message("%u of %u steps have nothing that counts\n", empty, STEPS);
    assert_true(empty > STEPS / 2 && empty < STEPS * 9 / 10);
    for (size_t i = 0; i < ARRAY_COUNT(layouts); i++) {
        char *other = run_layout(&spec, layouts[i][0], layouts[i][1], other_digest);
        expect_equal(alone, digest, other, other_digest);
    }
    char *revived = run_with_death(&spec, other_digest);
    expect_equal(alone, digest, revived, other_digest);
}

static double value_of(const char *bits)
{
    double value;

    assert_true(bits64_parse(bits, &value));
    return value;
}

/* Compare losses and norms line by line, up to rounding. */
static void expect_close(const char *a, const char *b)
{
    char bits[4][32];

    for (unsigned step = 1; step <= STEPS_FEW; step++) {
        assert_int_equal(sscanf(a, "%*s %31s %31s", bits[0], bits[1]), 2);
        assert_int_equal(sscanf(b, "%*s %31s %31s", bits[2], bits[3]), 2);
        for (unsigned i = 0; i < 2; i++) {
            double here = value_of(bits[i]), there = value_of(bits[i + 2]);
            if (!(fabs(here - there) <= 1e-4 * here))
                fail_msg("step %u: %.9g and %.9g", step, here, there);
        }
        a = strchr(a, '\n') + 1;
        b = strchr(b, '\n') + 1;
    }
}

/*
 * If all samples are equal, the mean does not depend on the number of counted tokens in a step: the
 * loss and the gradient are over the counted tokens, not over all read tokens. A mask of ones
 * equals no mask.
 */
static void test_the_mean_is_over_what_counts(void **state)
{
    struct job_spec spec = masked_job(STEPS_FEW, always);
    char digest[33], other_digest[33];
    AUTO_FREE char *ones = run_layout(&spec, 1, 1, digest);

    (void)state;
    spec.data.mask.count = 0;
    char *plain = run_layout(&spec, 1, 1, other_digest);
    expect_equal(ones, digest, plain, other_digest);
    spec = masked_job(STEPS_FEW, two_of_three);
    AUTO_FREE char *some = run_layout(&spec, 1, 1, other_digest);
    expect_close(ones, some);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_same_bits_however_it_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_mean_is_over_what_counts, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
