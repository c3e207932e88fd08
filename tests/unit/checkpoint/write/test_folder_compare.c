/* Tests of committing a step that already exists, and of the definition of a lost checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/write/folder_compare.h"
#include "checkpoint/write/retain.h"
#include "lib/checkpoint/sample.h"

#define STEP 7

static char folder[64], step_path[FOLDER_PATH_SIZE];

static int set_up(void **state)
{
    (void)state;
    sample_folder(folder);
    sample_write(folder, STEP, 2);
    checkpoint_path(folder, STEP, step_path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sample_remove(folder);
    return 0;
}

static bool there(const char *name)
{
    char path[FOLDER_PATH_SIZE + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* The sealed manifest that a run on another layout, generation 1 too, would commit. */
static void manifest_of(uint64_t seed, struct manifest *ret_manifest)
{
    char other[64], path[FOLDER_PATH_SIZE];
    struct error error = {0};
    struct sample sample;
    const char *why;
    const struct io *io = io_probe(&why);
    struct checkpoint_writer *writer = sample_writer(io, 0);
    sample_folder(other);
    sample_init(&sample, seed);
    assert_int_equal(sample_save_values(writer, io, other, STEP, 3, &sample, &error), 0);
    sample_done(&sample);
    checkpoint_writer_stop(writer);
    checkpoint_path(other, STEP, path);
    assert_int_equal(manifest_load(path, NULL, ret_manifest, &error), 0);
    sample_remove(other);
}

static int find(uint64_t seed, char ret_path[1024], char ret_sha256[65], struct error *error)
{
    struct manifest manifest;
    manifest_of(seed, &manifest);
    int status = folder_compare(folder, &manifest, ret_path, ret_sha256, error);
    manifest_done(&manifest);
    return status;
}

static void flip_byte(const char *name, off_t offset)
{
    char path[FOLDER_FILE_SIZE];
    uint8_t byte;
    folder_file_path(step_path, name, path);
    AUTO_CLOSE int descriptor = open(path, O_RDWR);
    assert_int_equal(pread(descriptor, &byte, 1, offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(descriptor, &byte, 1, offset), 1);
}

static void test_the_same_state_stands(void **state)
{
    (void)state;
    char path[1024], sha256[65];
    struct error error = {0};
    struct manifest manifest;
    assert_int_equal(find(STEP, path, sha256, &error), FOLDER_COMPARE_STANDS);
    assert_string_equal(path, step_path);
    assert_int_equal(manifest_load(path, sha256, &manifest, &error), 0);
    manifest_done(&manifest);
    assert_int_equal(sample_check(folder, STEP, &error), 0);
}

static void test_nothing_there(void **state)
{
    (void)state;
    char path[1024], sha256[65];
    struct error error = {0};
    sample_remove(step_path);
    assert_int_equal(find(STEP, path, sha256, &error), FOLDER_COMPARE_ABSENT);
}

static void test_another_state_is_refused(void **state)
{
    (void)state;
    char path[1024], sha256[65];
    struct error error = {0};
    assert_int_equal(find(STEP + 1, path, sha256, &error), -EEXIST);
    assert_non_null(strstr(error.text, "holds another state"));
    assert_int_equal(sample_check(folder, STEP, &error), 0);
}

/* One byte in each file in turn: no damaged checkpoint may stay, all make room. */
static void test_a_damaged_one_makes_room(void **state)
{
    (void)state;
    char names[16][256];
    unsigned count = 0;
    const struct dirent *entry;
    DIR *directory = opendir(step_path);
    while ((entry = readdir(directory))) {
        if (entry->d_name[0] != '.')
            snprintf(names[count++], sizeof(names[0]), "%s", entry->d_name);
    }
    closedir(directory);
    assert_int_equal(count, 2 * 2 + 3);
    for (unsigned i = 0; i < count; i++) {
        char path[1024], sha256[65];
        struct error error = {0};
        flip_byte(names[i], 11);
        assert_int_equal(find(STEP, path, sha256, &error), FOLDER_COMPARE_ABSENT);
        assert_false(there("step-0000000007"));
        assert_true(there("step-0000000007.damaged")); /* the newest damaged one */
        sample_write(folder, STEP, 2);
        assert_int_equal(sample_check(folder, STEP, &error), 0);
    }
}

/* Data that only a full read finds. */
static void test_damage_deep_inside_is_found(void **state)
{
    (void)state;
    char path[1024], sha256[65];
    struct error error = {0};
    flip_byte("optimizer-00001-of-00002.safetensors", 4096 + 100);
    assert_int_equal(find(STEP, path, sha256, &error), FOLDER_COMPARE_ABSENT);
    assert_true(there("step-0000000007.damaged"));
}

static void test_damaged_ones_go_with_their_age(void **state)
{
    (void)state;
    char path[1024], sha256[65];
    struct error error = {0};
    flip_byte("config.json", 3);
    assert_int_equal(find(STEP, path, sha256, &error), FOLDER_COMPARE_ABSENT);
    sample_write(folder, STEP, 1);
    sample_write(folder, STEP + 1, 1);
    assert_int_equal(checkpoint_retain(folder, 2, STEP + 1, 0, &error), 0);
    assert_true(there("step-0000000007.damaged"));
    sample_write(folder, STEP + 2, 1);
    assert_int_equal(checkpoint_retain(folder, 2, STEP + 2, 0, &error), 0);
    assert_false(there("step-0000000007.damaged"));
    assert_false(there("step-0000000007"));
    assert_true(there("step-0000000008"));
}

static void test_what_is_lost_and_what_is_only_out_of_reach(void **state)
{
    (void)state;
    char file[FOLDER_FILE_SIZE];
    assert_true(checkpoint_is_lost(step_path, -EBADMSG));
    assert_false(checkpoint_is_lost(step_path, -EIO)); /* a file server that is away */
    assert_false(checkpoint_is_lost(step_path, -ENOMEM));
    assert_false(checkpoint_is_lost(step_path, -EACCES));
    folder_file_path(step_path, "config.json", file);
    assert_int_equal(unlink(file), 0);
    assert_true(checkpoint_is_lost(step_path, -ENOENT)); /* a file of it */
    sample_remove(step_path);
    assert_true(checkpoint_is_lost(step_path, -ENOENT)); /* it, but the job's folder is there */
    assert_false(checkpoint_is_lost("/not/mounted/step-0000000007", -ENOENT));
    assert_false(checkpoint_is_lost("step-0000000007", -ENOENT));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_same_state_stands),
        TEST(test_nothing_there),
        TEST(test_another_state_is_refused),
        TEST(test_a_damaged_one_makes_room),
        TEST(test_damage_deep_inside_is_found),
        TEST(test_damaged_ones_go_with_their_age),
        TEST(test_what_is_lost_and_what_is_only_out_of_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
