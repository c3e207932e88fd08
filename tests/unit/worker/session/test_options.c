/* Tests of the options that firnd passes to a worker on its command line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "worker/session/options.h"

#define ARGUMENTS_MAX 32

static const char *const complete[] = {
    "firn-worker",
    "--job",
    "demo",
    "--node",
    "a",
    "--slot",
    "3",
    "--threads",
    "2",
    "--listen",
    "10.0.0.1:760",
    "--socket",
    "/run/s",
    "--spec",
    "/d/spec.json",
    "--job-dir",
    "/d/jobs/demo",
    "--checkpoint-dir",
    "/ck/demo",
    "--data-digests-dir",
    "/d/data-digests",
    "--failure-timeout-ms",
    "700",
};

/* Parse the complete command line without @left_out (flag and value), with @more at its end. */
static int parse(const char *left_out, const char *const *more, struct worker_options *ret_options,
                 struct error *error)
{
    char *arguments[ARGUMENTS_MAX];
    int count = 0;

    for (size_t i = 0; i < ARRAY_COUNT(complete); i++)
        if (left_out && !strcmp(complete[i], left_out))
            i++;
        else
            arguments[count++] = (char *)(uintptr_t)complete[i];
    for (; more && *more; more++)
        arguments[count++] = (char *)(uintptr_t)*more;
    arguments[count] = NULL;
    *error = (struct error){0};
    return worker_options_parse(count, arguments, ret_options, error);
}

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_complete(void **state)
{
    struct worker_options options;
    struct error error;

    (void)state;
    assert_int_equal(parse(NULL, NULL, &options, &error), 0);
    assert_string_equal(options.job, "demo");
    assert_string_equal(options.node, "a");
    assert_int_equal(options.slot, 3);
    assert_int_equal(options.thread_count, 2);
    assert_string_equal(options.listen, "10.0.0.1:760");
    assert_string_equal(options.socket_path, "/run/s");
    assert_string_equal(options.spec_path, "/d/spec.json");
    assert_string_equal(options.job_dir, "/d/jobs/demo");
    assert_string_equal(options.checkpoint_dir, "/ck/demo");
    assert_string_equal(options.digests_dir, "/d/data-digests");
    assert_int_equal(options.failure_timeout_ns, 700 * NS_PER_MS);
}

static void test_defaults(void **state)
{
    struct worker_options options;
    struct error error;

    (void)state;
    assert_int_equal(parse("--threads", NULL, &options, &error), 0);
    assert_int_equal(options.thread_count, 1);
    assert_int_equal(parse("--slot", NULL, &options, &error), 0);
    assert_int_equal(options.slot, 0);
    assert_int_equal(parse("--failure-timeout-ms", NULL, &options, &error), 0);
    assert_int_equal(options.failure_timeout_ns, 1500 * NS_PER_MS);
    assert_int_equal(parse("--data-digests-dir", NULL, &options, &error), 0);
    assert_string_equal(options.digests_dir, "");
    assert_int_equal(parse(NULL, MORE("--threads", "0"), &options, &error), 0);
    assert_int_equal(options.thread_count, 1);
}

static void test_devices(void **state)
{
    struct worker_options options;
    struct error error;

    (void)state;
    assert_int_equal(parse(NULL, NULL, &options, &error), 0);
    assert_int_equal(options.device, KERNEL_BACKEND_CPU);
    assert_int_equal(parse(NULL, MORE("--device", "cuda"), &options, &error), 0);
    assert_int_equal(options.device, KERNEL_BACKEND_CUDA);
    assert_int_equal(options.device_index, 0);
    assert_int_equal(parse(NULL, MORE("--device", "cuda:3"), &options, &error), 0);
    assert_int_equal(options.device, KERNEL_BACKEND_CUDA);
    assert_int_equal(options.device_index, 3);
    assert_int_equal(parse(NULL, MORE("--device", "cpu"), &options, &error), 0);
    assert_int_equal(options.device, KERNEL_BACKEND_CPU);
}

static void test_each_missing_flag_is_named(void **state)
{
    static const char *const required[] = {"--job",  "--node",    "--listen",        "--socket",
                                           "--spec", "--job-dir", "--checkpoint-dir"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(required); i++) {
        struct worker_options options;
        struct error error;
        assert_int_equal(parse(required[i], NULL, &options, &error), -EINVAL);
        assert_ptr_equal(strstr(error.text, required[i]), error.text);
    }
}

static void check_refused(const char *const *more, const char *words)
{
    struct worker_options options, before;
    struct error error;

    memset(&options, 0x5a, sizeof(options));
    before = options;
    assert_int_equal(parse(NULL, more, &options, &error), -EINVAL);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_memory_equal(&options, &before, sizeof(options));
}

static void test_refused(void **state)
{
    char long_path[OPTIONS_PATH_SIZE + 1];

    (void)state;
    memset(long_path, 'x', OPTIONS_PATH_SIZE);
    long_path[OPTIONS_PATH_SIZE] = '\0';
    check_refused(MORE("--slot", "x"), "--slot: \"x\" is not a number");
    check_refused(MORE("--slot", "-1"), "--slot: \"-1\" is not a number");
    check_refused(MORE("--slot", "4097"), "--slot:");
    check_refused(MORE("--threads", "2.5"), "--threads:");
    check_refused(MORE("--threads", ""), "--threads:");
    check_refused(MORE("--failure-timeout-ms", "99999999999999999999"), "--failure-timeout-ms:");
    check_refused(MORE("--socket", long_path), "--socket: longer than 511 characters");
    check_refused(MORE("--device", "gpu"), "--device: \"gpu\" is not cpu, cuda or cuda:INDEX");
    check_refused(MORE("--device", "cuda:"), "--device: \"\" is not a number");
    check_refused(MORE("--speed", "9"), "--speed");
    check_refused(MORE("--slot"), "--slot");
    check_refused(MORE("--job-dir", "--socket"), "\"--socket\" looks like a flag");
}

static void test_help_and_version(void **state)
{
    struct worker_options options;
    struct error error;

    (void)state;
    assert_int_equal(parse(NULL, MORE("--help"), &options, &error), 1);
    assert_int_equal(parse(NULL, MORE("--version"), &options, &error), 1);
}

static void test_links_and_devices_are_as_they_are_said_to_be(void **state)
{
    static const char *const more[] = {"--link-checksums", "--link-any-address", "--device-digests",
                                       NULL};
    struct worker_options options;
    struct error error;

    (void)state;
    assert_int_equal(parse(NULL, NULL, &options, &error), 0);
    assert_false(options.link_checksums);
    assert_false(options.link_any_address);
    assert_false(options.device_digests);
    assert_int_equal(parse(NULL, more, &options, &error), 0);
    assert_true(options.link_checksums);
    assert_true(options.link_any_address);
    assert_true(options.device_digests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_each_missing_flag_is_named),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_links_and_devices_are_as_they_are_said_to_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
