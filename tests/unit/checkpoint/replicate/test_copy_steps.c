/* Shares copied to another node, and checkpoints read from any nodes that have parts of them. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/read/export.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_place.h"
#include "checkpoint/write/retain.h"
#include "lib/checkpoint/fault_io.h"
#include "lib/checkpoint/two_nodes.h"

#define STEP 3

static void save(struct two_nodes *nodes, uint64_t step)
{
    struct error error = {0};
    if (two_nodes_save(nodes, io_threads_table(), step, &error) != 0)
        fail_msg("%s", error.text);
}

/* Open on @node, "" for a reader on no node, and compare to the bit. */
static int read_from(struct two_nodes *nodes, const char *node, struct error *error)
{
    char path[1024];
    struct checkpoint_reader *reader;
    unsigned own = node[0] == 'b';
    checkpoint_path(node[0] != '\0' ? nodes->folders[own] : "/nowhere", STEP, path);
    const struct checkpoint_source source = {
        .folder = path, .node = node, .manifest_sha256 = nodes->sha256, .remote = nodes->remote};
    int status = checkpoint_open_copies(&source, &reader, error);
    if (status != 0)
        return status;
    status = sample_compare(reader, STEP, error);
    checkpoint_close(reader);
    return status;
}

static void assert_reads(struct two_nodes *nodes, const char *node)
{
    struct error error = {0};
    if (read_from(nodes, node, &error) != 0)
        fail_msg("%s", error.text);
}

static void file_path(const struct two_nodes *nodes, unsigned node, const char *file,
                      char ret_path[1280])
{
    char path[1024];
    checkpoint_path(nodes->folders[node], STEP, path);
    snprintf(ret_path, 1280, "%s/%s", path, file);
}

static void flip_at(const struct two_nodes *nodes, unsigned node, const char *file, off_t at)
{
    char path[1280];
    uint8_t byte;
    file_path(nodes, node, file, path);
    int descriptor = open(path, O_RDWR);
    assert_int_equal(pread(descriptor, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, at), 1);
    close(descriptor);
}

/* Its last byte. */
static void flip(const struct two_nodes *nodes, unsigned node, const char *file)
{
    char path[1280];
    struct stat status;
    file_path(nodes, node, file, path);
    assert_int_equal(stat(path, &status), 0);
    flip_at(nodes, node, file, status.st_size - 1);
}

static void test_each_node_has_a_whole_checkpoint(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    for (unsigned i = 0; i < 2; i++) {
        if (sample_check(nodes.folders[i], STEP, &error) != 0)
            fail_msg("%s", error.text);
    }
    assert_reads(&nodes, "a");
    assert_reads(&nodes, "b");
    assert_reads(&nodes, "");
    two_nodes_stop(&nodes);
}

static void test_one_node_and_its_disk_may_go(void **state)
{
    (void)state;
    for (unsigned lost = 0; lost < 2; lost++) {
        struct two_nodes nodes;
        two_nodes_start(&nodes);
        save(&nodes, STEP);
        file_server_stop(&nodes.servers[lost]);
        sample_remove(nodes.folders[lost]);
        assert_reads(&nodes, lost == 0 ? "b" : "a");
        assert_reads(&nodes, lost == 0 ? "a" : "b"); /* a new machine of that name */
        assert_reads(&nodes, "");
        two_nodes_stop(&nodes);
    }
}

static void test_damage_here_is_made_up_for_elsewhere(void **state)
{
    struct two_nodes nodes;
    char path[1280];
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    flip(&nodes, 0, "optimizer-00001-of-00002.safetensors");
    file_path(&nodes, 0, "model-00002-of-00002.safetensors", path);
    assert_int_equal(unlink(path), 0);
    flip(&nodes, 0, MANIFEST_NAME);
    assert_reads(&nodes, "a");
    flip(&nodes, 1, "optimizer-00002-of-00002.safetensors");
    assert_reads(&nodes, ""); /* each file is good somewhere */
    two_nodes_stop(&nodes);
}

/* The reader has none of the files; the copies on a are damaged in header and data. */
static void test_it_is_exported_from_elsewhere(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    struct stat status;
    char to[128], path[160];
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    flip_at(&nodes, 0, "model-00001-of-00002.safetensors", 20);
    flip(&nodes, 0, "model-00002-of-00002.safetensors");
    snprintf(to, sizeof(to), "%s/exported", nodes.folders[0]);
    const struct checkpoint_source source = {.folder = "/nowhere/step-0000000003",
                                             .node = "",
                                             .manifest_sha256 = nodes.sha256,
                                             .remote = nodes.remote};
    const struct checkpoint_export export = {
        .from = source.folder, .source = &source, .to = to, .dtype = SAFETENSORS_F32};
    if (checkpoint_export(&export, &error) != 0)
        fail_msg("%s", error.text);
    snprintf(path, sizeof(path), "%s/model.safetensors", to);
    assert_int_equal(stat(path, &status), 0);
    two_nodes_stop(&nodes);
}

static void test_damage_everywhere_is_lost(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    flip(&nodes, 0, "optimizer-00001-of-00002.safetensors");
    flip(&nodes, 1, "optimizer-00001-of-00002.safetensors");
    assert_int_equal(read_from(&nodes, "b", &error), -EBADMSG);
    assert_non_null(strstr(error.text, "no good copy of optimizer-00001-of-00002.safetensors"));
    two_nodes_stop(&nodes);
}

/* The absent node may have the good copy: the checkpoint is not known to be damaged. */
static void test_damage_and_an_absent_node_is_not_lost(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    flip(&nodes, 1, "optimizer-00001-of-00002.safetensors");
    file_server_stop(&nodes.servers[0]);
    assert_int_equal(read_from(&nodes, "b", &error), -EHOSTUNREACH);
    two_nodes_stop(&nodes);
}

static void test_another_manifest_is_not_taken(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    nodes.sha256[0] ^= 1;
    assert_int_equal(read_from(&nodes, "a", &error), -EBADMSG);
    two_nodes_stop(&nodes);
}

static void test_a_chunk_that_comes_damaged_is_asked_for_again(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    (void)state;
    two_nodes_start(&nodes);
    atomic_store(&nodes.servers[0].flips, 1);
    atomic_store(&nodes.servers[1].refuses, 2); /* its firnd has not received the plan yet */
    save(&nodes, STEP);
    if (sample_check(nodes.folders[1], STEP, &error) != 0)
        fail_msg("%s", error.text);
    two_nodes_stop(&nodes);
}

static void test_a_sender_that_is_always_wrong_is_refused(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    uint64_t *steps;
    size_t count;
    (void)state;
    two_nodes_start(&nodes);
    atomic_store(&nodes.servers[0].flips, 1000);
    assert_int_equal(two_nodes_save(&nodes, io_threads_table(), STEP, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "comes damaged"));
    assert_int_equal(checkpoint_list(nodes.folders[1], &steps, &count, &error), 0);
    assert_int_equal(count, 0);
    free(steps);
    two_nodes_stop(&nodes);
}

static void test_strangers_get_nothing(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    uint8_t data[16];
    size_t size;
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    nodes.servers[0].key[5] ^= 1;
    assert_int_equal(checkpoint_remote_read(nodes.remote, "a", "step-0000000003", "config.json", 0,
                                            data, sizeof(data), &size, &error),
                     -EHOSTUNREACH);
    assert_int_equal(checkpoint_remote_read(nodes.remote, "c", "step-0000000003", "config.json", 0,
                                            data, sizeof(data), &size, &error),
                     -EHOSTUNREACH);
    two_nodes_stop(&nodes);
}

static void test_frozen_files_travel_twice(void **state)
{
    struct two_nodes nodes;
    char paths[2][1280], folder[1024];
    struct stat status[2];
    (void)state;
    sample_frozen = 5;
    two_nodes_start(&nodes);
    for (uint64_t step = STEP; step <= STEP + 2; step++)
        save(&nodes, step);
    file_path(&nodes, 1, "model-frozen-00002.safetensors", paths[0]); /* a wrote it */
    checkpoint_path(nodes.folders[1], STEP + 2, folder);
    snprintf(paths[1], sizeof(paths[1]), "%s/model-frozen-00002.safetensors", folder);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(stat(paths[i], &status[i]), 0);
    assert_int_equal(status[0].st_ino, status[1].st_ino);
    two_nodes_stop(&nodes);
    sample_frozen = 0;
}

static void test_a_replay_takes_the_place_of_what_was_there(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    flip(&nodes, 0, "optimizer-00001-of-00002.safetensors");
    save(&nodes, STEP);
    if (sample_check(nodes.folders[0], STEP, &error) != 0)
        fail_msg("%s", error.text);
    struct checkpoint_local a = two_nodes_local(&nodes, 0, io_threads_table(), STEP);
    char path[1024];
    assert_int_equal(checkpoint_place(&a, (struct hash128){1, 2}, path, &error), -EEXIST);
    two_nodes_stop(&nodes);
}

/* A share that cannot be read just now is not proven damaged. */
static void test_what_cannot_be_read_is_not_replaced(void **state)
{
    struct two_nodes nodes;
    struct error error = {0};
    char manifest[1280], aside[1300], path[1024];
    (void)state;
    two_nodes_start(&nodes);
    save(&nodes, STEP);
    file_path(&nodes, 0, MANIFEST_NAME, manifest);
    snprintf(aside, sizeof(aside), "%s.aside", manifest);
    assert_int_equal(rename(manifest, aside), 0);
    assert_int_equal(mkdir(manifest, 0755), 0);
    struct checkpoint_local a = two_nodes_local(&nodes, 0, io_threads_table(), STEP);
    assert_int_equal(checkpoint_place(&a, (struct hash128){1, 2}, path, &error), -EISDIR);
    assert_int_equal(rmdir(manifest), 0);
    assert_int_equal(rename(aside, manifest), 0);
    if (sample_check(nodes.folders[0], STEP, &error) != 0)
        fail_msg("%s", error.text);
    two_nodes_stop(&nodes);
}

/* When any operation fails on the receiving node, the copy does not get its final name. */
static void test_any_failing_operation_leaves_no_name(void **state)
{
    (void)state;
    for (unsigned k = 0;; k++) {
        struct two_nodes nodes;
        struct error error = {0};
        two_nodes_start(&nodes);
        fault_arm(k, -ENOSPC, false, false);
        int status = two_nodes_save(&nodes, fault_table(io_threads_table()), STEP, &error);
        bool done = fault.count <= k;
        fault_disarm();
        char path[1280];
        file_path(&nodes, 1, MANIFEST_NAME, path);
        if (status == 0 && sample_check(nodes.folders[1], STEP, &error) != 0)
            fail_msg("operation %u: %s", k, error.text);
        two_nodes_stop(&nodes);
        if (done) {
            assert_int_equal(status, 0);
            assert_true(k > 30);
            return;
        }
    }
}

static void test_retention_goes_by_the_records(void **state)
{
    static const char *const names[] = {"step-0000000001",         "step-0000000002",
                                        "step-0000000003",         "step-0000000009",
                                        "step-0000000001.g3.part", "step-0000000004.g5.part",
                                        "step-0000000001.gone",    "step-0000000002.damaged"};
    static const bool stays[] = {false, true, true, true, false, true, false, false};
    static const uint64_t recorded[] = {2, 3};
    char folder[64], path[256];
    struct error error = {0};
    (void)state;
    sample_folder(folder);
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    struct checkpoint_sweep sweep = {.folder = folder, .generation = 5};
    assert_int_equal(checkpoint_sweep(&sweep, &error), 0); /* no record: only parts are known */
    sweep = (struct checkpoint_sweep){
        .folder = folder, .steps = recorded, .step_count = 2, .step = 3, .generation = 5};
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        assert_int_equal(access(path, F_OK) == 0, strcmp(names[i], "step-0000000001.g3.part") != 0);
    }
    assert_int_equal(checkpoint_sweep(&sweep, &error), 0);
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        assert_int_equal(access(path, F_OK) == 0, stays[i]);
    }
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_node_has_a_whole_checkpoint),
        cmocka_unit_test(test_one_node_and_its_disk_may_go),
        cmocka_unit_test(test_damage_here_is_made_up_for_elsewhere),
        cmocka_unit_test(test_it_is_exported_from_elsewhere),
        cmocka_unit_test(test_damage_everywhere_is_lost),
        cmocka_unit_test(test_damage_and_an_absent_node_is_not_lost),
        cmocka_unit_test(test_another_manifest_is_not_taken),
        cmocka_unit_test(test_a_chunk_that_comes_damaged_is_asked_for_again),
        cmocka_unit_test(test_a_sender_that_is_always_wrong_is_refused),
        cmocka_unit_test(test_strangers_get_nothing),
        cmocka_unit_test(test_frozen_files_travel_twice),
        cmocka_unit_test(test_a_replay_takes_the_place_of_what_was_there),
        cmocka_unit_test(test_what_cannot_be_read_is_not_replaced),
        cmocka_unit_test(test_any_failing_operation_leaves_no_name),
        cmocka_unit_test(test_retention_goes_by_the_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
