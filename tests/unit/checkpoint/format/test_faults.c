/*
 * Fail the k-th operation of a save, for every k until the save succeeds, with every kind of
 * failure: the new checkpoint is absent or complete, the old checkpoint is untouched, no partial
 * file stays if the disk allows its removal, and the same writer then saves the next checkpoint.
 */
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

#include "checkpoint/format/folder.h"
#include "lib/checkpoint/fault_io.h"
#include "lib/checkpoint/sample.h"

#define OLD   1
#define NEW   2
#define AFTER 3

static unsigned count_entries(const char *folder)
{
    unsigned count = 0;
    const struct dirent *entry;
    DIR *directory = opendir(folder);
    while ((entry = readdir(directory)))
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void remove_step(const char *folder, uint64_t step)
{
    char path[1024];
    checkpoint_path(folder, step, path);
    sample_remove(path);
    checkpoint_part_path(folder, step, 1, path);
    sample_remove(path);
}

static bool step_exists(const char *folder, uint64_t step)
{
    char path[1024];
    checkpoint_path(folder, step, path);
    return access(path, F_OK) == 0;
}

static void assert_valid(const char *folder, uint64_t step)
{
    struct error error = {0};
    if (sample_check(folder, step, &error) != 0)
        fail_msg("step %u: %s", (unsigned)step, error.text);
}

struct kind {
    int code;
    bool torn, stay_dead;
};

/* One k of one kind; whether the save succeeded, which ends the series. */
static bool try_one(struct checkpoint_writer *writer, const struct io *io, const char *folder,
                    const struct kind *kind, uint64_t k)
{
    struct error error = {0};
    fault_arm(k, kind->code, kind->torn, kind->stay_dead);
    int status = sample_save(writer, io, folder, NEW, 2, &error);
    bool hit = fault.count > k;
    fault_disarm();
    if (status != 0) {
        assert_int_equal(status, kind->code);
        assert_int_equal(error.code, kind->code);
        assert_non_null(strstr(error.text, folder));
        assert_non_null(strstr(error.text, strerror(-kind->code)));
    }
    assert_valid(folder, OLD);
    if (step_exists(folder, NEW))
        assert_valid(folder, NEW);
    else
        assert_true(status != 0);
    remove_step(folder, NEW);
    return !hit;
}

static void run(const struct io *inner, const struct kind *kinds, size_t count)
{
    char folder[64];
    sample_folder(folder);
    const struct io *io = fault_table(inner);
    fault_disarm();
    struct checkpoint_writer *writer = sample_writer(io, 8192);
    struct error error = {0};
    assert_int_equal(sample_save(writer, io, folder, OLD, 2, &error), 0);
    for (size_t i = 0; i < count; i++) {
        uint64_t k = 0;
        while (!try_one(writer, io, folder, &kinds[i], k))
            k++;
        assert_true(k > 60); /* the fault really travelled through the whole save */
    }
    assert_int_equal(sample_save(writer, io, folder, AFTER, 2, &error), 0);
    assert_valid(folder, AFTER);
    checkpoint_writer_stop(writer);
    sample_remove(folder);
}

static void test_every_operation_fails_once(void **state)
{
    (void)state;
    static const struct kind kinds[] = {
        {-ENOSPC, false, false}, {-EIO, false, false}, {-EIO, true, false}, {-EINTR, false, false}};
    run(io_threads_table(), kinds, ARRAY_COUNT(kinds));
}

/* A link that fails is no failure of the save: the file is written instead. */
static void test_every_operation_fails_with_frozen_units(void **state)
{
    (void)state;
    static const struct kind kinds[] = {
        {-EXDEV, false, false}, {-EIO, false, false}, {-ENOSPC, false, true}};
    sample_frozen = 4;
    run(io_threads_table(), kinds, ARRAY_COUNT(kinds));
    sample_frozen = 0;
}

static void test_the_disk_dies_at_every_operation(void **state)
{
    (void)state;
    const char *why;
    static const struct kind kinds[] = {{-EIO, true, true}, {-ENOSPC, false, true}};
    run(io_probe(&why), kinds, ARRAY_COUNT(kinds));
}

static int create_in_a_removed_folder(struct io_context *context, const char *path, bool direct)
{
    (void)context;
    (void)path;
    (void)direct;
    return -ENOENT;
}

/* A peer that failed has removed the folder: its failure is the cause, and not a missing folder. */
static void test_a_folder_that_a_peer_removed_is_no_trouble_of_its_own(void **state)
{
    (void)state;
    char folder[64];
    sample_folder(folder);
    struct error error = {0};
    struct io io = *io_threads_table();
    io.create = create_in_a_removed_folder;
    struct checkpoint_writer *writer = sample_writer(&io, 8192);
    assert_int_equal(sample_save(writer, &io, folder, NEW, 2, &error), -ECANCELED);
    assert_int_equal(error.code, -ECANCELED);
    assert_non_null(strstr(error.text, "another worker gave the checkpoint up"));
    checkpoint_writer_stop(writer);
    sample_remove(folder);
}

/* A share that fails on a disk that still removes files leaves nothing at all. */
static void test_a_failed_share_leaves_nothing(void **state)
{
    (void)state;
    char folder[64];
    sample_folder(folder);
    const struct io *io = fault_table(io_threads_table());
    fault_disarm();
    struct checkpoint_writer *writer = sample_writer(io, 8192);
    for (uint64_t k = 0;; k++) {
        struct sample sample;
        struct manifest part;
        struct checkpoint_tensor tensors[SAMPLE_TENSORS];
        struct error error = {0};
        sample_init(&sample, NEW);
        struct checkpoint_share share = sample_share(&sample, folder, NEW, 0, 1, tensors);
        fault_arm(k, -ENOSPC, false, false);
        assert_int_equal(checkpoint_writer_begin(writer, &share), 0);
        checkpoint_writer_release_wait(writer);
        int status = checkpoint_writer_wait(writer, UINT64_MAX / 2, &part, &error);
        bool hit = fault.count > k;
        fault_disarm();
        sample_done(&sample);
        if (!hit) {
            assert_int_equal(status, 1);
            manifest_done(&part);
            break;
        }
        assert_int_equal(status, -ENOSPC);
        assert_int_equal(count_entries(folder), 0);
    }
    checkpoint_writer_stop(writer);
    sample_remove(folder);
}

/* The promise about a full disk: path and bytes, before anything is staged. */
static void test_a_full_disk_says_what_is_needed(void **state)
{
    (void)state;
    char folder[64];
    struct error error = {0};
    sample_folder(folder);
    const struct io *io = fault_table(io_threads_table());
    struct checkpoint_writer *writer = sample_writer(io, 8192);
    fault_arm(3, -ENOSPC, false, false); /* folder, unlink, create, reserve */
    assert_int_equal(sample_save(writer, io, folder, NEW, 1, &error), -ENOSPC);
    fault_disarm();
    assert_non_null(strstr(error.text, "model-00001-of-00001.safetensors"));
    assert_non_null(strstr(error.text, "bytes that"));
    assert_non_null(strstr(error.text, strerror(ENOSPC)));
    checkpoint_writer_stop(writer);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_fails_once),
        cmocka_unit_test(test_every_operation_fails_with_frozen_units),
        cmocka_unit_test(test_the_disk_dies_at_every_operation),
        cmocka_unit_test(test_a_folder_that_a_peer_removed_is_no_trouble_of_its_own),
        cmocka_unit_test(test_a_failed_share_leaves_nothing),
        cmocka_unit_test(test_a_full_disk_says_what_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
