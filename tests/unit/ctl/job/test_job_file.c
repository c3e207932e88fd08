/* Job files on disk: absolute paths, messages with lines, and every example that we ship. */
#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/yaml/yaml_tree.h"
#include "ctl/job/job_file.h"

static struct job_spec spec; /* too large for the stack of a test */
static char folder[64], job_path[128];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/firn-job-file-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(job_path, sizeof(job_path), "%s/job.yaml", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(job_path);
    return rmdir(folder);
}

static int load(const char *yaml, struct error *error)
{
    memset(error, 0, sizeof(*error));
    assert_int_equal(file_replace(job_path, yaml, strlen(yaml), 0600, error), 0);
    return job_file_load(job_path, NULL, &spec, error);
}

#define MODEL "model: {layers: 2, width: 8, heads: 2, context: 16}\n"

static void test_paths_are_taken_from_the_files_folder(void **state)
{
    (void)state;
    struct error error;
    char expected[256];
    assert_int_equal(load("name: x\n" MODEL "data:\n  path: [./a.txt, b/**/*.h, /abs/c, ../up]\n"
                          "  validation: ./val\ntrain: {steps: 1}\ncheckpoint: {path: saved}\n",
                          &error),
                     0);
    assert_int_equal(spec.data.path.count, 4);
    snprintf(expected, sizeof(expected), "%s/a.txt", folder);
    assert_string_equal(spec.data.path.paths[0], expected);
    snprintf(expected, sizeof(expected), "%s/b/**/*.h", folder);
    assert_string_equal(spec.data.path.paths[1], expected);
    assert_string_equal(spec.data.path.paths[2], "/abs/c");
    snprintf(expected, sizeof(expected), "%s/../up", folder);
    assert_string_equal(spec.data.path.paths[3], expected);
    snprintf(expected, sizeof(expected), "%s/val", folder);
    assert_string_equal(spec.data.validation_path, expected);
    snprintf(expected, sizeof(expected), "%s/saved", folder);
    assert_string_equal(spec.checkpoint.path, expected);
}

/* Every round of mistakes reads the file anew. */
static void test_a_file_of_mistakes_ends_with_their_number(void **state)
{
    (void)state;
    static char text[600000];
    struct error error;
    size_t used = 0;
    for (unsigned i = 0; i < 19000; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "no_such_key_%u: 1\n", i);
    assert_int_equal(load(text, &error), -EINVAL);
    const char *words = strstr(error.text, "job.yaml has ");
    assert_non_null(words);
    assert_in_range(strtoul(words + 13, NULL, 10), 19000, 19010);
    assert_non_null(strstr(words, " mistakes, of which these are the first 1"));
}

static void test_empty_paths_stay_empty(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(load("name: x\n" MODEL "data: {path: /a}\ntrain: {steps: 1}\n", &error), 0);
    assert_string_equal(spec.checkpoint.path, "");
    assert_string_equal(spec.data.validation_path, "");
}

static void test_messages_have_file_and_line(void **state)
{
    (void)state;
    struct error error;
    char expected[ERROR_TEXT_SIZE];
    assert_int_equal(load("name: x\n" MODEL "data: {path: /a}\ntrain:\n  steps: 1\n  lanse: 4\n"
                          "  micro_batch: lots\n",
                          &error),
                     -EINVAL);
    snprintf(expected, sizeof(expected),
             "%s:6: train.lanse: no such key; did you mean train.lanes?\n"
             "%s:7: train.micro_batch: found the text \"lots\"; needs a whole number from 1 to "
             "65536",
             job_path, job_path);
    assert_string_equal(error.text, expected);
    assert_int_equal(load("name: x\n" MODEL "data: {path: /a}\ntrain:\n"
                          "  steps: 99999999999999999999\n  lanes: .inf\n"
                          "  optimizer: {lr: .nan, eps: 1e-999, clip: 1e999}\n",
                          &error),
                     -EINVAL);
    snprintf(
        expected, sizeof(expected),
        "%s:5: train.steps: found the text \"99999999999999999999\"; needs a whole number from "
        "1 to 1000000000000\n"
        "%s:6: train.lanes: found the text \".inf\"; needs a whole number from 1 to 1024\n"
        "%s:7: train.optimizer.lr: found the text \".nan\"; needs a number above 0, at most 10",
        job_path, job_path, job_path);
    assert_non_null(strstr(error.text, expected));
    assert_int_equal(load("name: x\nname: y\n", &error), -EINVAL);
    assert_non_null(strstr(error.text, "job.yaml:2: name stands here a second time"));
    assert_int_equal(load("", &error), -EINVAL);
    assert_non_null(strstr(error.text, "job.yaml"));
}

/* Call load() and catch its standard error. */
static int load_with_stderr(const char *yaml, char *ret_told, size_t told_size, struct error *error)
{
    FILE *told = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_true(told && before >= 0);
    fflush(stderr);
    dup2(fileno(told), STDERR_FILENO);
    int status = load(yaml, error);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(told);
    ret_told[fread(ret_told, 1, told_size - 1, told)] = '\0';
    fclose(told);
    return status;
}

static unsigned count_of(const char *text, const char *words)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, words)); at++)
        count++;
    return count;
}

static void test_many_mistakes_are_one_list(void **state)
{
    (void)state;
    static const char *const keys[] = {"model.layers:",         "data.pth:",
                                       "train.steps:",          "train.lanes:",
                                       "train.micro_batch:",    "train.optimizer.lr:",
                                       "train.optimizer.eps:",  "train.optimizer.betas:",
                                       "train.optimizer.clip:", "evaluate.batches:",
                                       "checkpoint.keep:",      "data.path:"};
    struct error error;
    char told[8192];
    assert_int_equal(
        load_with_stderr("name: x\nmodel: {layers: 0, width: 8, heads: 2, context: 16}\n"
                         "data: {pth: /a}\n"
                         "train: {steps: -1, lanes: 0, micro_batch: a,\n"
                         "  optimizer: {lr: 0, eps: 9, betas: [1, 2], clip: x}}\n"
                         "checkpoint: {keep: 0}\nevaluate: {batches: some}\n",
                         told, sizeof(told), &error),
        -EINVAL);
    for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_int_equal(count_of(told, keys[i]), 1);
    assert_int_equal(count_of(told, "firnctl: "), 1); /* of the list, not of its parts */
    assert_int_equal(count_of(told, "more"), 0);
    assert_non_null(strstr(error.text, "job.yaml has 12 mistakes"));
}

static void test_standard_input_that_is_empty(void **state)
{
    (void)state;
    struct error error = {0};
    assert_non_null(freopen("/dev/null", "r", stdin));
    assert_int_equal(job_file_load("-", NULL, &spec, &error), -EINVAL);
    assert_non_null(strstr(error.text, "standard input"));
}

static void test_a_path_that_becomes_too_long(void **state)
{
    (void)state;
    struct error error;
    char yaml[4096], path[JOB_PATH_SIZE] = {0};
    memset(path, 'p', JOB_PATH_SIZE - 5);
    snprintf(yaml, sizeof(yaml), "name: x\n" MODEL "data: {path: %s}\ntrain: {steps: 1}\n", path);
    memset(&spec, 7, sizeof(spec));
    assert_int_equal(load(yaml, &error), -ENAMETOOLONG);
    assert_non_null(strstr(error.text, "data.path"));
    assert_int_equal(spec.name[0], 7); /* untouched */
}

static void test_files_that_cannot_be_read(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(job_file_load("/nowhere/job.yaml", NULL, &spec, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nowhere/job.yaml"));
    assert_true(job_file_load(folder, NULL, &spec, &error) < 0); /* a folder */
}

static void source_path(const char *below, char *ret_path, size_t path_size)
{
    snprintf(ret_path, path_size, FIRN_SOURCE "/%s", below);
}

#define LLAMA_CONFIG                                                                               \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 3, \"hidden_size\": 32, "                  \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 50, "          \
    "\"vocab_size\": 300, \"rope_theta\": 500000.0, \"tie_word_embeddings\": false}"

static void write_config(const char *text, char ret_path[256])
{
    struct error error = {0};
    snprintf(ret_path, 256, "%s/config.json", folder);
    assert_int_equal(file_replace(ret_path, text, strlen(text), 0600, &error), 0);
}

static void test_a_models_folder_says_what_the_file_does_not(void **state)
{
    (void)state;
    struct error error;
    char path[256];
    write_config(LLAMA_CONFIG, path);
    assert_int_equal(load("name: x\nmodel: {from: ., context: 64}\ndata: {path: a}\n"
                          "train: {steps: 1}\n",
                          &error),
                     -EINVAL); /* bytes are no tokens of that model */
    assert_non_null(strstr(error.text, "the model has 300 tokens, and data.format is not given"));
    assert_int_equal(load("name: x\nmodel: {from: ., context: 64}\n"
                          "data: {path: a, format: uint16}\ntrain: {steps: 1}\n",
                          &error),
                     0);
    assert_string_equal(spec.model.family, "llama");
    assert_int_equal(spec.model.layers, 3);
    assert_int_equal(spec.model.kv_heads, 2);
    assert_int_equal(spec.model.hidden, 50);
    assert_int_equal(spec.model.context, 64);
    assert_int_equal(spec.model.vocab, 300);
    assert_false(spec.model.tied);
    assert_true(spec.model.rope_theta == 500000 && spec.model.norm_epsilon == 1e-6);
    assert_non_null(strstr(spec.model.from, folder));

    assert_int_equal(load("name: x\nmodel: {from: ., context: 64, layers: 2}\ndata: {path: a}\n"
                          "train: {steps: 1}\n",
                          &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "model.layers: 2 here, 3 in config.json"));
    unlink(path);
    assert_int_equal(load("name: x\nmodel: {from: ., context: 64}\ndata: {path: a}\n"
                          "train: {steps: 1}\n",
                          &error),
                     -ENOENT);
    assert_non_null(strstr(error.text, "config.json"));
    assert_int_equal(load("name: x\nmodel: {from: ./hf, context: 64}\ndata: {path: a}\n"
                          "train: {steps: 1}\n",
                          &error),
                     -ENOENT);
    snprintf(path, sizeof(path), "model.from %s/hf:", folder);
    assert_non_null(strstr(error.text, path));
}

/* The models that examples and the guide begin with: as their users would download them, beside the
 * job's file. */
static const struct {
    const char *name, *config;
} hub_models[] = {
    {"qwen",
     "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 24, \"hidden_size\": 896, "
     "\"num_attention_heads\": 14, \"num_key_value_heads\": 2, \"intermediate_size\": 4864, "
     "\"vocab_size\": 151936, \"rope_theta\": 1000000.0, \"tie_word_embeddings\": true, "
     "\"use_sliding_window\": false}"},
    {"Llama-3.2-1B-Instruct",
     "{\"model_type\": \"llama\", \"num_hidden_layers\": 16, \"hidden_size\": 2048, "
     "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 8192, "
     "\"vocab_size\": 128256, \"head_dim\": 64, \"rope_theta\": 500000.0, "
     "\"tie_word_embeddings\": true, \"rope_scaling\": {\"rope_type\": \"llama3\", "
     "\"factor\": 32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
     "\"original_max_position_embeddings\": 8192}}"},
};

static void download_models(void)
{
    char path[256];
    struct error error = {0};
    for (size_t i = 0; i < ARRAY_COUNT(hub_models); i++) {
        const char *config = hub_models[i].config;
        snprintf(path, sizeof(path), "%s/%s", folder, hub_models[i].name);
        assert_int_equal(file_make_directories(path, 0700, &error), 0);
        snprintf(path, sizeof(path), "%s/%s/config.json", folder, hub_models[i].name);
        assert_int_equal(file_replace(path, config, strlen(config), 0600, &error), 0);
    }
}

static void remove_models(void)
{
    char path[256];
    for (size_t i = 0; i < ARRAY_COUNT(hub_models); i++) {
        snprintf(path, sizeof(path), "%s/%s/config.json", folder, hub_models[i].name);
        assert_int_equal(unlink(path), 0);
        snprintf(path, sizeof(path), "%s/%s", folder, hub_models[i].name);
        assert_int_equal(rmdir(path), 0);
    }
}

static void test_every_example_is_a_job(void **state)
{
    (void)state;
    char pattern[4096];
    glob_t found;
    download_models();
    source_path("examples/*.yaml", pattern, sizeof(pattern));
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 3);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        CLEANUP(bytes_done) struct bytes text = {0};
        struct error error = {0};
        assert_int_equal(file_read(found.gl_pathv[i], 1u << 20, &text, &error), 0);
        if (load((const char *)text.data, &error) != 0)
            fail_msg("%s: %s", found.gl_pathv[i], error.text);
    }
    globfree(&found);
    remove_models();
}

/* Every example of the guide must work when it is copied out. */
static void test_every_example_of_the_guide_is_a_job(void **state)
{
    (void)state;
    char path[4096];
    CLEANUP(bytes_done) struct bytes text = {0};
    struct error error = {0};
    unsigned count = 0;
    download_models();
    source_path("docs/job.md", path, sizeof(path));
    assert_int_equal(file_read(path, 1u << 20, &text, &error), 0);
    for (char *at = strstr((char *)text.data, "```yaml\n"); at; at = strstr(at, "```yaml\n")) {
        char *yaml = at + strlen("```yaml\n");
        char *end = strstr(yaml, "```");
        assert_non_null(end);
        *end = '\0';
        if (load(yaml, &error) != 0)
            fail_msg("%s", error.text);
        at = end + 1;
        count++;
    }
    assert_int_equal(count, 3);
    remove_models();
}

static int load_with(const char *yaml, const char *setting, struct error *error)
{
    static struct arguments arguments;
    const char *words[] = {"job", "submit", "f.yaml", "--set", setting};
    memset(error, 0, sizeof(*error));
    assert_int_equal(arguments_parse((int)ARRAY_COUNT(words), words, &arguments, error), 0);
    assert_int_equal(file_replace(job_path, yaml, strlen(yaml), 0600, error), 0);
    return job_file_load(job_path, &arguments, &spec, error);
}

#define FROZEN                                                                                     \
    "name: x\n" MODEL "data: {path: a}\ntrain: {steps: 1}\n"                                       \
    "elastic:\n  freeze: {from_start: 12}\n"

static void test_settings_count_before_the_file_is_checked(void **state)
{
    (void)state;
    struct error error;
    char path[256];
    assert_int_equal(load_with(FROZEN, "train.steps=9", &error), -EINVAL);
    assert_non_null(strstr(error.text, "job.yaml:6: elastic.freeze.from_start"));
    assert_int_equal(load_with(FROZEN, "elastic.freeze.from_start=1", &error), 0);
    assert_int_equal(spec.elastic.freeze.from_start, 1);
    assert_int_equal(load_with("name: x\n" MODEL "data: {path: a}\ntrain: {steps: 1}\n",
                               "elastic.freeze.from_start=12", &error),
                     COMMAND_USAGE);
    assert_non_null(strstr(error.text, "job.yaml: elastic.freeze.from_start: 12 and the 1"));
    assert_int_equal(load_with(FROZEN, "elastic.freeze.patience=99", &error), COMMAND_USAGE);
    assert_non_null(strstr(error.text, "--set: elastic.freeze.patience: found 99; needs"));
    assert_int_equal(load_with("name: x\nmodel: 5\n", "model.layers=2", &error), -EINVAL);
    assert_non_null(strstr(error.text, "job.yaml:2: model"));

    /* The sizes come from the last named folder. */
    write_config(LLAMA_CONFIG, path);
    snprintf(path, sizeof(path), "model.from=%s", folder);
    assert_int_equal(load_with("name: x\nmodel: {from: ./gone, context: 64}\n"
                               "data: {path: a, format: uint16}\ntrain: {steps: 1}\n",
                               path, &error),
                     0);
    assert_int_equal(spec.model.layers, 3);
    snprintf(path, sizeof(path), "%s/config.json", folder);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_taken_from_the_files_folder),
        cmocka_unit_test(test_a_file_of_mistakes_ends_with_their_number),
        cmocka_unit_test(test_empty_paths_stay_empty),
        cmocka_unit_test(test_messages_have_file_and_line),
        cmocka_unit_test(test_many_mistakes_are_one_list),
        cmocka_unit_test(test_standard_input_that_is_empty),
        cmocka_unit_test(test_a_path_that_becomes_too_long),
        cmocka_unit_test(test_files_that_cannot_be_read),
        cmocka_unit_test(test_a_models_folder_says_what_the_file_does_not),
        cmocka_unit_test(test_settings_count_before_the_file_is_checked),
        cmocka_unit_test(test_every_example_is_a_job),
        cmocka_unit_test(test_every_example_of_the_guide_is_a_job),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
