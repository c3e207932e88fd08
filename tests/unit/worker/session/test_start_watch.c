/*
 * Tests of the reports of a slow start: they come while processor time is used, and none comes
 * after the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker/session/start_watch.h"

static char folder[64], path[96];

struct bench {
    struct worker_options options;
    struct control_server *server;
    struct start_watch *watch;
    int firnd;
    struct bytes received;
    struct control_message message;
};

static int set_up(void **state)
{
    static struct bench bench;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct error error = {0};

    memset(&bench, 0, sizeof(bench));
    snprintf(folder, sizeof(folder), "/tmp/firn-start-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/worker.sock", folder);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    bench.options = (struct worker_options){.slot = 3, .failure_timeout_ns = 20 * NS_PER_MS};
    if (control_server_start(path, NULL, NULL, &bench.server, &error) ||
        start_watch_new(&bench.options, 77, bench.server, &bench.watch))
        return -1;
    bench.firnd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *state = &bench;
    return connect(bench.firnd, (struct sockaddr *)&address, sizeof(address));
}

static int tear_down(void **state)
{
    struct bench *bench = *state;

    start_watch_free(bench->watch);
    control_server_stop(bench->server);
    control_message_done(&bench->message);
    bytes_done(&bench->received);
    close(bench->firnd);
    return rmdir(folder);
}

/* Return true with the next message, if one is there or complete. */
static bool hear(struct bench *bench)
{
    struct error error = {0};
    uint8_t chunk[4096];
    ssize_t size = recv(bench->firnd, chunk, sizeof(chunk), MSG_DONTWAIT);

    if (size > 0)
        assert_int_equal(bytes_append(&bench->received, chunk, (size_t)size), 0);
    control_message_done(&bench->message);
    memset(&bench->message, 0, sizeof(bench->message));
    int status = control_unpack(&bench->received, &bench->message, &error);
    assert_true(status >= 0);
    return status == 1;
}

/* Use the processor until a message comes. */
static void compute_until_heard(struct bench *bench)
{
    while (!hear(bench))
        ;
}

static void test_a_call_that_computes_is_reported_again_and_again(void **state)
{
    struct bench *bench = *state;
    char first[REPORT_TEXT_SIZE];

    start_watch_begin(bench->watch, 5, "opens its device");
    compute_until_heard(bench);
    const struct worker_report *report = &bench->message.status;
    assert_int_equal(bench->message.type, CONTROL_STATUS);
    assert_int_equal(report->phase, WORKER_STARTING);
    assert_int_equal(report->cause, CAUSE_STARTS);
    assert_int_equal(report->generation, 5);
    assert_int_equal(report->instance, 77);
    assert_int_equal(report->slot, 3);
    assert_memory_equal(report->text, "opens its device (", strlen("opens its device ("));
    snprintf(first, sizeof(first), "%s", report->text);
    do /* the text changes with the progress: the leader goes by that */
        compute_until_heard(bench);
    while (strcmp(report->text, first) == 0);
    assert_true(start_watch_end(bench->watch));
}

static void test_nothing_is_reported_after_the_end(void **state)
{
    struct bench *bench = *state;
    const struct control_message last = {.type = CONTROL_EVENT, .text = "the last message"};

    start_watch_begin(bench->watch, 0, "opens its device");
    compute_until_heard(bench);
    assert_true(start_watch_end(bench->watch));
    control_server_send(bench->server, &last);
    do
        compute_until_heard(bench);
    while (bench->message.type == CONTROL_STATUS);
    assert_string_equal(bench->message.text, "the last message");
    uint64_t until_ns = clock_monotonic_ns() + 10 * bench->options.failure_timeout_ns;
    while (clock_monotonic_ns() < until_ns) /* several reports would be due */
        assert_false(hear(bench));
}

/* While reading, only notes count as progress, and processor time no longer does. */
static void test_what_a_call_notes_is_reported_once(void **state)
{
    struct bench *bench = *state;
    const struct worker_report *report = &bench->message.status;

    start_watch_begin(bench->watch, 0, "reads the training data");
    start_watch_note(bench->watch, "reads the training data: 1 of 2 MiB");
    compute_until_heard(bench);
    assert_string_equal(report->text, "reads the training data: 1 of 2 MiB");
    uint64_t until_ns = clock_monotonic_ns() + 10 * bench->options.failure_timeout_ns;
    while (clock_monotonic_ns() < until_ns) /* several reports would be due */
        assert_false(hear(bench));
    start_watch_note(bench->watch, "reads the training data: 2 of 2 MiB");
    compute_until_heard(bench);
    assert_string_equal(report->text, "reads the training data: 2 of 2 MiB");
    assert_true(start_watch_end(bench->watch));
}

static void test_a_short_call_is_not_reported(void **state)
{
    struct bench *bench = *state;

    bench->options.failure_timeout_ns = 3600 * NS_PER_SECOND;
    start_watch_begin(bench->watch, 0, "takes its memory");
    assert_false(start_watch_end(bench->watch));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_call_that_computes_is_reported_again_and_again),
        TEST(test_nothing_is_reported_after_the_end),
        TEST(test_what_a_call_notes_is_reported_once),
        TEST(test_a_short_call_is_not_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
