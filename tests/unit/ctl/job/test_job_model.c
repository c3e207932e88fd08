/* The folder of model.from, looked at before a job is submitted: every mistake at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/checkpoint/foreign_folder.h"

#include "ctl/job/job_model.h"

#define WIDTH  4
#define LAYERS 2
#define VOCAB  8

static struct job_spec spec; /* too large for the stack of a test */
static const float zeros[4 * WIDTH * VOCAB];

static int make_folder(void **state)
{
    (void)state;
    memset(&spec, 0, sizeof(spec));
    strcpy(spec.name, "tuned");
    strcpy(spec.model.family, "gpt2");
    spec.model.layers = LAYERS;
    spec.model.width = WIDTH;
    spec.model.vocab = VOCAB;
    spec.model.hidden = 4 * WIDTH;
    strcpy(spec.model.from, "/tmp/firn-job-model-XXXXXX");
    assert_non_null(mkdtemp(spec.model.from));
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "a.safetensors", "b.safetensors"};
    char path[2048];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", spec.model.from, names[i]);
        unlink(path);
    }
    return rmdir(spec.model.from);
}

static void write_tensors(const char *name, const char *first_word)
{
    char names[3][64];
    snprintf(names[0], sizeof(names[0]), "%swte.weight", first_word);
    snprintf(names[1], sizeof(names[1]), "%sh.1.attn.c_attn.weight", first_word);
    snprintf(names[2], sizeof(names[2]), "%sh.1.mlp.c_fc.weight", first_word);
    const struct foreign_tensor tensors[] = {
        {names[0], SAFETENSORS_F32, 2, {VOCAB, WIDTH}, zeros},
        {names[1], SAFETENSORS_F32, 2, {WIDTH, 3 * WIDTH}, zeros},
        {names[2], SAFETENSORS_F32, 2, {WIDTH, 4 * WIDTH}, zeros},
    };
    foreign_file(spec.model.from, name, tensors, ARRAY_COUNT(tensors));
}

static void expect_mistakes(unsigned count, const char *const words[])
{
    char unread[ERROR_TEXT_SIZE];
    struct error error = {0};
    assert_int_equal(job_model_check(&spec, unread, &error), count > 0 ? -EINVAL : 0);
    assert_string_equal(unread, "");
    unsigned lines = error.text[0] != '\0';
    for (const char *at = error.text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, count);
    for (unsigned i = 0; i < count; i++)
        if (!strstr(error.text, words[i]))
            fail_msg("\"%s\" does not say \"%s\"", error.text, words[i]);
}

static void test_a_folder_of_this_model_has_none(void **state)
{
    (void)state;
    write_tensors("model.safetensors", "");
    expect_mistakes(0, NULL);
    write_tensors("model.safetensors", "transformer.");
    expect_mistakes(0, NULL);
}

static void test_every_size_that_differs_is_said(void **state)
{
    (void)state;
    write_tensors("model.safetensors", "");
    spec.model.width = 6;
    spec.model.hidden = 24;
    expect_mistakes(3, (const char *[]){"model.safetensors: tensor wte.weight is 8 x 4",
                                        "c_attn.weight is 4 x 12", "the job's model needs 6 x 24"});
    spec.model.width = WIDTH;
    spec.model.hidden = 4 * WIDTH;
    spec.model.layers = 3;
    expect_mistakes(2, (const char *[]){"h.2.attn.c_attn.weight", "h.2.mlp.c_fc.weight"});
}

static void test_a_file_that_is_cut_off_or_missing_is_named(void **state)
{
    (void)state;
    char path[2048];
    expect_mistakes(1, (const char *[]){"model.safetensors: No such file"});
    write_tensors("model.safetensors", "");
    snprintf(path, sizeof(path), "%s/model.safetensors", spec.model.from);
    assert_int_equal(truncate(path, 4100), 0);
    expect_mistakes(1, (const char *[]){path});
}

static void test_every_file_that_an_index_names_is_looked_at(void **state)
{
    (void)state;
    foreign_text(spec.model.from, "model.safetensors.index.json",
                 "{\"weight_map\": {\"x\": \"a.safetensors\", \"y\": \"b.safetensors\"}}");
    foreign_text(spec.model.from, "b.safetensors", "no header");
    expect_mistakes(2, (const char *[]){"a.safetensors: No such file", "b.safetensors"});
}

static void test_a_folder_that_is_not_here_says_nothing(void **state)
{
    (void)state;
    char unread[ERROR_TEXT_SIZE], folder[JOB_PATH_SIZE];
    struct error error = {0};
    strcpy(folder, spec.model.from);
    strcat(spec.model.from, "-elsewhere");
    assert_int_equal(job_model_check(&spec, unread, &error), 0);
    assert_non_null(strstr(unread, "-elsewhere: No such file"));
    spec.model.from[0] = '\0';
    assert_int_equal(job_model_check(&spec, unread, &error), 0);
    assert_string_equal(unread, "");
    strcpy(spec.model.from, folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_folder_of_this_model_has_none),
        TEST(test_every_size_that_differs_is_said),
        TEST(test_a_file_that_is_cut_off_or_missing_is_named),
        TEST(test_every_file_that_an_index_names_is_looked_at),
        TEST(test_a_folder_that_is_not_here_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
