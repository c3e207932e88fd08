/*
 * Tests of a node's reported arithmetic and version: from a worker program that answers, or does
 * not.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/core/daemon.h"
#include "daemon/node/inventory.h"
#include "daemon/node/numerics_identity.h"
#include "daemon/node/worker_version.h"
#include "elastic/plan/versions.h"

static char program[] = "/tmp/firn-test-worker-XXXXXX";
static struct config config;
static struct node_record self;

/* Make a program in place of firn-worker. */
static void make_worker(const char *script)
{
    strcpy(program + sizeof(program) - 7, "XXXXXX");
    int descriptor = mkstemp(program);
    assert_true(descriptor >= 0);
    dprintf(descriptor, "#!/bin/sh\n%s\n", script);
    assert_int_equal(fchmod(descriptor, 0700), 0);
    close(descriptor);
    memset(&config, 0, sizeof(config));
    memset(&self, 0, sizeof(self));
    snprintf(config.worker, sizeof(config.worker), "%s", program);
    snprintf(self.version, sizeof(self.version), "7.1");
    config.threads = 2;
    self.slot_count = 1;
}

static void test_the_workers_word_and_the_threads(void **state)
{
    (void)state;
    make_worker("test \"$1\" = identity && echo 'OpenBLAS 9 Zen, kernels 1'");
    numerics_identity_describe_cpu(&config, &self);
    assert_string_equal(self.numerics_identity, "OpenBLAS 9 Zen, kernels 1, 2 threads");
    config.threads = 1;
    numerics_identity_describe_cpu(&config, &self);
    assert_string_equal(self.numerics_identity, "OpenBLAS 9 Zen, kernels 1, 1 thread");
    unlink(program);
}

static void test_a_gpu_needs_no_more_than_the_workers_word(void **state)
{
    const struct gpu_list list = {.count = 1, .gpus = {{.uuid = "GPU-1", .name = "RTX"}}};

    (void)state;
#define LONGEST                                                                                    \
    "NVIDIA RTX PRO 6000 Blackwell Server Edition, cuBLASLt 130100, kernels 10, cuDNN 91900"
    make_worker("test \"$2\" = cuda:GPU-1 && echo '" LONGEST "'");
    numerics_identity_describe_gpus(&config, &list, &self);
    assert_string_equal(self.numerics_identity, LONGEST);
    assert_int_equal(self.slots[0].computes, 0);
    assert_string_equal(self.slots[0].bad, "");
    unlink(program);
}

/*
 * One GPU of each kind is queried; GPUs without an answer, and the fifth kind, are out of service.
 */
static void test_each_kind_of_gpu_is_asked_for(void **state)
{
    static const char *const names[] = {"B", "A", "old", "B", "A", "C", "D", "E"};
    struct gpu_list list = {.count = ARRAY_COUNT(names)};

    (void)state;
    make_worker("echo $2 >>\"$0.asked\"\n"
                "case $2 in cuda:[ABCDE]-*) echo \"${2%-*}, kernels 1\" | cut -c6-;; esac");
    self.slot_count = list.count;
    for (unsigned i = 0; i < list.count; i++) {
        snprintf(list.gpus[i].name, sizeof(list.gpus[i].name), "%s", names[i]);
        snprintf(list.gpus[i].uuid, sizeof(list.gpus[i].uuid), "%s-%u", names[i], i);
    }
    numerics_identity_describe_gpus(&config, &list, &self);
    static const unsigned computes[] = {0, 1, 4, 0, 1, 2, 3, 4};
    for (unsigned i = 0; i < list.count; i++)
        assert_int_equal(self.slots[i].computes, computes[i]);
    assert_string_equal(self.numerics_identity, "B, kernels 1");
    assert_string_equal(self.other_numerics_identities[0], "A, kernels 1");
    assert_string_equal(self.other_numerics_identities[2], "D, kernels 1");
    assert_non_null(strstr(self.slots[2].bad, "does not report"));
    assert_string_equal(self.slots[4].bad, "");
    assert_non_null(strstr(self.slots[7].bad, "too many"));
    char asked[64];
    struct stat size;
    snprintf(asked, sizeof(asked), "%s.asked", program);
    assert_int_equal(stat(asked, &size), 0);
    assert_int_equal(size.st_size, (off_t)(5 * strlen("cuda:B-0\n") + strlen("cuda:old-2\n")));
    unlink(asked);
    unlink(program);
}

/* An operator's excuse does not reveal the arithmetic of a slot. */
static void test_the_unknown_is_not_excused(void **state)
{
    struct daemon *daemon = calloc(1, sizeof(*daemon));
    struct inventory *inventory;
    struct error error = {0};

    (void)state;
    assert_non_null(daemon);
    make_worker("true");
    config.device = CONFIG_DEVICE_CPU;
    config.slots = 2;
    daemon->config = &config;
    assert_int_equal(inventory_open(daemon, &inventory, &error), 0);
    snprintf(daemon->node.self.slots[0].bad, sizeof(daemon->node.self.slots[0].bad),
             "died 5 times at start");
    daemon->node.self.slots[1].computes = RECORD_OTHERS_MAX + 1;
    snprintf(daemon->node.self.slots[1].bad, sizeof(daemon->node.self.slots[1].bad),
             "one kind too many");
    inventory_excuse(inventory);
    assert_string_equal(daemon->node.self.slots[0].bad, "");
    assert_string_equal(daemon->node.self.slots[1].bad, "one kind too many");
    inventory_close(inventory);
    free(daemon);
    unlink(program);
}

static void test_no_whole_line_is_no_word(void **state)
{
    static const char *const scripts[] = {"true", "printf 'no end'", "exit 3",
                                          "printf '%0200d\\n' 1"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(scripts); i++) {
        make_worker(scripts[i]);
        numerics_identity_describe_cpu(&config, &self);
        assert_string_equal(self.numerics_identity, "");
        unlink(program);
    }
    make_worker("true");
    unlink(program);
    numerics_identity_describe_cpu(&config, &self);
    assert_string_equal(self.numerics_identity, "");
}

/* firnd waits for a worker that works, as when it loads the libraries of a GPU, but not for an idle
 * worker. */
static void test_a_worker_that_works_is_waited_for(void **state)
{
    char answer[NUMERICS_IDENTITY_SIZE];

    (void)state;
    make_worker("end=$(($(date +%s%N) / 1000000 + 1000))\n"
                "while test $(($(date +%s%N) / 1000000)) -lt $end; do :; done\n"
                "echo late");
    numerics_identity_ask(program, "identity", "cuda", 200 * NS_PER_MS, answer, sizeof(answer));
    assert_string_equal(answer, "late");
    unlink(program);
    make_worker("exec sleep 60");
    numerics_identity_ask(program, "identity", "cuda", 200 * NS_PER_MS, answer, sizeof(answer));
    assert_string_equal(answer, "");
    unlink(program);
}

static void test_versions_are_the_workers_and_our_own(void **state)
{
    static const char *const wrong[] = {"exit 2", "echo 2.1", "echo 256", "echo"};
    (void)state;
    make_worker("test \"$1 $2\" = 'protocol links' && echo 7");
    worker_version_describe(&config, &self);
    assert_int_equal(self.links, 7);
    assert_int_equal(self.control, VERSIONS_CONTROL);
    assert_int_equal(self.control_oldest, VERSIONS_CONTROL_OLDEST);
    unlink(program);
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        make_worker(wrong[i]);
        self.links = 9;
        worker_version_describe(&config, &self);
        assert_int_equal(self.links, 0);
        unlink(program);
    }
}

static void test_a_record_carries_versions(void **state)
{
    struct node_record back;
    struct error error = {0};
    (void)state;
    memset(&self, 0, sizeof(self));
    self.links = 3;
    self.control = 5;
    self.control_oldest = 4;
    AUTO_JSON json_t *tree = node_record_encode(&self);
    assert_non_null(tree);
    assert_int_equal(node_record_decode(tree, &back, &error), 0);
    assert_int_equal(back.links, 3);
    assert_int_equal(back.control, 5);
    assert_int_equal(back.control_oldest, 4);
    assert_int_equal(json_object_set_new(tree, "protocol", json_pack("[iiis]", 6, 7, 8, "more")),
                     0);
    assert_int_equal(node_record_decode(tree, &back, &error), 0); /* of a newer firnd */
    assert_int_equal(back.links, 6);
    assert_int_equal(json_object_set_new(tree, "protocol", json_pack("[ii]", 6, 7)), 0);
    assert_int_equal(node_record_decode(tree, &back, &error), -EINVAL);
    assert_int_equal(json_object_del(tree, "protocol"), 0);
    assert_int_equal(node_record_decode(tree, &back, &error), 0); /* of an older one */
    assert_int_equal(back.links, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_workers_word_and_the_threads),
        cmocka_unit_test(test_a_gpu_needs_no_more_than_the_workers_word),
        cmocka_unit_test(test_each_kind_of_gpu_is_asked_for),
        cmocka_unit_test(test_the_unknown_is_not_excused),
        cmocka_unit_test(test_no_whole_line_is_no_word),
        cmocka_unit_test(test_a_worker_that_works_is_waited_for),
        cmocka_unit_test(test_versions_are_the_workers_and_our_own),
        cmocka_unit_test(test_a_record_carries_versions),
    };
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
