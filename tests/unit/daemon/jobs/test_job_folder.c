#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "daemon/jobs/job_folder.h"

static char base[] = "/tmp/firn-job-folder-XXXXXX";

static void path_of(const char *leaf, char ret_path[256])
{
    snprintf(ret_path, 256, "%s/%s", base, leaf);
}

static void write_metrics(void)
{
    char path[256];
    struct error error = {0};

    path_of("job/metrics.jsonl", path);
    assert_int_equal(file_replace(path, "{}\n", 3, 0644, &error), 0);
}

static bool there(const char *leaf)
{
    char path[256];

    path_of(leaf, path);
    return access(path, F_OK) == 0;
}

static void test_the_same_submission_keeps_its_folder(void **state)
{
    char dir[256];
    struct error error = {0};
    bool was_its;

    (void)state;
    path_of("job", dir);
    assert_int_equal(job_folder_open(dir, 42, &was_its, &error), 0);
    assert_false(was_its);
    write_metrics();
    assert_int_equal(job_folder_open(dir, 42, &was_its, &error), 0);
    assert_true(was_its);
    assert_true(there("job/metrics.jsonl"));
}

static void test_another_submission_sets_it_aside(void **state)
{
    char dir[256];
    struct error error = {0};
    bool was_its;

    (void)state;
    path_of("job", dir);
    assert_int_equal(job_folder_open(dir, 77, &was_its, &error), 0);
    assert_false(was_its);
    assert_false(there("job/metrics.jsonl"));
    assert_true(there("job.42/metrics.jsonl"));
    assert_int_equal(job_folder_open(dir, 77, &was_its, &error), 0);
    assert_true(was_its);
}

static void test_a_folder_that_cannot_be_made_is_named(void **state)
{
    struct error error = {0};
    bool was_its;

    (void)state;
    assert_int_not_equal(job_folder_open("/proc/firn-cannot-be-made", 1, &was_its, &error), 0);
    assert_non_null(strstr(error.text, "/proc/firn-cannot-be-made"));
}

static int make_base(void **state)
{
    (void)state;
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
    char command[300];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", base);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_submission_keeps_its_folder),
        cmocka_unit_test(test_another_submission_sets_it_aside),
        cmocka_unit_test(test_a_folder_that_cannot_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
