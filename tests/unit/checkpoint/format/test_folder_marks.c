/* Pins, removal on demand, and the effect of both on retention. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/write/retain.h"
#include "lib/checkpoint/sample.h"

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    sample_folder(folder);
    for (uint64_t step = 10; step <= 50; step += 10)
        sample_write(folder, step, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sample_remove(folder);
    return 0;
}

static const char *path_of(uint64_t step)
{
    static char path[FOLDER_PATH_SIZE];
    checkpoint_path(folder, step, path);
    return path;
}

static bool there(uint64_t step)
{
    return access(path_of(step), F_OK) == 0;
}

static void test_pinned_ones_stay_on_top_of_the_newest(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(checkpoint_pin(path_of(20), &error), 0);
    assert_int_equal(checkpoint_pin(path_of(20), &error), 0);
    assert_int_equal(checkpoint_pin(path_of(50), &error), 0);
    assert_true(checkpoint_pinned(path_of(20)));
    assert_int_equal(checkpoint_retain(folder, 1, 50, 0, &error), 0);
    assert_false(there(10));
    assert_true(there(20));
    assert_false(there(30));
    assert_true(there(40));
    assert_true(there(50));
    assert_int_equal(sample_check(folder, 20, &error), 0); /* a pin is no damage */
    assert_int_equal(checkpoint_unpin(path_of(20), &error), 0);
    assert_int_equal(checkpoint_unpin(path_of(20), &error), 0);
    assert_false(checkpoint_pinned(path_of(20)));
    assert_int_equal(checkpoint_retain(folder, 1, 50, 0, &error), 0);
    assert_false(there(20));
    assert_true(there(50));
}

/* Step 10 was the newest verified checkpoint when records were decided; step 40 was verified
 * since. */
static void test_one_whose_record_stays_is_spared(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(checkpoint_mark_verified(path_of(10), &error), 0);
    assert_int_equal(checkpoint_mark_verified(path_of(40), &error), 0);
    assert_int_equal(checkpoint_retain(folder, 2, 50, 10, &error), 0);
    assert_true(there(10) && there(40) && there(50));
    assert_false(there(20));
    assert_int_equal(checkpoint_retain(folder, 2, 50, 0, &error), 0);
    assert_false(there(10));
}

static void test_the_newest_verified_one_is_never_removed(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(checkpoint_mark_verified(path_of(10), &error), 0);
    assert_int_equal(checkpoint_mark_verified(path_of(20), &error), 0);
    assert_true(checkpoint_verified(path_of(20)));
    assert_int_equal(sample_check(folder, 20, &error), 0); /* a mark is no damage */
    assert_int_equal(checkpoint_retain(folder, 2, 50, 0, &error), 0);
    assert_false(there(10)); /* verified too, but not the newest that is */
    assert_true(there(20));  /* on top of the two newest */
    assert_false(there(30));
    assert_true(there(40) && there(50));
    assert_int_equal(checkpoint_mark_verified(path_of(40), &error), 0);
    assert_int_equal(checkpoint_retain(folder, 2, 50, 0, &error), 0);
    assert_false(there(20));
    assert_true(there(40) && there(50));
}

/* A run went back to step 10 and has reached step 30 again: 40 and 50 are still ahead of it. */
static void test_what_lies_ahead_stays(void **state)
{
    (void)state;
    struct error error = {0};
    char part[FOLDER_PATH_SIZE];
    checkpoint_part_path(folder, 40, 7, part);
    assert_int_equal(mkdir(part, 0755), 0); /* being written already */
    assert_int_equal(checkpoint_retain(folder, 2, 30, 0, &error), 0);
    assert_false(there(10));
    for (uint64_t step = 20; step <= 50; step += 10)
        assert_true(there(step));
    assert_int_equal(access(part, F_OK), 0);
}

static void test_only_checkpoints_can_be_pinned(void **state)
{
    (void)state;
    struct error error = {0};
    char path[FOLDER_FILE_SIZE];
    assert_int_equal(checkpoint_pin(path_of(70), &error), -ENOENT);
    assert_non_null(strstr(error.text, "step-0000000070"));
    assert_int_equal(checkpoint_unpin(path_of(70), &error), -ENOENT);
    folder_file_path(path_of(30), MANIFEST_NAME, path);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(checkpoint_pin(path_of(30), &error), -EBADMSG);
    assert_false(checkpoint_pinned(path_of(30)));
}

static void test_removal_spares_the_pinned_and_the_newest(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(checkpoint_pin(path_of(20), &error), 0);
    assert_int_equal(checkpoint_remove(path_of(20), true, &error), -EPERM);
    assert_int_equal(checkpoint_remove(path_of(50), false, &error), -EBUSY);
    assert_int_equal(checkpoint_remove(path_of(60), false, &error), -ENOENT);
    assert_int_equal(checkpoint_remove(folder, false, &error), -EINVAL);
    assert_int_equal(checkpoint_removable(path_of(30), false, &error), 0);
    assert_true(there(20) && there(50));
    assert_int_equal(checkpoint_remove(path_of(30), false, &error), 0);
    assert_false(there(30));
    assert_int_equal(checkpoint_remove(path_of(50), true, &error), 0);
    assert_false(there(50));
    assert_int_equal(checkpoint_remove(path_of(40), false, &error), -EBUSY);
}

/* A job does not resume from the newest name if its manifest is damaged. */
static void test_a_damaged_one_can_be_removed(void **state)
{
    (void)state;
    struct error error = {0};
    char path[FOLDER_FILE_SIZE];
    folder_file_path(path_of(50), MANIFEST_NAME, path);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(checkpoint_remove(path_of(40), false, &error), -EBUSY);
    assert_int_equal(checkpoint_remove(path_of(50), false, &error), 0);
    assert_false(there(50));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pinned_ones_stay_on_top_of_the_newest),
        TEST(test_what_lies_ahead_stays),
        TEST(test_one_whose_record_stays_is_spared),
        TEST(test_the_newest_verified_one_is_never_removed),
        TEST(test_only_checkpoints_can_be_pinned),
        TEST(test_removal_spares_the_pinned_and_the_newest),
        TEST(test_a_damaged_one_can_be_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
