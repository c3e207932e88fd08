/* Tests of --set on a job, and of the requested scale. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/job/job_settings.h"
#include "ctl/job/job_wish.h"

static struct job_spec spec;
static struct error error;

static int setup(void **state)
{
    (void)state;
    json_t *tree = json_pack("{s:s, s:{s:i, s:i, s:i, s:i}, s:{s:s}, s:{s:i, s:i}}", "name", "j",
                             "model", "layers", 2, "width", 8, "heads", 2, "context", 16, "data",
                             "path", "/x", "train", "steps", 500, "lanes", 4);
    memset(&error, 0, sizeof(error));
    int status = job_spec_decode(tree, "test", NULL, NULL, &spec, &error);
    json_decref(tree);
    return status;
}

#define PARSE(...)                                                                                 \
    ({                                                                                             \
        static struct arguments arguments;                                                         \
        const char *words[] = {"job", "submit", "f.yaml", __VA_ARGS__};                            \
        assert_int_equal(arguments_parse((int)ARRAY_COUNT(words), words, &arguments, &error), 0);  \
        &arguments;                                                                                \
    })

static void test_keys_are_set_by_their_type(void **state)
{
    (void)state;
    assert_int_equal(
        job_settings_apply(PARSE("--set", "train.steps=200", "--set", "train.optimizer.lr=2e-3",
                                 "--set", "elastic.freeze.policy=schedule", "--set",
                                 "data.path=[/a, /b]"),
                           &spec, &error),
        0);
    assert_int_equal(spec.train.steps, 200);
    assert_true(spec.train.optimizer.lr == 2e-3);
    assert_int_equal(spec.elastic.freeze.policy, JOB_FREEZE_SCHEDULE);
    assert_int_equal(spec.data.path.count, 2);
    assert_string_equal(spec.data.path.paths[1], "/b");
    assert_int_equal(spec.train.lanes, 4); /* the rest stays */
}

static void test_what_follows_from_other_keys_follows_the_changed_ones(void **state)
{
    (void)state;
    assert_int_equal(spec.model.vocab, 256);
    assert_int_equal(job_settings_apply(PARSE("--set", "data.format=llmc"), &spec, &error), 0);
    assert_int_equal(spec.model.vocab, 50257);
}

static void test_a_value_that_was_chosen_stays(void **state)
{
    (void)state;
    spec.model.vocab = 300;
    assert_int_equal(job_settings_apply(PARSE("--set", "data.format=llmc"), &spec, &error), 0);
    assert_int_equal(spec.model.vocab, 300);
}

static void test_a_setting_changes_its_key_alone(void **state)
{
    (void)state;
    snprintf(spec.data.validation_path, sizeof(spec.data.validation_path), "/held/out.bin");
    spec.evaluate.every = 7;
    struct job_spec expected = spec;
    expected.elastic.devices_max = 2;
    assert_int_equal(job_settings_apply(PARSE("--set", "elastic.devices.max=2"), &spec, &error), 0);
    json_t *is = job_spec_encode(&spec), *should_be = job_spec_encode(&expected);
    assert_true(json_equal(is, should_be));
    json_decref(is);
    json_decref(should_be);
}

static void test_relative_paths_are_from_here(void **state)
{
    (void)state;
    char here[JOB_PATH_SIZE], expected[2 * JOB_PATH_SIZE];
    assert_non_null(getcwd(here, sizeof(here)));
    snprintf(expected, sizeof(expected), "%s/d.txt", here);
    assert_int_equal(job_settings_apply(PARSE("--set", "data.path=d.txt"), &spec, &error), 0);
    assert_string_equal(spec.data.path.paths[0], expected);
}

static void test_bad_settings_change_nothing(void **state)
{
    (void)state;
    const char *bad[][2] = {{"train.steps", "KEY=VALUE"},        {"=5", "KEY=VALUE"},
                            {"train.stesp=5", "train.steps?"},   {"lanes=5", "train.lanes?"},
                            {"train.steps=many", "train.steps"}, {"train.steps=0", "train.steps"},
                            {"model.heads=3", "heads"},          {"train.steps=[", "--set"}};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct job_spec before = spec;
        memset(&error, 0, sizeof(error));
        assert_int_equal(job_settings_apply(PARSE("--set", bad[i][0]), &spec, &error),
                         COMMAND_USAGE);
        if (!strstr(error.text, bad[i][1]))
            fail_msg("\"%s\" does not say \"%s\"", error.text, bad[i][1]);
        assert_memory_equal(&before, &spec, sizeof(spec));
    }
}

static void test_a_scale_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct desired_record desired = {0};
    assert_int_equal(job_wish_scale(PARSE("--devices", "6", "--stages", "3", "--replicas", "2"),
                                    &spec.model, &spec.train, &desired, &error),
                     0);
    assert_true(desired.devices == 6 && desired.stages == 3 && desired.replicas == 2);
    assert_int_equal(
        job_wish_scale(PARSE("--stages", "7"), &spec.model, &spec.train, &desired, &error),
        COMMAND_USAGE);
    assert_non_null(strstr(error.text, "6 units"));
    assert_int_equal(
        job_wish_scale(PARSE("--replicas", "5"), &spec.model, &spec.train, &desired, &error),
        COMMAND_USAGE);
    assert_non_null(strstr(error.text, "4 lanes"));
    assert_int_equal(job_wish_scale(PARSE("--devices", "5", "--stages", "3", "--replicas", "2"),
                                    &spec.model, &spec.train, &desired, &error),
                     COMMAND_USAGE);
    assert_int_equal(job_wish_scale(PARSE("--wait"), &spec.model, &spec.train, &desired, &error),
                     0);
    assert_true(desired.devices == 0 && desired.stages == 0 && desired.replicas == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_keys_are_set_by_their_type, setup),
        cmocka_unit_test_setup(test_what_follows_from_other_keys_follows_the_changed_ones, setup),
        cmocka_unit_test_setup(test_a_value_that_was_chosen_stays, setup),
        cmocka_unit_test_setup(test_a_setting_changes_its_key_alone, setup),
        cmocka_unit_test_setup(test_relative_paths_are_from_here, setup),
        cmocka_unit_test_setup(test_bad_settings_change_nothing, setup),
        cmocka_unit_test_setup(test_a_scale_that_cannot_be_is_refused, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
