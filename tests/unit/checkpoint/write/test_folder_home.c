/* The folder of a job's checkpoints is made once, and on the disk that it belongs to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/write/folder_home.h"

static char base[64], disk[80], folder[96];
static const struct io *io;
static struct io_context *context;

static int set_up(void **state)
{
    (void)state;
    strcpy(base, "/tmp/firn-home-XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(disk, sizeof(disk), "%s/disk", base);
    snprintf(folder, sizeof(folder), "%s/job", disk);
    io = io_threads_table();
    return mkdir(disk, 0700) != 0 ? -1 : io->open(1, NULL, 0, &context, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    io->close(context);
    rmdir(folder);
    rmdir(disk);
    return rmdir(base);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void test_a_new_folder_is_made_at_the_first_checkpoint(void **state)
{
    struct checkpoint_home home;
    struct error error = {0};
    (void)state;
    checkpoint_home_init(&home, folder);
    assert_false(is_there(folder));
    assert_int_equal(checkpoint_home_enter(&home, io, context, &error), 0);
    assert_true(is_there(folder));
    assert_int_equal(checkpoint_home_enter(&home, io, context, &error), 0);
}

static void assert_gone(struct checkpoint_home *home, const char *path)
{
    struct error error = {0};
    assert_int_equal(checkpoint_home_enter(home, io, context, &error), -ENODEV);
    assert_non_null(strstr(error.text, path));
    assert_false(is_there(folder));
}

/* With network disks the folder is another one afterwards. */
static void test_one_that_is_gone_is_waited_for(void **state)
{
    struct checkpoint_home home;
    struct error error = {0};
    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    checkpoint_home_init(&home, folder);
    assert_int_equal(rmdir(folder), 0);
    assert_gone(&home, folder);
    assert_gone(&home, folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(checkpoint_home_enter(&home, io, context, &error), 0);
}

static void test_one_that_was_made_here_is_not_made_again(void **state)
{
    struct checkpoint_home home;
    struct error error = {0};
    (void)state;
    checkpoint_home_init(&home, folder);
    assert_int_equal(checkpoint_home_enter(&home, io, context, &error), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_gone(&home, folder);
}

/* Another node makes the folder in the meantime; it vanishes before this node wants it again. */
static void test_one_that_was_seen_is_not_made_again(void **state)
{
    struct checkpoint_home home;
    struct error error = {0};
    (void)state;
    checkpoint_home_init(&home, folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(checkpoint_home_enter(&home, io, context, &error), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_gone(&home, folder);
}

/* The mount point looks like the disk, and is another folder. */
static void test_it_is_not_made_on_another_disk(void **state)
{
    char away[96];
    struct checkpoint_home home;
    struct error error = {0};
    (void)state;
    snprintf(away, sizeof(away), "%s/away", base);
    checkpoint_home_init(&home, folder);
    assert_int_equal(rename(disk, away), 0);
    assert_gone(&home, disk); /* nothing is there */
    assert_int_equal(mkdir(disk, 0700), 0);
    assert_gone(&home, disk); /* another one is */
    assert_int_equal(rmdir(disk), 0);
    assert_int_equal(rename(away, disk), 0);
    assert_int_equal(checkpoint_home_enter(&home, io, context, &error), 0);
    assert_true(is_there(folder));
}

static void test_what_refuses_to_make_it_is_said(void **state)
{
    struct checkpoint_home home;
    struct error error = {0};
    (void)state;
    checkpoint_home_init(&home, "/proc/nowhere/job");
    assert_true(checkpoint_home_enter(&home, io, context, &error) < 0);
    assert_non_null(strstr(error.text, "/proc/nowhere/job"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_new_folder_is_made_at_the_first_checkpoint, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_one_that_is_gone_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_that_was_made_here_is_not_made_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_one_that_was_seen_is_not_made_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_it_is_not_made_on_another_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_refuses_to_make_it_is_said, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
