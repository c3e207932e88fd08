/* The amount of a job's data, in every format, and the remarks about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/test_folder.h"

#include "base/compiler.h"
#include "ctl/job/job_data.h"

static struct job_spec spec; /* too large for the stack of a test */

/* 10 steps of 4 samples of 8 tokens, from one file of @size_bytes. */
static struct job_data_extent look(enum job_format format, size_t size_bytes,
                                   double validation_share)
{
    static const char zeros[8192];
    struct job_data_extent data;

    assert_true(size_bytes <= sizeof(zeros));
    test_folder_write("data", zeros, size_bytes);
    memset(&spec, 0, sizeof(spec));
    spec.model.context = 8;
    spec.model.vocab = 50257;
    spec.data.format = format;
    spec.data.path.count = 1;
    snprintf(spec.data.path.paths[0], JOB_PATH_SIZE, "%s", test_folder_at("data"));
    spec.data.validation_share = validation_share;
    spec.train.steps = 10;
    spec.train.lanes = 2;
    spec.train.micro_batch = 2;
    spec.train.micro_batches_per_lane = 1;
    assert_true(job_data_look(&spec, &data));
    return data;
}

/* Tokens below 50,257 in 32 bits each, read as 16 bits; and such as are right. */
static void test_another_width_is_hinted_at(void **state)
{
    uint32_t wide[256];
    uint16_t narrow[512];
    char words[JOB_DATA_WORDS_SIZE];

    (void)state;
    look(JOB_FORMAT_UINT16, 2048, 0);
    assert_false(job_data_hint(&spec, words)); /* nothing but zeros */
    for (uint32_t i = 0; i < ARRAY_COUNT(wide); i++)
        wide[i] = i * 7919 % 50257;
    test_folder_write("data", wide, sizeof(wide));
    assert_true(job_data_hint(&spec, words));
    assert_non_null(strstr(words, "should data.format be uint32?"));
    for (uint32_t i = 0; i < ARRAY_COUNT(narrow); i++)
        narrow[i] = (uint16_t)(i * 7919 % 50257);
    test_folder_write("data", narrow, sizeof(narrow));
    assert_false(job_data_hint(&spec, words));
    spec.data.format = JOB_FORMAT_UINT32;
    assert_true(job_data_hint(&spec, words));
    assert_non_null(strstr(words, "outside the vocabulary of 50257 (model.vocab)"));
    look(JOB_FORMAT_UINT16, 2047, 0);
    assert_true(job_data_hint(&spec, words));
    assert_non_null(strstr(words, "2047 bytes, which are no whole number of uint16"));
    look(JOB_FORMAT_LLMC, 2048, 0);
    assert_true(job_data_hint(&spec, words));
    assert_non_null(strstr(words, "does not begin as files of llm.c do"));
    spec.data.format = JOB_FORMAT_BYTES;
    assert_false(job_data_hint(&spec, words));
}

static void test_formats(void **state)
{
    (void)state;
    assert_int_equal(look(JOB_FORMAT_BYTES, 801, 0).sample_count, 100);
    assert_int_equal(look(JOB_FORMAT_BYTES, 800, 0).sample_count, 99); /* no last target */
    assert_int_equal(look(JOB_FORMAT_UINT16, 2 * 801, 0).sample_count, 100);
    assert_int_equal(look(JOB_FORMAT_UINT32, 4 * 801, 0).sample_count, 100);
    assert_int_equal(look(JOB_FORMAT_LLMC, 1024 + 2 * 801, 0).sample_count, 100);
    spec.model.vocab = 128256;
    struct job_data_extent data;
    assert_true(job_data_look(&spec, &data));
    assert_int_equal(data.sample_count, 49);
    assert_int_equal(look(JOB_FORMAT_LLMC, 1000, 0).token_count, 0);
}

static void test_what_is_held_out_is_not_trained_on(void **state)
{
    (void)state;
    assert_int_equal(look(JOB_FORMAT_BYTES, 801, 0.25).sample_count, 75);
    assert_int_equal(look(JOB_FORMAT_BYTES, 801, 0.001).sample_count, 99);
    assert_int_equal(look(JOB_FORMAT_BYTES, 17, 0.99).sample_count, 1);
    look(JOB_FORMAT_BYTES, 801, 0.25);
    strcpy(spec.data.validation_path, "/elsewhere");
    struct job_data_extent data;
    assert_true(job_data_look(&spec, &data));
    assert_int_equal(data.sample_count, 100);
}

static void expect_words(const struct job_data_extent *data, const char *expected)
{
    char words[JOB_DATA_WORDS_SIZE];

    assert_string_equal(job_data_words(&spec.model, &spec.train, data, words), expected);
}

static void test_words(void **state)
{
    (void)state;
    struct job_data_extent data = look(JOB_FORMAT_BYTES, 801, 0);
    assert_true(fabs(data.passes - 0.4) < 1e-12);
    assert_false(job_data_is_little(&spec.model, &spec.train, &data));
    expect_words(&data, "100 samples to train on, of 801 tokens: a step takes 4, 10 steps go over "
                        "them 0.4 times");
    data = look(JOB_FORMAT_BYTES, 25, 0); /* less than a step takes */
    assert_true(job_data_is_little(&spec.model, &spec.train, &data));
    expect_words(&data, "3 samples to train on, of 25 tokens: a step takes 4, 10 steps go over "
                        "them 13.3 times");
    look(JOB_FORMAT_BYTES, 33, 0); /* just a step */
    spec.train.steps = 51;
    assert_true(job_data_look(&spec, &data));
    assert_true(job_data_is_little(&spec.model, &spec.train, &data));
    spec.train.steps = 50;
    assert_true(job_data_look(&spec, &data));
    assert_false(job_data_is_little(&spec.model, &spec.train, &data));
    data = look(JOB_FORMAT_BYTES, 8, 0);
    assert_true(job_data_is_little(&spec.model, &spec.train, &data));
    expect_words(&data, "8 tokens, too few: one sample takes 8 + 1 (model.context + 1)");
}

static void test_data_that_is_elsewhere(void **state)
{
    struct job_data_extent data = {.token_count = 7};

    (void)state;
    look(JOB_FORMAT_BYTES, 801, 0);
    strcat(spec.data.path.paths[0], ".absent");
    assert_false(job_data_look(&spec, &data));
    assert_int_equal(data.token_count, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_another_width_is_hinted_at),
        IN_FOLDER(test_formats),
        IN_FOLDER(test_what_is_held_out_is_not_trained_on),
        IN_FOLDER(test_words),
        IN_FOLDER(test_data_that_is_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
