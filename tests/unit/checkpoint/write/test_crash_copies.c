/*
 * Power cuts (crash_disk.h) on a node that gets a copy of a share long after the commit. In each
 * state the checkpoint's folder is absent, or has a manifest and all its earlier content; every
 * file of full size in it has the right bytes; once the copy has been reported, the whole share is
 * there. From each state the next attempt succeeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_share.h"
#include "lib/checkpoint/crash_disk.h"
#include "lib/checkpoint/two_nodes.h"

#define STEP 3

static struct two_nodes nodes;
static struct crash crash;
static const char *arriving; /* the node whose share is copied */
static bool began_with_a;    /* the folder has a's share from the beginning */

static int set_up(void **state)
{
    struct error error = {0};
    (void)state;
    memset(&crash, 0, sizeof(crash));
    two_nodes_start(&nodes);
    sample_folder(crash.recorded);
    sample_folder(crash.replay);
    return two_nodes_save(&nodes, io_threads_table(), STEP, &error);
}

static int tear_down(void **state)
{
    (void)state;
    record_done();
    two_nodes_stop(&nodes);
    sample_remove(crash.recorded);
    sample_remove(crash.replay);
    return 0;
}

static void copy(const char *folder, const char *writer, const struct io *io)
{
    struct error error = {0};
    const struct checkpoint_local local = {
        .io = io, .folder = folder, .node = "c", .step = STEP, .remote = nodes.remote};
    if (checkpoint_copy_share(&local, nodes.sha256, writer, &error) != 0)
        fail_msg("the share of %s: %s", writer, error.text);
}

static bool is_good(const char *path, const struct manifest_file *file)
{
    struct bytes content = {0};
    struct error error = {0};
    bool good = true;
    assert_int_equal(file_read(path, 1 << 24, &content, &error), 0);
    assert_int_equal(file->chunk_count, 1);
    good = hash_crc32c(0, content.data, content.size_bytes) == file->chunk_crcs[0];
    bytes_done(&content);
    return good;
}

static bool is_owed(const struct manifest_file *file, bool finished)
{
    if (file->node_count == 0)
        return true;
    const char *writer = file->nodes[0];
    return (finished && strcmp(writer, arriving) == 0) ||
           ((began_with_a || strcmp(arriving, "a") == 0) && strcmp(writer, "a") == 0);
}

static void check_file(const char *folder, const struct manifest_file *file, bool finished)
{
    char path[FOLDER_FILE_SIZE];
    struct stat status;
    folder_file_path(folder, file->name, path);
    bool there = stat(path, &status) == 0 && (uint64_t)status.st_size == file->size_bytes;
    if (there && !is_good(path, file))
        fail_msg("%s has other bytes", path);
    if (!there && is_owed(file, finished))
        fail_msg("%s is missing", path);
}

static void check_copy(struct crash *self, bool finished)
{
    char path[FOLDER_PATH_SIZE];
    struct manifest manifest;
    struct error error = {0};
    checkpoint_path(self->replay, STEP, path);
    bool named = access(path, F_OK) == 0;
    assert_true(named || !(finished || began_with_a));
    if (named) {
        if (manifest_load(path, nodes.sha256, &manifest, &error) != 0)
            fail_msg("%s", error.text);
        for (size_t i = 0; i < manifest.file_count; i++)
            check_file(path, &manifest.files[i], finished);
        manifest_done(&manifest);
    }
    self->present_count += named;
    copy(self->replay, arriving, io_threads_table());
    if (!finished)
        check_copy(self, true);
}

static void crash_a_copy(const char *writer)
{
    char path[FOLDER_PATH_SIZE];
    const struct io *io = record_table(io_threads_table());
    arriving = writer;
    checkpoint_path(crash.recorded, STEP, path);
    began_with_a = access(path, F_OK) == 0;
    if (began_with_a)
        record_present(path);
    crash.began = recording.count;
    copy(crash.recorded, writer, io);
    crash.check = check_copy;
    crash_everywhere(&crash);
    assert_true(crash.state_count > 12 && crash.present_count > 12);
}

static void test_a_new_folder_is_whole_or_absent(void **state)
{
    (void)state;
    crash_a_copy("a");
}

static void test_a_folder_that_is_there_stays_whole(void **state)
{
    (void)state;
    copy(crash.recorded, "a", io_threads_table());
    crash_a_copy("b");
}

/* A file of a wrong size makes way for a good one. */
static void test_a_damaged_copy_is_replaced_or_there(void **state)
{
    char path[FOLDER_PATH_SIZE], file[FOLDER_FILE_SIZE];
    (void)state;
    copy(crash.recorded, "a", io_threads_table());
    copy(crash.recorded, "b", io_threads_table());
    checkpoint_path(crash.recorded, STEP, path);
    folder_file_path(path, "model-00002-of-00002.safetensors", file);
    assert_int_equal(truncate(file, 100), 0);
    crash_a_copy("b");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_folder_is_whole_or_absent),
        TEST(test_a_folder_that_is_there_stays_whole),
        TEST(test_a_damaged_copy_is_replaced_or_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
