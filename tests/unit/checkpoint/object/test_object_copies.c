/*
 * Send a checkpoint with shares on several nodes to an object store: each node sends its own share
 * once, and the node that puts the manifest sends the shares of nodes that are away, silent or
 * damaged. The store checks after each operation that every checkpoint with a manifest is
 * complete (fake_store.h).
 */
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

#include "base/clock.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/object/object_fetch.h"
#include "checkpoint/object/object_send.h"
#include "checkpoint/object/object_sender.h"
#include "lib/checkpoint/fake_store.h"
#include "lib/checkpoint/two_nodes.h"

#define STEP 3

static struct two_nodes nodes;
static unsigned pauses;

static int set_up(void **state)
{
    struct error error = {0};
    (void)state;
    fake_store_reset();
    pauses = 0;
    two_nodes_start(&nodes);
    return two_nodes_save(&nodes, io_threads_table(), STEP, &error);
}

static int tear_down(void **state)
{
    (void)state;
    fake_store_reset();
    two_nodes_stop(&nodes);
    return 0;
}

static int count_pause(void *context, uint64_t wait_ns)
{
    (void)context;
    (void)wait_ns;
    pauses++;
    return 0;
}

static void path_on(const char *node, char ret_path[1024])
{
    checkpoint_path(node[0] == 'c' ? "/nowhere" : nodes.folders[node[0] == 'b'], STEP, ret_path);
}

static int send_from(const char *node, bool helps, struct checkpoint_remote *remote,
                     struct error *error)
{
    char path[1024];
    path_on(node, path);
    const struct object_send_options options = {.folder = path,
                                                .manifest_sha256 = nodes.sha256,
                                                .prefix = "",
                                                .watch = {.pause = count_pause},
                                                .remote = remote,
                                                .node = node,
                                                .helps = helps};
    return object_send(&fake_store, &options, error);
}

static void assert_sent(const char *node, bool helps, struct checkpoint_remote *remote)
{
    struct error error = {0};
    if (send_from(node, helps, remote, &error) != 0)
        fail_msg("%s", error.text);
}

/* One folder with everything, as it was saved. */
static void assert_comes_back(void)
{
    char to[FOLDER_PATH_SIZE];
    struct object_checkpoint found;
    struct error error = {0};
    assert_int_equal(fake_store_check(), 1);
    snprintf(to, sizeof(to), "%s/back/step-%010d", nodes.folders[0], STEP);
    const struct object_fetch_options options = {
        .prefix = "", .job = "sample", .step = STEP, .manifest_sha256 = nodes.sha256, .to = to};
    if (object_fetch(&fake_store, &options, &found, &error) != 0)
        fail_msg("%s", error.text);
    *strrchr(to, '/') = '\0';
    if (sample_check(to, STEP, &error) != 0)
        fail_msg("%s", error.text);
}

static void damage(unsigned node, const char *file)
{
    char path[1024], name[FOLDER_FILE_SIZE];
    checkpoint_path(nodes.folders[node], STEP, path);
    folder_file_path(path, file, name);
    int descriptor = open(name, O_RDWR);
    uint8_t byte;
    assert_int_equal(pread(descriptor, &byte, 1, 9), 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, 9), 1);
    close(descriptor);
}

static uint64_t total_bytes(void)
{
    char path[1024];
    struct manifest manifest;
    uint64_t total = 0;
    path_on("a", path);
    assert_int_equal(manifest_load(path, nodes.sha256, &manifest, NULL), 0);
    for (size_t i = 0; i < manifest.file_count; i++)
        total += manifest.files[i].size_bytes;
    manifest_done(&manifest);
    struct stat about;
    char name[FOLDER_FILE_SIZE];
    folder_file_path(path, MANIFEST_NAME, name);
    assert_int_equal(stat(name, &about), 0);
    return total + (uint64_t)about.st_size;
}

static void test_each_node_sends_its_share_once(void **state)
{
    (void)state;
    assert_sent("b", true, nodes.remote);
    uint64_t sent = fake_objects.sent_bytes;
    assert_true(sent > 0);
    assert_int_equal(fake_store_check(), 0); /* a helper never makes it complete */
    unsigned long long read = atomic_load(&nodes.servers[1].bytes);
    assert_sent("a", false, nodes.remote);
    assert_int_equal(pauses, 0);
    assert_int_equal(fake_objects.sent_bytes, total_bytes());
    assert_int_equal(atomic_load(&nodes.servers[1].bytes), read); /* nothing went by way of a */
    assert_comes_back();
    sent = fake_objects.sent_bytes;
    assert_sent("b", true, nodes.remote); /* again, after a restart: nothing is left to do */
    assert_int_equal(fake_objects.sent_bytes, sent);
}

static void test_a_silent_node_is_made_up_for(void **state)
{
    (void)state;
    assert_sent("a", false, nodes.remote);
    assert_true(pauses >= SENDER_OTHERS_LOOKS);
    assert_comes_back();
}

/* The other nodes are asked only for the shares that they hold; two local copies serve as well. */
static void test_a_lost_node_is_not_waited_for(void **state)
{
    const struct checkpoint_remote_node alone = nodes.servers[0].node;
    struct checkpoint_remote_options options = {
        .job = "sample", .nodes = &alone, .node_count = 1, .timeout_ns = NS_PER_SECOND / 5};
    struct checkpoint_remote *remote;
    (void)state;
    memcpy(options.key, nodes.servers[0].key, sizeof(options.key));
    assert_int_equal(checkpoint_remote_new(&options, &remote, NULL), 0);
    file_server_stop(&nodes.servers[1]);
    assert_sent("a", false, remote);
    assert_int_equal(pauses, 0);
    assert_comes_back();
    checkpoint_remote_free(remote);
}

/* The leader holds no share of the checkpoint: the leader that recorded the checkpoint is gone. */
static void test_somebody_without_a_part_sends_it(void **state)
{
    (void)state;
    assert_sent("c", false, nodes.remote);
    assert_comes_back();
}

static void test_damage_here_is_made_up_for_elsewhere(void **state)
{
    (void)state;
    damage(0, "model-00001-of-00002.safetensors");
    damage(0, "optimizer-00001-of-00002.safetensors");
    assert_sent("a", false, nodes.remote);
    assert_comes_back();
}

static void test_damage_everywhere_is_not_sent(void **state)
{
    struct error error = {0};
    (void)state;
    damage(0, "model-00001-of-00002.safetensors");
    damage(1, "model-00001-of-00002.safetensors");
    assert_int_equal(send_from("a", false, nodes.remote, &error), -EIO);
    assert_non_null(strstr(error.text, "model-00001-of-00002.safetensors"));
    assert_int_equal(fake_store_check(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_node_sends_its_share_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_silent_node_is_made_up_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lost_node_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_somebody_without_a_part_sends_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_here_is_made_up_for_elsewhere, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_damage_everywhere_is_not_sent, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
