/* Asked before there is a checkpoint: can one be written to this folder? */
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
#include <unistd.h>

#include "checkpoint/writable.h"

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
    rmdir(folder);
    return rmdir(base); /* nothing is left in it */
}

static unsigned entries(void)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2; /* "." and ".." */
}

static void a_folder_that_can_be_made_and_written_is_left_empty(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(checkpoint_writable(folder, 1, &error), 0);
    assert_int_equal(entries(), 0);
    assert_int_equal(checkpoint_writable(folder, 0, &error), 0); /* it is there by now */
}

static void too_little_room_is_said_in_bytes(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(checkpoint_writable(folder, UINT64_MAX, &error), -ENOSPC);
    assert_non_null(strstr(error.text, folder));
    assert_non_null(strstr(error.text, "takes up to"));
    assert_int_equal(entries(), 0);
}

static void what_cannot_be_written_is_said_with_its_cause(void **state)
{
    (void)state;
    struct error error = {0};
    /* Also for root, who may do more than others. */
    assert_true(checkpoint_writable("/proc/nowhere", 0, &error) < 0);
    assert_non_null(strstr(error.text, "/proc/nowhere"));
    assert_true(checkpoint_writable("/proc/self", 0, &error) < 0); /* a folder of no disk */
    assert_non_null(strstr(error.text, "/proc/self"));
    assert_int_equal(checkpoint_writable("/dev/null/job", 0, &error), -ENOTDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_that_can_be_made_and_written_is_left_empty, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(too_little_room_is_said_in_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_said_with_its_cause, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
