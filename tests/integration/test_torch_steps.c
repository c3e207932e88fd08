/*
 * Compare twenty training steps of a GPT-2 with PyTorch's, from the same parameters on the same
 * samples: losses, gradient norms and final parameters, on CPU slots, on the emulator's GPU and,
 * with CREW_DEVICE=cuda:0, on a real GPU in each precision. With CREW_LARGE the model is GPT-2 124M
 * with 1,024 positions, for a GPU only.
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
#include <spawn.h>
#include <sys/wait.h>

#include "base/compiler.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/export.h"
#include "checkpoint/read/reader.h"
#include "integration/worker_crew.h"

#define STEPS        20
#define LANES        2
#define MICRO_BATCH  2
#define WAIT_SECONDS 240
#define EXIT_SKIPPED 77

static char folder[64]; /* of the model and the tokens */
static bool skipped;

struct shape {
    unsigned layers, width, heads, context, vocab;
};

static struct shape shape(void)
{
    return crew_is_large() ? (struct shape){12, 768, 12, 1024, 50257}
                           : (struct shape){3, 48, 3, 24, 301};
}

/* Return: the exit status of torch_steps.py */
static int run_python(char *const words[])
{
    const char *python = getenv("FIRN_PYTHON");
    char script[] = FIRN_SOURCE "/tests/integration/torch_steps.py";
    char *arguments[16] = {(char *)(uintptr_t)(python ? python : "python3"), script};
    pid_t child;
    int status;

    for (size_t i = 0; words[i]; i++)
        arguments[2 + i] = words[i];
    if (posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ))
        return EXIT_SKIPPED;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int make_model(void **state)
{
    const struct shape sizes = shape();
    const unsigned numbers[] = {sizes.layers,  sizes.width, sizes.heads,
                                sizes.context, sizes.vocab, LANES * MICRO_BATCH};
    char texts[ARRAY_COUNT(numbers)][16], make[] = "make";
    char *words[3 + ARRAY_COUNT(numbers)] = {make, folder};

    (void)state;
    strcpy(folder, "/tmp/firn-torch-XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        snprintf(texts[i], sizeof(texts[i]), "%u", numbers[i]);
        words[2 + i] = texts[i];
    }
    int status = run_python(words);
    skipped = status == EXIT_SKIPPED;
    assert_true(skipped || status == 0);
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static int remove_model(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A step sees the whole data. */
static struct job_spec make_job(const char *precision)
{
    const struct shape sizes = shape();
    char text[2048];
    struct job_spec spec;
    struct error error = {0};

    snprintf(text, sizeof(text),
             "{\"name\":\"beside\",\"model\":{\"from\":\"%s/model\",\"family\":\"gpt2\","
             "\"layers\":%u,\"width\":%u,\"heads\":%u,\"context\":%u,\"vocab\":%u},"
             "\"data\":{\"format\":\"uint16\",\"path\":\"%s/tokens.bin\"},"
             "\"train\":{\"steps\":%d,\"lanes\":%d,\"micro_batch\":%d,\"precision\":\"%s\","
             "\"optimizer\":{\"lr\":0.001,\"warmup\":5,\"weight_decay\":0.1,\"betas\":[0.9,0.95],"
             "\"eps\":1e-8,\"clip\":1.0}}}",
             folder, sizes.layers, sizes.width, sizes.heads, sizes.context, sizes.vocab, folder,
             STEPS, LANES, MICRO_BATCH, precision);
    AUTO_JSON json_t *tree = json_loads(text, 0, NULL);
    assert_non_null(tree);
    if (job_spec_decode(tree, "test", NULL, NULL, &spec, &error))
        fail_msg("%s", error.text);
    return spec;
}

static void export_last(const struct crew *crew, const char *to)
{
    char checkpoints[512], from[1024];
    struct error error = {0};

    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", crew->dir);
    checkpoint_path(checkpoints, STEPS, from);
    const struct checkpoint_export export = {.from = from, .to = to, .dtype = SAFETENSORS_F32};
    if (checkpoint_export(&export, &error))
        fail_msg("%s", error.text);
}

static void compare(const char *device, const char *precision)
{
    if (skipped)
        skip();
    struct job_spec spec = make_job(precision);
    struct crew crew;
    char metrics[512], after[512], compare_word[] = "compare", precision_word[8];

    crew_init(&crew, &spec);
    crew.device = device;
    crew_spawn(&crew, 0);
    crew_spawn(&crew, 1);
    struct plan *plan = crew_plan(&crew, 2, 1);
    crew_send(&crew, plan, CONTROL_SWITCH);
    crew_pump(&crew, crew_finished, NULL, WAIT_SECONDS);
    plan_free(plan);
    snprintf(metrics, sizeof(metrics), "%s/n0/metrics.jsonl", crew.dir);
    snprintf(after, sizeof(after), "%s/after", crew.dir);
    snprintf(precision_word, sizeof(precision_word), "%s", precision);
    export_last(&crew, after);
    int status = run_python((char *[]){compare_word, folder, precision_word, metrics, after, NULL});
    crew_done(&crew);
    assert_int_equal(status, 0);
}

/* Return the GPU; NULL: a test of another device */
static const char *gpu(void)
{
    const char *device = getenv("CREW_DEVICE");

    if (!device)
        return setenv("FIRN_CUDA_LIBRARY", EMULATED_BACKEND, 1) ? NULL : "cuda";
    return !strncmp(device, "cuda", 4) ? device : NULL;
}

static void on_gpu(const char *precision)
{
    const char *device = gpu();

    if (!device)
        skip();
    compare(device, precision);
}

static void test_cpu(void **state)
{
    (void)state;
    if (getenv("CREW_DEVICE") && strcmp(getenv("CREW_DEVICE"), "cpu") != 0)
        skip();
    compare("cpu", "f32");
}

static void test_gpu_f32(void **state)
{
    (void)state;
    on_gpu("f32");
}

static void test_gpu_tf32(void **state)
{
    (void)state;
    on_gpu("tf32");
}

static void test_gpu_bf16(void **state)
{
    (void)state;
    on_gpu("bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cpu), cmocka_unit_test(test_gpu_f32),
                                       cmocka_unit_test(test_gpu_tf32),
                                       cmocka_unit_test(test_gpu_bf16)};

    return cmocka_run_group_tests(tests, make_model, remove_model);
}
