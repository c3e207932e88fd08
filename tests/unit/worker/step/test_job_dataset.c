/* Tests of a job's data: the counted tokens of a step, and an evaluation without tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/test_folder.h"

#include "base/compiler.h"
#include "worker/step/job_dataset.h"

static struct job_spec spec; /* too large for the stack of a test */

/* Prepare samples of four tokens; in every fifth sample two tokens count, in the others none. */
static void prepare(double validation_share)
{
    uint8_t text[4 * 20 + 1], mask[sizeof(text)] = {0};

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)i;
    for (size_t i = 0; i < 20; i += 5)
        mask[4 * i + 1] = mask[4 * i + 3] = 1;
    test_folder_write("text", text, sizeof(text));
    test_folder_write("mask", mask, sizeof(mask));
    memset(&spec, 0, sizeof(spec));
    spec.model.context = 4;
    spec.model.vocab = 256;
    spec.data.path.count = spec.data.mask.count = 1;
    snprintf(spec.data.path.paths[0], JOB_PATH_SIZE, "%s", test_folder_at("text"));
    snprintf(spec.data.mask.paths[0], JOB_PATH_SIZE, "%s", test_folder_at("mask"));
    spec.data.validation_share = validation_share;
    spec.train.lanes = 2;
    spec.train.micro_batches_per_lane = 3;
    spec.train.micro_batch = 1;
    spec.train.seed = 5;
    spec.evaluate.batches = 2;
}

static struct dataset *open_job(void)
{
    struct dataset *dataset = NULL;
    struct error error = {0};

    if (job_dataset_open(&spec, NULL, NULL, &dataset, &error))
        fail_msg("%s", error.text);
    return dataset;
}

/* The count equals that of all lanes of a step. */
static void test_what_counts_in_a_step(void **state)
{
    uint64_t all = 0;

    (void)state;
    prepare(0);
    struct dataset *dataset = open_job();
    for (uint64_t step = 1; step <= 10; step++) { /* three epochs */
        int32_t tokens[6 * 4], targets[6 * 4];
        uint64_t counted = 0;
        assert_int_equal(dataset_train_batch(dataset, (step - 1) * 6, 6, tokens, targets, NULL), 0);
        for (size_t i = 0; i < ARRAY_COUNT(targets); i++)
            counted += targets[i] >= 0;
        assert_int_equal(job_dataset_counted(&spec.train, dataset, step), counted);
        all += counted;
    }
    assert_int_equal(all, 3 * 4 * 2);
    spec.data.mask.count = 0;
    spec.data.validation_share = 0.25;
    dataset_close(dataset);
    dataset = open_job();
    assert_int_equal(job_dataset_counted(&spec.train, dataset, 1), 6 * 4);
    assert_int_equal(job_dataset_validation_counted(&spec.evaluate, &spec.train, dataset), 2 * 4);
    dataset_close(dataset);
}

static void expect_refused(const char *text)
{
    struct dataset *dataset = NULL;
    struct error error = {0};

    assert_int_equal(job_dataset_open(&spec, NULL, NULL, &dataset, &error), -ENODATA);
    assert_null(dataset);
    assert_non_null(strstr(error.text, text));
}

static void test_an_evaluation_of_nothing(void **state)
{
    (void)state;
    prepare(0.25); /* samples 15 to 19 */
    spec.evaluate.every = 10;
    struct dataset *dataset = open_job();
    assert_int_equal(job_dataset_validation_counted(&spec.evaluate, &spec.train, dataset), 2);
    dataset_close(dataset);
    prepare(0.2); /* 16 to 19: no sample has an answer */
    dataset_close(open_job());
    spec.evaluate.every = 10;
    expect_refused("none of the tokens that an evaluation reads counts");
    prepare(0);
    spec.evaluate.every = 10;
    expect_refused("no validation data is left");
}

/* 5 samples in micro-batches of 2 are three micro-batches; the last one has one sample. */
static void test_how_much_an_evaluation_reads(void **state)
{
    static const struct {
        unsigned batches;
        uint64_t every;
        unsigned read, counted;
    } cases[] = {
        {2, 1, 2, 4}, {3, 1, 3, 5}, {JOB_BATCHES_ALL, 1, 3, 5}, {JOB_BATCHES_AUTO, 1, 3, 5}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        prepare(0.25);
        spec.data.mask.count = 0;
        spec.train.micro_batch = 2;
        spec.evaluate.batches = cases[i].batches;
        spec.evaluate.every = cases[i].every;
        struct dataset *dataset = open_job();
        assert_int_equal(job_dataset_validation_batches(&spec.evaluate, &spec.train, dataset),
                         cases[i].read);
        assert_int_equal(job_dataset_validation_counted(&spec.evaluate, &spec.train, dataset),
                         4 * cases[i].counted);
        dataset_close(dataset);
    }
    spec.evaluate.batches = 4;
    expect_refused("evaluate.batches is 4, but the validation data has only 5 samples, which are 3 "
                   "micro-batches of 2: say evaluate.batches: all");
}

/* 10 of 20 samples: by default more than 8 samples are read if training reads ten times as many. */
static void test_all_where_that_is_cheap(void **state)
{
    (void)state;
    prepare(0.5);
    spec.evaluate.batches = JOB_BATCHES_AUTO;
    for (spec.evaluate.every = 16; spec.evaluate.every <= 17; spec.evaluate.every++) {
        struct dataset *dataset = open_job();
        assert_int_equal(job_dataset_validation_batches(&spec.evaluate, &spec.train, dataset),
                         spec.evaluate.every == 16 ? 8 : 10); /* 6 micro-batches a step */
        dataset_close(dataset);
    }
}

/* 20 samples, 6 a step: a sample returns if another epoch begins after its own. */
static void test_which_samples_return(void **state)
{
    (void)state;
    prepare(0);
    struct dataset *dataset = open_job();
    spec.train.steps = 3; /* 18 samples */
    assert_false(job_dataset_repeats(&spec.train, dataset, 0));
    spec.train.steps = 4; /* 24: four of them are of a second epoch */
    assert_true(job_dataset_repeats(&spec.train, dataset, 0));
    assert_true(job_dataset_repeats(&spec.train, dataset, 19));
    assert_false(job_dataset_repeats(&spec.train, dataset, 20));
    spec.train.steps = 10; /* 60: three epochs */
    assert_true(job_dataset_repeats(&spec.train, dataset, 39));
    assert_false(job_dataset_repeats(&spec.train, dataset, 40));
    assert_int_equal(dataset_train_count(dataset), 20);
    bool seen[20] = {false};
    for (uint64_t position = 20; position < 40; position++)
        seen[dataset_train_sample(dataset, position)] = true;
    for (unsigned i = 0; i < ARRAY_COUNT(seen); i++)
        assert_true(seen[i]);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_what_counts_in_a_step),   IN_FOLDER(test_an_evaluation_of_nothing),
        IN_FOLDER(test_which_samples_return),    IN_FOLDER(test_how_much_an_evaluation_reads),
        IN_FOLDER(test_all_where_that_is_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
