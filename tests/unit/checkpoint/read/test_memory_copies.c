/*
 * Fail the k-th allocation, for every k until all succeed, in work with other nodes: copying a
 * share here, opening and reading a checkpoint from elsewhere, exporting it from there, and
 * verifying it on all nodes. A node that could not be asked for lack of memory counts as away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/export.h"
#include "checkpoint/read/verify_copies.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_share.h"
#include "lib/checkpoint/two_nodes.h"
#include "lib/memory/fault_memory.h"

#define STEP 3

static struct two_nodes nodes;
static char folder_of_c[64], path_of_c[FOLDER_PATH_SIZE];
static struct error failure; /* of the last thing that failed */

static int set_up(void **state)
{
    (void)state;
    two_nodes_start(&nodes);
    sample_folder(folder_of_c);
    checkpoint_path(folder_of_c, STEP, path_of_c);
    return two_nodes_save(&nodes, io_threads_table(), STEP, &failure);
}

static int tear_down(void **state)
{
    (void)state;
    two_nodes_stop(&nodes);
    sample_remove(folder_of_c);
    return 0;
}

/* Make a new remote for each run: a remote remembers silent nodes for a while. */
static int with_remote(int (*run)(struct checkpoint_remote *remote))
{
    const struct checkpoint_remote_node both[2] = {nodes.servers[0].node, nodes.servers[1].node};
    struct checkpoint_remote_options options = {
        .job = "sample", .nodes = both, .node_count = 2, .timeout_ns = NS_PER_SECOND / 5};
    struct checkpoint_remote *remote;
    memcpy(options.key, nodes.servers[0].key, sizeof(options.key));
    int status = checkpoint_remote_new(&options, &remote, &failure);
    if (status != 0)
        return status;
    status = run(remote);
    checkpoint_remote_free(remote);
    /* libcurl does not always report a failed allocation as such. */
    return status == -EHOSTUNREACH && fault_memory_hit ? -ENOMEM : status;
}

static int copy_share(struct checkpoint_remote *remote, const char *writer)
{
    const struct checkpoint_local local = {.io = io_threads_table(),
                                           .folder = folder_of_c,
                                           .node = "c",
                                           .step = STEP,
                                           .remote = remote};
    return checkpoint_copy_share(&local, nodes.sha256, writer, &failure);
}

static int copy_a(struct checkpoint_remote *remote)
{
    return copy_share(remote, "a");
}

static int copy_b(struct checkpoint_remote *remote)
{
    return copy_share(remote, "b");
}

static int copy_into_a_new_folder(void)
{
    return with_remote(copy_a);
}

static int copy_into_the_folder(void)
{
    return with_remote(copy_b);
}

static bool has(const char *file)
{
    char path[FOLDER_FILE_SIZE];
    folder_file_path(path_of_c, file, path);
    return access(path, F_OK) == 0;
}

static void check_new_folder(int result)
{
    assert_int_equal(access(path_of_c, F_OK) == 0, result == 0);
    assert_int_equal(has("model-00001-of-00002.safetensors"), result == 0);
    if (result == 0)
        sample_remove(path_of_c);
}

static void check_folder(int result)
{
    char path[FOLDER_FILE_SIZE];
    struct error error = {0};
    assert_true(has("model-00001-of-00002.safetensors") && has(MANIFEST_NAME));
    if (result != 0)
        return;
    if (sample_check(folder_of_c, STEP, &error) != 0)
        fail_msg("%s", error.text);
    folder_file_path(path_of_c, "model-00002-of-00002.safetensors", path);
    assert_int_equal(unlink(path), 0);
}

static void test_a_copy_in_a_new_folder(void **state)
{
    (void)state;
    fault_memory_each(&failure, copy_into_a_new_folder, check_new_folder);
}

static void test_a_copy_in_a_folder_that_is_there(void **state)
{
    (void)state;
    assert_int_equal(copy_into_a_new_folder(), 0);
    fault_memory_each(&failure, copy_into_the_folder, check_folder);
}

static struct checkpoint_source source_of(struct checkpoint_remote *remote)
{
    return (struct checkpoint_source){
        .folder = path_of_c, .node = "c", .manifest_sha256 = nodes.sha256, .remote = remote};
}

static int read_all(struct checkpoint_remote *remote)
{
    static float values[8192];
    const struct checkpoint_source source = source_of(remote);
    struct checkpoint_reader *reader;
    int status = checkpoint_open_copies(&source, &reader, &failure);
    if (status != 0)
        return status;
    const struct manifest *manifest = checkpoint_manifest(reader);
    for (size_t i = 0; status == 0 && i < manifest->tensor_count; i++)
        status = checkpoint_read(reader, manifest->tensors[i].name, manifest->tensors[i].role,
                                 values, manifest->tensors[i].size_bytes / sizeof(float), &failure);
    checkpoint_close(reader);
    return status;
}

static int open_and_read(void)
{
    return with_remote(read_all);
}

static void test_opening_and_reading_from_elsewhere(void **state)
{
    (void)state;
    fault_memory_each(&failure, open_and_read, NULL);
}

static int export_from(struct checkpoint_remote *remote)
{
    const struct checkpoint_source source = source_of(remote);
    char to[80];
    snprintf(to, sizeof(to), "%s/plain", folder_of_c);
    const struct checkpoint_export export = {
        .from = path_of_c, .source = &source, .to = to, .dtype = SAFETENSORS_BF16};
    return checkpoint_export(&export, &failure);
}

static int export_plain(void)
{
    return with_remote(export_from);
}

static void check_export(int result)
{
    char to[96];
    snprintf(to, sizeof(to), "%s/plain.part", folder_of_c);
    assert_int_not_equal(access(to, F_OK), 0);
    snprintf(to, sizeof(to), "%s/plain", folder_of_c);
    assert_int_equal(access(to, F_OK) == 0, result == 0);
    sample_remove(to);
}

static void test_an_export_from_elsewhere(void **state)
{
    (void)state;
    fault_memory_each(&failure, export_plain, check_export);
}

static int verify(struct checkpoint_remote *remote)
{
    const struct checkpoint_source source = source_of(remote);
    struct checkpoint_reader *reader;
    struct copies_check check;
    int status = checkpoint_open_copies(&source, &reader, &failure);
    if (status != 0)
        return status;
    status = checkpoint_verify_copies(reader, remote, NULL, NULL, &check, &failure);
    checkpoint_close(reader);
    if (status != 0)
        return status;
    assert_int_equal(check.bad, 0); /* an unread file is not damaged */
    status = check.unseen > 0 ? -EHOSTUNREACH : 0;
    copies_check_done(&check);
    return status;
}

static int verify_everywhere(void)
{
    return with_remote(verify);
}

static void test_a_look_at_all_copies(void **state)
{
    (void)state;
    fault_memory_each(&failure, verify_everywhere, NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_copy_in_a_new_folder),
        TEST(test_a_copy_in_a_folder_that_is_there),
        TEST(test_opening_and_reading_from_elsewhere),
        TEST(test_an_export_from_elsewhere),
        TEST(test_a_look_at_all_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
