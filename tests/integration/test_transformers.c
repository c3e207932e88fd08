/*
 * Hugging Face's transformers read a run's checkpoint: from_pretrained() of the family's model, on
 * the folder itself and on its export, gives firn's logits. This holds with the initial tied table,
 * and with frozen units in their own files and a separate table for the head.
 *
 * Needs python3, or the program that FIRN_PYTHON names, with torch and transformers; skipped
 * elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/export.h"
#include "checkpoint/read/reader.h"
#include "integration/worker_crew.h"
#include "model/net/stage.h"
#include "worker/state/restore.h"

#define STEPS        3
#define VOCAB        256
#define CONTEXT      16
#define EXIT_SKIPPED 77

#define GPT2 "\"family\":\"gpt2\",\"heads\":2"
#define LLAMA                                                                                      \
    "\"family\":\"llama\",\"heads\":4,\"kv_heads\":2,\"rope_theta\":500,\"norm_epsilon\":1e-3"

#define LLAMA3                                                                                     \
    LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_frequency_factor\":0.5,"      \
          "\"original_context\":64}"

#define QWEN2 LLAMA ",\"head_width\":16,\"qkv_bias\":true"

#define QWEN3 LLAMA ",\"head_width\":10,\"qk_norm\":true"

static struct job_spec make_job(const char *family, const char *policy)
{
    char text[2048];
    struct job_spec spec;
    struct error error = {0};

    snprintf(text, sizeof(text),
             "{\"name\":\"parity\",\"model\":{%s,\"layers\":3,\"width\":32,"
             "\"context\":%d,\"vocab\":%d,\"tied\":true},\"data\":{\"format\":\"bytes\","
             "\"path\":\"" CREW_TEXT "\",\"validation\":0.1},\"train\":{\"steps\":%d,\"lanes\":2,"
             "\"micro_batch\":2,\"micro_batches_per_lane\":1,\"seed\":7,\"optimizer\":{\"lr\":0.01,"
             "\"warmup\":1}},\"elastic\":{\"freeze\":{\"policy\":\"%s\",\"every\":1}},"
             "\"checkpoint\":{\"every\":0}}",
             family, CONTEXT, VOCAB, STEPS, policy);
    json_t *tree = json_loads(text, 0, NULL);
    assert_non_null(tree);
    if (job_spec_decode(tree, "test", NULL, NULL, &spec, &error))
        fail_msg("%s", error.text);
    json_decref(tree);
    return spec;
}

static void train(struct crew *crew)
{
    struct plan *plan;

    crew_spawn(crew, 0);
    crew_spawn(crew, 1);
    plan = crew_plan(crew, 2, 1);
    crew_send(crew, plan, CONTROL_SWITCH);
    crew_pump(crew, crew_finished, NULL, 60);
    plan_free(plan);
}

static void write_values(const struct crew *crew, const char *name, const void *data, size_t size)
{
    char path[512];
    struct error error = {0};

    snprintf(path, sizeof(path), "%s/%s", crew->dir, name);
    assert_int_equal(file_replace(path, data, size, 0644, &error), 0);
}

/* Compute one sequence through all units of the checkpoint. */
static void write_logits(const struct crew *crew, const char *checkpoint)
{
    static float logits[CONTEXT * VOCAB];
    int32_t tokens[CONTEXT];
    void *weights[64];
    const struct kernel *kernel = kernel_cpu();
    const struct kernel_options options = {.thread_count = 1};
    struct kernel_device *device;
    struct state *state;
    struct stage *stage;
    struct error error = {0};

    assert_int_equal(kernel->open(&options, &device, &error), 0);
    assert_int_equal(state_new(&crew->spec, kernel, device, &state, &error), 0);
    if (restore_units(state, checkpoint, 0, state->unit_count, &error))
        fail_msg("%s", error.text);
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        weights[unit] = state->units[unit].weights;
    for (int i = 0; i < CONTEXT; i++)
        tokens[i] = (i * 37 + 11) % VOCAB;
    const struct stage_options whole = {.kernel = kernel,
                                        .device = device,
                                        .spec = &state->model,
                                        .unit_count = state->unit_count,
                                        .batch = 1,
                                        .slots = 1};
    assert_int_equal(stage_new(&whole, &stage, &error), 0);
    stage_forward(stage, 0, weights, tokens, NULL, false, 0.0f);
    stage_logits(stage, 0, logits);
    write_values(crew, "tokens", tokens, sizeof(tokens));
    write_values(crew, "logits", logits, sizeof(logits));
    stage_free(stage);
    state_free(state);
    kernel->close(device);
}

static void export_as(const struct crew *crew, const char *checkpoint, const char *name,
                      enum safetensors_dtype dtype)
{
    char to[512];
    struct error error = {0};

    snprintf(to, sizeof(to), "%s/%s", crew->dir, name);
    const struct checkpoint_export export = {.from = checkpoint, .to = to, .dtype = dtype};
    if (checkpoint_export(&export, &error))
        fail_msg("%s", error.text);
}

static int run_transformers(const struct crew *crew, const char *checkpoint)
{
    const char *python = getenv("FIRN_PYTHON");
    char script[] = FIRN_SOURCE "/tests/integration/from_pretrained.py";
    char *const arguments[] = {(char *)(uintptr_t)(python ? python : "python3"), script,
                               (char *)(uintptr_t)crew->dir, (char *)(uintptr_t)checkpoint, NULL};
    pid_t child;
    int status;

    if (posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ))
        return EXIT_SKIPPED;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static unsigned count_frozen(const char *checkpoint)
{
    struct manifest manifest;
    struct error error = {0};
    unsigned count = 0;

    assert_int_equal(manifest_load(checkpoint, NULL, &manifest, &error), 0);
    for (size_t i = 0; i < manifest.file_count; i++)
        count += !strncmp(manifest.files[i].name, "model-frozen-", 13);
    manifest_done(&manifest);
    return count;
}

static void compare(const char *family, const char *policy, bool freezes)
{
    struct job_spec spec = make_job(family, policy);
    struct crew crew;
    char folder[512], checkpoint[1024];

    crew_init(&crew, &spec);
    train(&crew);
    snprintf(folder, sizeof(folder), "%s/checkpoints", crew.dir);
    checkpoint_path(folder, STEPS, checkpoint);
    assert_int_equal(count_frozen(checkpoint) > 0, freezes);
    write_logits(&crew, checkpoint);
    export_as(&crew, checkpoint, "plain-f32", SAFETENSORS_F32);
    export_as(&crew, checkpoint, "plain-bf16", SAFETENSORS_BF16);
    int status = run_transformers(&crew, checkpoint);
    crew_done(&crew);
    if (status == EXIT_SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

static void test_tied_and_nothing_frozen(void **state)
{
    (void)state;
    compare(GPT2, "none", false);
}

static void test_untied_with_frozen_units(void **state)
{
    (void)state;
    compare(GPT2, "gradient", true);
}

static void test_llama(void **state)
{
    (void)state;
    compare(LLAMA, "none", false);
}

static void test_llama_untied_with_frozen_units(void **state)
{
    (void)state;
    compare(LLAMA, "gradient", true);
}

static void test_llama3(void **state)
{
    (void)state;
    compare(LLAMA3, "none", false);
}

static void test_qwen2(void **state)
{
    (void)state;
    compare(QWEN2, "gradient", true);
}

static void test_qwen3(void **state)
{
    (void)state;
    compare(QWEN3, "gradient", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tied_and_nothing_frozen),
                                       cmocka_unit_test(test_untied_with_frozen_units),
                                       cmocka_unit_test(test_llama),
                                       cmocka_unit_test(test_llama_untied_with_frozen_units),
                                       cmocka_unit_test(test_llama3),
                                       cmocka_unit_test(test_qwen2),
                                       cmocka_unit_test(test_qwen3)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
