/* Tests, before any checkpoint, whether one can be written to this folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/write/writable.h"

static char base[64], folder[128];

static int set_up(void **state)
{
    (void)state;
    strcpy(base, "/tmp/firn-writable-XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(folder, sizeof(folder), "%s/job", base);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(base); /* nothing is left in it */
}

static unsigned entries(const char *path)
{
    unsigned count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2; /* "." and ".." */
}

static void test_a_folder_that_is_there_is_left_empty(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(checkpoint_writable(folder, 1, &error), 0);
    assert_int_equal(entries(folder), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Without its disk, a newly made folder would look as if all checkpoints were lost. */
static void test_a_folder_that_is_not_there_is_not_made(void **state)
{
    (void)state;
    char below[sizeof(folder) + 8];
    struct error error = {0};
    snprintf(below, sizeof(below), "%s/below", folder);
    assert_int_equal(checkpoint_writable(below, 1, &error), 0);
    assert_int_equal(entries(base), 0);
}

static void test_too_little_room_is_said_in_bytes(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(checkpoint_writable(folder, UINT64_MAX, &error), -ENOSPC);
    assert_non_null(strstr(error.text, base));
    assert_non_null(strstr(error.text, "takes up to"));
    assert_int_equal(entries(base), 0);
}

static void test_what_cannot_be_written_is_said_with_its_cause(void **state)
{
    (void)state;
    struct error error = {0};
    /* The check fails for root, too, although root has more rights. */
    assert_true(checkpoint_writable("/proc/nowhere", 0, &error) < 0);
    assert_non_null(strstr(error.text, "/proc"));
    assert_true(checkpoint_writable("/proc/self", 0, &error) < 0); /* a folder of no disk */
    assert_non_null(strstr(error.text, "/proc/self"));
    assert_int_equal(checkpoint_writable("/dev/null/job", 0, &error), -ENOTDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_folder_that_is_there_is_left_empty, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_that_is_not_there_is_not_made, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_too_little_room_is_said_in_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written_is_said_with_its_cause, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
