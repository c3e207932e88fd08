/* Shares that get a copy on another node long after the commit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_share.h"
#include "lib/checkpoint/fault_io.h"
#include "lib/checkpoint/two_nodes.h"

#define STEP 3

/* a and b have both shares; c, or a that has lost something, is to get them. */
static struct two_nodes nodes;
static char folder_of_c[64];

static int set_up(void **state)
{
    struct error error = {0};
    (void)state;
    two_nodes_start(&nodes);
    sample_folder(folder_of_c);
    return two_nodes_save(&nodes, io_threads_table(), STEP, &error);
}

static int tear_down(void **state)
{
    (void)state;
    two_nodes_stop(&nodes);
    sample_remove(folder_of_c);
    return 0;
}

static int copy_to(const char *folder, const char *node, const char *writer, const struct io *io,
                   struct error *error)
{
    const struct checkpoint_local local = {
        .io = io, .folder = folder, .node = node, .step = STEP, .remote = nodes.remote};
    return checkpoint_copy_share(&local, nodes.sha256, writer, error);
}

static void assert_copied(const char *folder, const char *node, const char *writer)
{
    struct error error = {0};
    if (copy_to(folder, node, writer, io_threads_table(), &error) != 0)
        fail_msg("%s", error.text);
}

static void path_in(const char *folder, const char *file, char ret_path[1280])
{
    char path[1024];
    checkpoint_path(folder, STEP, path);
    snprintf(ret_path, 1280, "%s/%s", path, file);
}

static bool has(const char *folder, const char *file)
{
    char path[1280];
    path_in(folder, file, path);
    return access(path, F_OK) == 0;
}

static bool is_on_its_way(const char *folder)
{
    char path[1024];
    folder_copy_path(folder, STEP, path);
    return access(path, F_OK) == 0;
}

static void test_a_new_node_gets_share_after_share(void **state)
{
    struct error error = {0};
    (void)state;
    assert_copied(folder_of_c, "c", "a");
    assert_true(has(folder_of_c, "model-00001-of-00002.safetensors"));
    assert_false(has(folder_of_c, "model-00002-of-00002.safetensors"));
    assert_true(has(folder_of_c, "config.json"));
    assert_copied(folder_of_c, "c", "b");
    assert_false(is_on_its_way(folder_of_c));
    if (sample_check(folder_of_c, STEP, &error) != 0) /* the copy is complete now */
        fail_msg("%s", error.text);
    unsigned asked = atomic_load(&nodes.servers[0].requests);
    assert_copied(folder_of_c, "c", "b"); /* nothing is left to do */
    assert_int_equal(atomic_load(&nodes.servers[0].requests), asked);
}

/* Readers find the copy on c, although the manifest names a and b alone. */
static void test_others_read_the_new_copy(void **state)
{
    static struct file_server server;
    struct checkpoint_remote_node three[3];
    struct checkpoint_remote_options options = {
        .job = "sample", .nodes = three, .node_count = 3, .timeout_ns = NS_PER_SECOND / 5};
    struct checkpoint_reader *reader;
    struct error error = {0};
    (void)state;
    assert_copied(folder_of_c, "c", "a");
    assert_copied(folder_of_c, "c", "b");
    file_server_start(&server, "c", folder_of_c);
    for (unsigned i = 0; i < 2; i++) { /* their disks are empty */
        char path[1024];
        checkpoint_path(nodes.folders[i], STEP, path);
        sample_remove(path);
        three[i] = nodes.servers[i].node;
    }
    three[2] = server.node;
    memcpy(options.key, server.key, sizeof(options.key));
    struct checkpoint_remote *remote;
    assert_int_equal(checkpoint_remote_new(&options, &remote, NULL), 0);
    const struct checkpoint_source source = {.folder = "/nowhere/step-0000000003",
                                             .node = "",
                                             .manifest_sha256 = nodes.sha256,
                                             .remote = remote};
    if (checkpoint_open_copies(&source, &reader, &error) != 0 ||
        sample_compare(reader, STEP, &error) != 0)
        fail_msg("%s", error.text);
    checkpoint_close(reader);
    checkpoint_remote_free(remote);
    file_server_stop(&server);
}

static void test_missing_and_truncated_files_are_made_up_for(void **state)
{
    char path[1280];
    struct error error = {0};
    (void)state;
    path_in(nodes.folders[0], "model-00002-of-00002.safetensors", path);
    assert_int_equal(unlink(path), 0);
    path_in(nodes.folders[0], "optimizer-00002-of-00002.safetensors", path);
    assert_int_equal(truncate(path, 10), 0);
    assert_copied(nodes.folders[0], "a", "b");
    if (sample_check(nodes.folders[0], STEP, &error) != 0)
        fail_msg("%s", error.text);
}

static void test_the_next_node_is_asked(void **state)
{
    char path[1280];
    (void)state;
    path_in(nodes.folders[0], "optimizer-00001-of-00002.safetensors", path);
    assert_int_equal(unlink(path), 0);
    assert_copied(folder_of_c, "c", "a");
    file_server_stop(&nodes.servers[0]);
    assert_copied(folder_of_c, "c", "b");
}

static void test_what_nobody_has_is_said(void **state)
{
    struct error error = {0};
    char path[1280];
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        path_in(nodes.folders[i], "optimizer-00001-of-00002.safetensors", path);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(copy_to(folder_of_c, "c", "a", io_threads_table(), &error), -ENOENT);
    assert_non_null(strstr(error.text, "optimizer-00001-of-00002.safetensors"));
    assert_false(has(folder_of_c, MANIFEST_NAME));
}

struct kind {
    int code;
    bool torn, stay_dead;
};

/* Fail each operation of @failing's copy in turn: the folder is absent or whole, and the next try
 * succeeds. Return the number of operations. */
static unsigned fail_each_operation(const char *failing, const struct kind *kind)
{
    static const char *const writers[] = {"a", "b"};
    struct error error = {0};
    for (unsigned k = 0;; k++) {
        bool done = false;
        sample_remove(folder_of_c);
        sample_folder(folder_of_c);
        for (unsigned i = 0; i < 2; i++) {
            bool fails = strcmp(writers[i], failing) == 0;
            fault_arm(fails ? k : FAULT_NEVER, kind->code, kind->torn, kind->stay_dead);
            int status =
                copy_to(folder_of_c, "c", writers[i], fault_table(io_threads_table()), &error);
            done = done || (fails && fault.count <= k);
            fault_disarm();
            assert_int_equal(has(folder_of_c, MANIFEST_NAME),
                             has(folder_of_c, "model-00001-of-00002.safetensors"));
            if (status != 0)
                assert_copied(folder_of_c, "c", writers[i]);
        }
        if (sample_check(folder_of_c, STEP, &error) != 0)
            fail_msg("operation %u: %s", k, error.text);
        if (done)
            return k;
    }
}

static void test_any_failing_operation_leaves_no_half(void **state)
{
    static const struct kind kinds[] = {{-ENOSPC, false, false}, {-EIO, false, false},
                                        {-EIO, true, false},     {-EINTR, false, false},
                                        {-ENOSPC, false, true},  {-EIO, true, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        assert_true(fail_each_operation("a", &kinds[i]) > 20); /* a folder that is new here */
        assert_true(fail_each_operation("b", &kinds[i]) > 15); /* files into one that is here */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_new_node_gets_share_after_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_others_read_the_new_copy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_and_truncated_files_are_made_up_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_next_node_is_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_nobody_has_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_any_failing_operation_leaves_no_half, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
