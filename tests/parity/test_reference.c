/*
 * The tiny models against Hugging Face's classes of their kind (GPT2LMHeadModel, LlamaForCausalLM,
 * ...): names, shapes, logits, loss and gradients, with some tokens that do not count in the loss.
 * Skipped if python3 (or the program named by FIRN_PYTHON) has no torch and transformers.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/model/tiny_model.h"

#define EXIT_SKIPPED 77

static char folder[64];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static FILE *create(const char *name, const char *suffix)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s%s", folder, name, suffix);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

static void write_values(const char *name, const char *suffix, const void *values, size_t count)
{
    FILE *file = create(name, suffix);
    assert_int_equal(fwrite(values, 4, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void write_unit(struct tiny_model *tiny, unsigned unit, FILE *json)
{
    const struct unit_layout *layout = &tiny->layouts[unit];
    float *gradient = tiny_gradient(tiny, unit);
    for (unsigned i = 0; i < layout->tensor_count; i++) {
        const struct unit_tensor *tensor = &layout->tensors[i];
        const float *parameter = tiny->host_parameters[unit] + tensor->offset;
        write_values(tensor->name, ".parameter", parameter, tensor->count);
        write_values(tensor->name, ".gradient", gradient + tensor->offset, tensor->count);
        fprintf(json, "%s\"%s\": [%zu", unit + i == 0 ? "" : ", ", tensor->name, tensor->shape[0]);
        fprintf(json, tensor->rank == 2 ? ", %zu]" : "]", tensor->shape[1]);
    }
    free(gradient);
}

static void write_scaling(const struct model_rope_scaling *scaling, FILE *json)
{
    if (scaling->type == MODEL_ROPE_LINEAR)
        fprintf(json, ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": %.17g}",
                scaling->factor);
    if (scaling->type == MODEL_ROPE_LLAMA3)
        fprintf(json,
                ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": %.17g, "
                "\"low_freq_factor\": %.17g, \"high_freq_factor\": %.17g, "
                "\"original_max_position_embeddings\": %u}",
                scaling->factor, scaling->low_frequency_factor, scaling->high_frequency_factor,
                scaling->original_context);
}

/* Under the names that Hugging Face's configurations have for them. */
static void write_sizes(const struct model_spec *spec, FILE *json)
{
    if (spec->family == MODEL_GPT2) {
        fprintf(json,
                "{\"model_type\": \"gpt2\", \"config\": {\"vocab_size\": %u, "
                "\"n_positions\": %u, \"n_embd\": %u, \"n_layer\": %u, \"n_head\": %u, "
                "\"resid_pdrop\": 0.0, \"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0}",
                spec->vocab, spec->context, spec->width, spec->layers, spec->heads);
        return;
    }
    fprintf(json,
            "{\"model_type\": \"%s\", \"config\": {\"vocab_size\": %u, "
            "\"max_position_embeddings\": %u, \"hidden_size\": %u, "
            "\"num_hidden_layers\": %u, \"num_attention_heads\": %u, "
            "\"num_key_value_heads\": %u, \"head_dim\": %u, \"intermediate_size\": %u, "
            "\"rope_theta\": %.17g, \"rms_norm_eps\": %.17g",
            spec->qk_norm    ? "qwen3"
            : spec->qkv_bias ? "qwen2"
                             : "llama",
            spec->vocab, spec->context, spec->width, spec->layers, spec->heads, spec->kv_heads,
            spec->head_width, spec->hidden, spec->rope_theta, spec->norm_epsilon);
    write_scaling(&spec->rope_scaling, json);
    fprintf(json, "}");
}

/* Every fifth target does not count. Returns how many do. */
static unsigned ignore_some(int32_t *targets)
{
    unsigned counted = TINY_ROWS;

    for (unsigned i = 2; i < TINY_ROWS; i += 5, counted--)
        targets[i] = -1;
    return counted;
}

static void write_model(struct tiny_model *tiny)
{
    const unsigned counted = ignore_some(tiny->targets[0]);
    static float logits[TINY_ROWS * TINY_VOCAB];
    struct stage *stage = tiny_stage(tiny, 0, TINY_UNITS, 1);

    stage_forward(stage, 0, tiny->weights, tiny->tokens[0], tiny->targets[0], false, 0.0f);
    stage_logits(stage, 0, logits);
    stage_forward(stage, 0, tiny->weights, tiny->tokens[0], tiny->targets[0], true,
                  1.0f / (float)counted);
    for (unsigned unit = TINY_UNITS; unit-- > 0;)
        stage_backward_unit(stage, 0, unit, tiny->weights[unit], tiny->gradients[unit], unit > 0);

    write_values("tokens", "", tiny->tokens[0], TINY_ROWS);
    write_values("targets", "", tiny->targets[0], TINY_ROWS);
    write_values("logits", "", logits, ARRAY_COUNT(logits));
    FILE *json = create("model", ".json");
    write_sizes(tiny->spec, json);
    fprintf(json, ", \"batch\": %u, \"context\": %u, \"loss\": %.9g, \"tensors\": {", TINY_BATCH,
            TINY_CONTEXT, stage_loss_sum(stage, 0) / counted);
    for (unsigned unit = 0; unit < TINY_UNITS; unit++)
        write_unit(tiny, unit, json);
    fprintf(json, "}}\n");
    assert_int_equal(fclose(json), 0);
    stage_free(stage);
}

static int run_reference(void)
{
    const char *python = getenv("FIRN_PYTHON");
    char script[] = FIRN_SOURCE "/tests/parity/model_reference.py";
    char *const arguments[] = {(char *)(!python ? "python3" : python), script, folder, NULL};
    pid_t child;
    int status;

    if (posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ) != 0)
        return EXIT_SKIPPED;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void compare(enum tiny_kind kind)
{
    struct tiny_model tiny;
    tiny_open(&tiny, kind);
    snprintf(folder, sizeof(folder), "/tmp/firn-reference-XXXXXX");
    assert_non_null(mkdtemp(folder));
    write_model(&tiny);
    int status = run_reference();
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    tiny_close(&tiny);
    if (status == EXIT_SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

static void test_gpt2(void **state)
{
    (void)state;
    compare(TINY_GPT2);
}

static void test_llama(void **state)
{
    (void)state;
    compare(TINY_LLAMA);
}

static void test_scaled_rotary_embeddings(void **state)
{
    (void)state;
    compare(TINY_LLAMA3);
    compare(TINY_LINEAR);
}

static void test_qwen2(void **state)
{
    (void)state;
    compare(TINY_QWEN2);
}

static void test_qwen3(void **state)
{
    (void)state;
    compare(TINY_QWEN3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2), cmocka_unit_test(test_llama),
                                       cmocka_unit_test(test_scaled_rotary_embeddings),
                                       cmocka_unit_test(test_qwen2), cmocka_unit_test(test_qwen3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
