/*
 * Folders that Hugging Face's transformers wrote, in bf16, one of them in several files. A job file
 * with only the folder and a context takes the sizes from the folder, and the units from the folder
 * give the logits of transformers.
 *
 * Needs python3, or the program that FIRN_PYTHON names, with torch and transformers; skipped
 * elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <math.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/file.h"
#include "ctl/job/job_file.h"
#include "model/net/stage.h"
#include "worker/state/pretrained.h"

#define VOCAB        256
#define CONTEXT      16
#define TOLERANCE    1e-4
#define EXIT_SKIPPED 77

static char folder[64];
static bool skipped;

static int make_folders(void **state)
{
    const char *python = getenv("FIRN_PYTHON");
    char script[] = FIRN_SOURCE "/tests/integration/make_pretrained.py";
    char *const arguments[] = {(char *)(uintptr_t)(python ? python : "python3"), script, folder,
                               NULL};
    pid_t child;
    int status;

    (void)state;
    strcpy(folder, "/tmp/firn-transformers-XXXXXX");
    assert_non_null(mkdtemp(folder));
    skipped = true;
    if (posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ))
        return 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    skipped = WEXITSTATUS(status) == EXIT_SKIPPED;
    assert_true(skipped || WEXITSTATUS(status) == 0);
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static int remove_folders(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void read_file(const char *name, void *to, size_t size)
{
    char path[256];
    struct bytes content = {0};
    struct error error = {0};

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (file_read(path, size, &content, &error))
        fail_msg("%s", error.text);
    assert_int_equal(content.size_bytes, size);
    memcpy(to, content.data, size);
    bytes_done(&content);
}

static void load_job(const char *family, struct job_spec *ret_spec)
{
    char path[256], text[256];
    struct error error = {0};

    snprintf(path, sizeof(path), "%s/job.yaml", folder);
    snprintf(text, sizeof(text),
             "name: x\nmodel: {from: %s, context: %d}\ndata: {path: d}\ntrain: {steps: 1}\n",
             family, CONTEXT);
    assert_int_equal(file_replace(path, text, strlen(text), 0600, &error), 0);
    if (job_file_load(path, NULL, ret_spec, &error))
        fail_msg("%s", error.text);
}

static void compute_logits(struct state *state, struct stage *stage, float *ret_logits)
{
    int32_t tokens[CONTEXT];
    void *weights[64];

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        weights[unit] = state->units[unit].weights;
    read_file("tokens", tokens, sizeof(tokens));
    stage_forward(stage, 0, weights, tokens, NULL, false, 0.0f);
    stage_logits(stage, 0, ret_logits);
}

static void compare(const char *family)
{
    static float ours[CONTEXT * VOCAB], theirs[CONTEXT * VOCAB];
    static struct job_spec spec;
    const struct kernel *kernel = kernel_cpu();
    struct kernel_device *device;
    struct state *state;
    struct stage *stage;
    struct error error = {0};
    char name[64];
    double highest = 1.0, difference = 0.0;

    load_job(family, &spec);
    assert_int_equal(kernel->open(&(struct kernel_options){.thread_count = 1}, &device, &error), 0);
    assert_int_equal(state_new(&spec, kernel, device, &state, &error), 0);
    if (pretrained_units(state, 0, state->unit_count, &error))
        fail_msg("%s", error.text);
    const struct stage_options whole = {.kernel = kernel,
                                        .device = device,
                                        .spec = &state->model,
                                        .unit_count = state->unit_count,
                                        .batch = 1,
                                        .slots = 1};
    assert_int_equal(stage_new(&whole, &stage, &error), 0);
    compute_logits(state, stage, ours);
    snprintf(name, sizeof(name), "%s.logits", family);
    read_file(name, theirs, sizeof(theirs));
    for (size_t i = 0; i < ARRAY_COUNT(ours); i++) {
        highest = fmax(highest, fabs((double)theirs[i]));
        difference = fmax(difference, fabs((double)ours[i] - (double)theirs[i]));
    }
    print_message("%s: logits differ by %.2e of at most %.2f\n", family, difference, highest);
    assert_true(difference <= TOLERANCE * highest);
    stage_free(stage);
    state_free(state);
    kernel->close(device);
}

static void test_gpt2(void **state)
{
    (void)state;
    if (skipped)
        skip();
    compare("gpt2");
}

static void test_llama(void **state)
{
    (void)state;
    if (skipped)
        skip();
    compare("llama");
}

static void test_llama3(void **state)
{
    (void)state;
    if (skipped)
        skip();
    compare("llama3");
}

static void test_mistral(void **state)
{
    (void)state;
    if (skipped)
        skip();
    compare("mistral");
}

static void test_qwen2(void **state)
{
    (void)state;
    if (skipped)
        skip();
    compare("qwen2");
}

static void test_qwen3(void **state)
{
    (void)state;
    if (skipped)
        skip();
    compare("qwen3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),    cmocka_unit_test(test_llama), cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_mistral), cmocka_unit_test(test_qwen2), cmocka_unit_test(test_qwen3)};

    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
