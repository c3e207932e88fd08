/* Tests that records of other nodes are fetched, and that nothing else passes for a record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/checkpoint/file_server.h"
#include "worker/cache/outputs_fetch.h"

#define NODES   2 /* others */
#define COUNT   300
#define SIZE    5000
#define NAME    "outputs-0123"
#define WAIT_NS (20 * NS_PER_SECOND)

static const struct output_file_shape shape = {{7, 9}, COUNT, SIZE};
static char folders[NODES + 1][64]; /* the last one is this node's */
static struct file_server servers[NODES];
static struct output_file *files[NODES + 1];
static struct outputs_fetch *fetch;

static void path_in(unsigned node, char ret_path[128])
{
    snprintf(ret_path, 128, "%s/%s/%s", folders[node], CHECKPOINT_REMOTE_FROZEN, NAME);
}

static int set_up(void **state)
{
    char path[128];
    struct error error = {0};
    (void)state;
    for (unsigned i = 0; i <= NODES; i++) {
        snprintf(folders[i], sizeof(folders[i]), "/tmp/firn-fetch-XXXXXX");
        assert_non_null(mkdtemp(folders[i]));
        snprintf(path, sizeof(path), "%s/%s", folders[i], CHECKPOINT_REMOTE_FROZEN);
        assert_int_equal(mkdir(path, 0700), 0);
        path_in(i, path);
        assert_int_equal(output_file_open(path, &shape, &files[i], &error), 0);
        if (i < NODES)
            file_server_start(&servers[i], i == 0 ? "b" : "c", folders[i]);
    }
    fetch = NULL;
    return 0;
}

static int tear_down(void **state)
{
    char path[128];
    (void)state;
    outputs_fetch_free(fetch);
    for (unsigned i = 0; i <= NODES; i++) {
        if (i < NODES)
            file_server_stop(&servers[i]);
        output_file_close(files[i]);
        path_in(i, path);
        unlink(path);
        snprintf(path, sizeof(path), "%s/%s", folders[i], CHECKPOINT_REMOTE_FROZEN);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(folders[i]), 0);
    }
    return 0;
}

static void fill(uint8_t content[SIZE], uint64_t index)
{
    for (unsigned i = 0; i < SIZE; i++)
        content[i] = (uint8_t)(i * 31 + index * 7);
}

static void write_record(unsigned node, uint64_t index)
{
    uint8_t content[SIZE];
    fill(content, index);
    assert_int_equal(output_file_write(files[node], index, content), 0);
}

static void begin(unsigned node_count)
{
    char path[128];
    struct error error = {0};
    struct checkpoint_remote_node nodes[NODES];
    struct checkpoint_remote_options others = {
        .job = "sample", .nodes = nodes, .node_count = node_count, .timeout_ns = NS_PER_SECOND / 5};
    for (unsigned i = 0; i < NODES; i++)
        nodes[i] = servers[i].node;
    memcpy(others.key, servers[0].key, sizeof(others.key));
    path_in(NODES, path);
    const struct outputs_fetch_file file = {path, NAME, shape};
    if (outputs_fetch_new(&file, &others, &fetch, &error))
        fail_msg("%s", error.text);
}

/* Return whether @index comes in time. @asks: ask for it again and again */
static bool comes(uint64_t index, bool asks)
{
    uint64_t until_ns = clock_monotonic_ns() + WAIT_NS;
    uint8_t content[SIZE], want[SIZE];
    fill(want, index);
    while (!output_file_has(files[NODES], index)) {
        if (clock_monotonic_ns() > until_ns)
            return false;
        if (asks) {
            outputs_fetch_begin_step(fetch);
            outputs_fetch_want(fetch, index);
        }
        sched_yield();
    }
    assert_int_equal(output_file_read(files[NODES], index, content), 0);
    assert_memory_equal(content, want, SIZE);
    return true;
}

static void test_what_others_have_is_fetched(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < COUNT; i++)
        if (i % 3 < NODES)
            write_record((unsigned)(i % 3), i);
    begin(NODES);
    assert_true(comes(0, true) && comes(1, true)); /* the marks of both are known */
    outputs_fetch_begin_step(fetch);
    for (uint64_t i = 2; i < COUNT; i++)
        outputs_fetch_want(fetch, i);
    assert_true(comes(COUNT - 2, false));
    for (uint64_t i = 0; i < COUNT - 1; i++)
        if (output_file_has(files[NODES], i) != (i % 3 < NODES))
            fail_msg("record %u", (unsigned)i);
    assert_int_equal(outputs_fetch_count(fetch), COUNT / 3 * NODES);
    assert_true(outputs_fetch_typical_ms(fetch) > 0);
    outputs_fetch_want(fetch, COUNT); /* none of the file: not asked for */
}

static void test_what_is_here_is_not_fetched(void **state)
{
    (void)state;
    write_record(0, 5);
    write_record(0, 6);
    write_record(NODES, 5);
    begin(1);
    outputs_fetch_want(fetch, 5);
    assert_true(comes(6, true));
    assert_int_equal(outputs_fetch_count(fetch), 1);
    assert_false(outputs_fetch_typical_ms(fetch) > 0); /* not known yet */
}

/* A damaged record, and one of another sample: the next node is asked. */
static void test_nothing_but_the_record_is_taken(void **state)
{
    char path[128];
    (void)state;
    const off_t place = (off_t)output_file_record(&shape, 4).offset;
    write_record(0, 4); /* 4 is asked of the first of the two at first */
    write_record(1, 4);
    path_in(0, path);
    AUTO_CLOSE int descriptor = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;
    assert_int_equal(pread(descriptor, &byte, 1, place + 200), 1);
    byte ^= 16;
    assert_int_equal(pwrite(descriptor, &byte, 1, place + 200), 1);
    begin(NODES);
    assert_true(comes(4, true));
    assert_int_equal(outputs_fetch_count(fetch), 1);
}

/* A process without the key answers in place of the node: the next answer counts. */
static void test_an_answer_that_fits_no_seal_is_none(void **state)
{
    (void)state;
    write_record(0, 7);
    atomic_store(&servers[0].flips, 3);
    begin(1);
    assert_true(comes(7, true));
    assert_int_equal(atomic_load(&servers[0].flips), 0);
    assert_int_equal(outputs_fetch_count(fetch), 1);
}

static void test_a_node_that_is_away_holds_nothing_up(void **state)
{
    (void)state;
    write_record(1, 8);
    file_server_stop(&servers[0]);
    begin(NODES);
    assert_true(comes(8, true));
}

/* A node accepts the connection and sends nothing: stopping does not wait for it. */
static void test_it_is_stopped_at_once(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    AUTO_CLOSE int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(bind(deaf, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(deaf, 8), 0);
    assert_int_equal(getsockname(deaf, (struct sockaddr *)&address, &size), 0);
    struct checkpoint_remote_node heard = servers[0].node;
    snprintf(servers[0].node.http, sizeof(servers[0].node.http), "127.0.0.1:%u",
             ntohs(address.sin_port));
    begin(1);
    servers[0].node = heard;
    outputs_fetch_want(fetch, 3);
    int connection = accept(deaf, NULL, NULL); /* it is asked */
    outputs_fetch_stop(fetch);
    assert_false(outputs_fetch_is_over(fetch));
    close(connection);
    while (!outputs_fetch_is_over(fetch))
        sched_yield();
}

/* It began before the other node had a file of that name. */
static void test_what_another_node_has_later_is_found(void **state)
{
    char path[128];
    struct error error = {0};
    (void)state;
    path_in(0, path);
    unlink(path);
    begin(1);
    outputs_fetch_want(fetch, 8);
    while (atomic_load(&servers[0].requests) == 0)
        sched_yield();
    output_file_close(files[0]);
    assert_int_equal(output_file_open(path, &shape, &files[0], &error), 0);
    write_record(0, 8);
    assert_true(comes(8, true));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_others_have_is_fetched),
        TEST(test_what_is_here_is_not_fetched),
        TEST(test_nothing_but_the_record_is_taken),
        TEST(test_an_answer_that_fits_no_seal_is_none),
        TEST(test_a_node_that_is_away_holds_nothing_up),
        TEST(test_it_is_stopped_at_once),
        TEST(test_what_another_node_has_later_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
