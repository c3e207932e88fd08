/* Tests of the files that checkpoints and exports copy from the folder that the job began with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/model_files.h"
#include "checkpoint/read/export.h"
#include "elastic/job/huggingface.h"
#include "elastic/job/job_spec.h"
#include "lib/checkpoint/foreign_folder.h"
#include "lib/checkpoint/sample.h"
#include "worker/checkpoint/source_files.h"

#define SOURCE_CONFIG                                                                              \
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaModel\"],\"num_hidden_layers\":2,"        \
    "\"hidden_size\":32,\"num_attention_heads\":4,\"vocab_size\":300,\"intermediate_size\":48,"    \
    "\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"max_position_embeddings\":2048,"              \
    "\"bos_token_id\":1,\"eos_token_id\":2,\"torch_dtype\":\"bfloat16\",\"dtype\":\"bfloat16\"}"
#define JOB                                                                                        \
    "{\"name\":\"sample\",\"model\":{\"family\":\"llama\",\"layers\":2,\"width\":32,\"heads\":4,"  \
    "\"hidden\":48,\"context\":16,\"vocab\":300,\"tied\":false,\"from\":\"%s\"},"                  \
    "\"data\":{\"format\":\"uint16\",\"path\":\"x\"},\"train\":{\"steps\":9}}"

static char folder[64], source[96], checkpoints[96], part[96];
static struct job_spec spec;

static void make_folder(const char *name, char *ret_path, size_t size)
{
    snprintf(ret_path, size, "%.60s/%s", folder, name);
    assert_int_equal(mkdir(ret_path, 0755), 0);
}

static int set_up(void **state)
{
    char text[1024];
    struct error error = {0};
    (void)state;
    sample_folder(folder);
    make_folder("hf", source, sizeof(source));
    make_folder("checkpoints", checkpoints, sizeof(checkpoints));
    make_folder("part", part, sizeof(part));
    foreign_text(source, "config.json", SOURCE_CONFIG);
    foreign_text(source, "tokenizer.json", "{\"version\":\"1.0\"}");
    foreign_text(source, "generation_config.json", "{\"eos_token_id\":2}");
    foreign_text(source, "README.md", "about another model");
    foreign_text(source, "modeling_llama.py", "import os");
    foreign_text(source, "model.safetensors.index.json", "{}");
    foreign_text(source, "pytorch_model.bin", "weights");
    foreign_text(source, ".hidden", "x");
    foreign_text(source, "empty.txt", "");
    snprintf(text, sizeof(text), JOB, source);
    AUTO_JSON json_t *tree = json_loads(text, 0, NULL);
    if (job_spec_decode(tree, "test", NULL, NULL, &spec, &error))
        fail_msg("%s", error.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sample_remove(folder);
    return 0;
}

static int take(uint64_t step, const char *restored, const char *into, struct manifest *manifest,
                json_t **ret_config, char *ret_left_out, struct error *error)
{
    AUTO_JSON json_t *own = huggingface_config(&spec.model, false);
    AUTO_JSON json_t *job = job_spec_encode(&spec);
    const struct source_files files = {.spec = job,
                                       .checkpoints = checkpoints,
                                       .restored = restored,
                                       .step = step,
                                       .part = into,
                                       .own_config = own};
    return source_files_take(&files, manifest, ret_config, ret_left_out, error);
}

static void expect_text(const char *where, const char *name, const char *wanted)
{
    char path[FOLDER_FILE_SIZE];
    CLEANUP(bytes_done) struct bytes text = {0};
    struct error error = {0};
    folder_file_path(where, name, path);
    if (file_read(path, 1 << 20, &text, &error))
        fail_msg("%s", error.text);
    assert_string_equal((const char *)text.data, wanted);
}

static void expect_taken(const struct manifest *manifest, size_t first, const char *where)
{
    assert_int_equal(manifest->file_count, first + 2);
    assert_string_equal(manifest->files[first].name, "generation_config.json");
    assert_string_equal(manifest->files[first + 1].name, "tokenizer.json");
    expect_text(where, "tokenizer.json", "{\"version\":\"1.0\"}");
    expect_text(where, "generation_config.json", "{\"eos_token_id\":2}");
}

static void expect_config(const json_t *config)
{
    static const struct {
        const char *key, *json;
    } wanted[] = {{"bos_token_id", "1"},
                  {"eos_token_id", "2"},
                  {"max_position_embeddings", "2048"},
                  {"torch_dtype", "\"float32\""},
                  {"dtype", "null"},
                  {"tie_word_embeddings", "false"},
                  {"architectures", "[\"LlamaForCausalLM\"]"}};
    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
        json_t *found = json_object_get(config, wanted[i].key);
        AUTO_FREE char *text =
            found ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT) : strdup("null");
        assert_string_equal(text, wanted[i].json);
    }
    assert_string_equal(huggingface_adopted(config), "hf");
}

/*
 * Write a checkpoint that took files from the sample's source. @name: the recorded source; NULL: as
 * recorded today
 */
static void write_checkpoint_of(uint64_t step, const char *name, char ret_path[1024])
{
    struct manifest manifest;
    struct error error = {0};
    char left_out[MODEL_FILES_WORDS], path[FOLDER_FILE_SIZE];
    json_t *config = NULL;
    CLEANUP(bytes_done) struct bytes text = {0};
    sample_write(checkpoints, step, 2);
    checkpoint_path(checkpoints, step, ret_path);
    assert_int_equal(manifest_load(ret_path, NULL, &manifest, &error), 0);
    manifest_drop_files(&manifest, manifest.file_count - 1); /* its config.json */
    if (take(step, "", ret_path, &manifest, &config, left_out, &error))
        fail_msg("%s", error.text);
    if (name)
        assert_int_equal(json_object_set_new(config, "_name_or_path", json_string(name)), 0);
    AUTO_FREE char *config_text = json_text_indented(config);
    foreign_text(ret_path, "config.json", config_text);
    assert_int_equal(manifest_add_file(&manifest, "config.json", config_text, strlen(config_text)),
                     0);
    assert_int_equal(manifest_text(&manifest, &text), 0);
    folder_file_path(ret_path, MANIFEST_NAME, path);
    assert_int_equal(file_replace(path, text.data, text.size_bytes, 0644, &error), 0);
    json_decref(config);
    manifest_done(&manifest);
}

static void write_checkpoint(uint64_t step, char ret_path[1024])
{
    write_checkpoint_of(step, NULL, ret_path);
}

static void test_the_folders_files_go_with_a_checkpoint(void **state)
{
    struct manifest manifest = {0};
    struct error error = {0};
    char left_out[MODEL_FILES_WORDS];
    json_t *config = NULL;
    (void)state;
    if (take(3, "", part, &manifest, &config, left_out, &error))
        fail_msg("%s", error.text);
    expect_taken(&manifest, 0, part);
    expect_config(config);
    assert_string_equal(left_out, "");
    json_decref(config);
    manifest_done(&manifest);
}

static void test_they_stay_when_the_folder_has_gone(void **state)
{
    struct manifest manifest = {0};
    struct error error = {0};
    char left_out[MODEL_FILES_WORDS], path[1024], moved[128];
    json_t *config = NULL;
    (void)state;
    write_checkpoint(3, path);
    sample_remove(source);
    if (take(6, "", part, &manifest, &config, left_out, &error))
        fail_msg("%s", error.text);
    expect_taken(&manifest, 0, part);
    expect_config(config);
    json_decref(config);
    manifest_done(&manifest);

    /* Another job continues from a copy of that checkpoint. */
    snprintf(moved, sizeof(moved), "%s/copy", folder);
    assert_int_equal(rename(path, moved), 0);
    if (take(6, moved, part, &manifest, &config, left_out, &error))
        fail_msg("%s", error.text);
    expect_taken(&manifest, 0, part);
    json_decref(config);
    manifest_done(&manifest);

    assert_int_equal(take(6, "", part, &manifest, &config, left_out, &error), -ENOENT);
    assert_non_null(strstr(error.text, source));
    assert_int_equal(manifest.file_count, 0);
}

/* The copy in the checkpoint has a flipped bit: the file in the source folder is taken. */
static void test_damage_is_not_handed_on(void **state)
{
    struct manifest manifest = {0};
    struct error error = {0};
    char left_out[MODEL_FILES_WORDS], path[1024];
    json_t *config = NULL;
    (void)state;
    write_checkpoint(3, path);
    foreign_text(path, "tokenizer.json", "{\"version\":\"1.1\"}");
    if (take(6, "", part, &manifest, &config, left_out, &error))
        fail_msg("%s", error.text);
    expect_taken(&manifest, 0, part);
    json_decref(config);
    manifest_done(&manifest);
}

static void test_a_folder_of_another_model_is_none(void **state)
{
    struct manifest manifest = {0};
    struct error error = {0};
    char left_out[MODEL_FILES_WORDS];
    json_t *config = NULL;
    (void)state;
    spec.model.hidden = 64;
    assert_int_equal(take(3, "", part, &manifest, &config, left_out, &error), -EINVAL);
    assert_non_null(strstr(error.text, "model.hidden: 64 here, 48 in config.json"));
    spec.model.from[0] = '\0';
    assert_int_equal(take(3, "", part, &manifest, &config, left_out, &error), 1);
}

static void test_what_is_too_large_is_named(void **state)
{
    struct model_files companions;
    struct error error = {0};
    char path[128];
    (void)state;
    snprintf(path, sizeof(path), "%s/vocab.txt", source);
    FILE *file = fopen(path, "w");
    assert_int_equal(ftruncate(fileno(file), COMPANION_BYTES_MAX + 1), 0);
    fclose(file);
    assert_int_equal(model_files_find(source, &companions, &error), 0);
    assert_int_equal(companions.count, 2);
    assert_string_equal(companions.left_out,
                        "vocab.txt has 32.0 MiB; a file beside a model may have 32 MiB");
}

static json_t *load_config(const char *where)
{
    char path[FOLDER_FILE_SIZE];
    folder_file_path(where, "config.json", path);
    json_t *config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    return config;
}

static void test_an_export_has_them(void **state)
{
    struct error error = {0};
    char path[1024], to[128];
    (void)state;
    write_checkpoint_of(3, source, path); /* like earlier builds: no path leaves the machine */
    snprintf(to, sizeof(to), "%s/plain", folder);
    const struct checkpoint_export export = {.from = path, .to = to, .dtype = SAFETENSORS_BF16};
    if (checkpoint_export(&export, &error))
        fail_msg("%s", error.text);
    expect_text(to, "tokenizer.json", "{\"version\":\"1.0\"}");
    expect_text(to, "generation_config.json", "{\"eos_token_id\":2}");
    AUTO_JSON json_t *config = load_config(to);
    assert_string_equal(huggingface_adopted(config), "hf");
}

/* The same holds for a checkpoint made from a checkpoint of an earlier build. */
static void test_no_path_leaves_the_machine(void **state)
{
    struct manifest manifest = {0};
    struct error error = {0};
    char left_out[MODEL_FILES_WORDS], path[1024];
    json_t *config = NULL;
    (void)state;
    write_checkpoint_of(3, source, path);
    if (take(6, "", part, &manifest, &config, left_out, &error))
        fail_msg("%s", error.text);
    expect_config(config);
    json_decref(config);
    manifest_done(&manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_folders_files_go_with_a_checkpoint, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_they_stay_when_the_folder_has_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_is_not_handed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_of_another_model_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_too_large_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_export_has_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_path_leaves_the_machine, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
