/*
 * Tests of the connection to a worker: a broken connection to a living worker is made again. The
 * worker is this process, because an adopted worker is identified by its socket alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/jobs/worker_process.h"

#define PATIENCE_NS (20 * NS_PER_SECOND)

struct fixture {
    struct config config;
    char workers[CONFIG_TEXT_SIZE], socket[CONFIG_TEXT_SIZE];
    sd_event *event;
    int listener;
    unsigned connected_count, message_count;
};

static void on_connected(void *context, const char *job, unsigned slot)
{
    struct fixture *fixture = context;

    assert_string_equal(job, "demo");
    assert_int_equal(slot, 2);
    fixture->connected_count++;
}

static void on_message(void *context, const char *job, unsigned slot,
                       struct control_message *message)
{
    struct fixture *fixture = context;

    (void)job;
    (void)slot;
    assert_int_equal(message->type, CONTROL_ALARM);
    fixture->message_count++;
}

static void on_exited(void *context, const char *job, unsigned slot, int exit_code,
                      const char *words)
{
    (void)context;
    (void)job;
    (void)slot;
    (void)exit_code;
    (void)words;
    fail_msg("the worker has not ended");
}

static const struct worker_process_callbacks callbacks = {
    .connected = on_connected, .message = on_message, .exited = on_exited};

static int begin(void **state)
{
    static struct fixture fixture;
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    fixture = (struct fixture){0};
    snprintf(fixture.config.run_dir, sizeof(fixture.config.run_dir), "/tmp/firn-process-XXXXXX");
    if (!mkdtemp(fixture.config.run_dir) || sd_event_new(&fixture.event) < 0)
        return -1;
    snprintf(fixture.workers, sizeof(fixture.workers), "%.400s/workers", fixture.config.run_dir);
    worker_process_socket(&fixture.config, "demo", 2, fixture.socket);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", fixture.socket);
    fixture.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *state = &fixture;
    return mkdir(fixture.workers, 0755) ||
           bind(fixture.listener, (struct sockaddr *)&address, sizeof(address)) ||
           listen(fixture.listener, 4);
}

static int end(void **state)
{
    struct fixture *fixture = *state;

    close(fixture->listener);
    unlink(fixture->socket);
    sd_event_unref(fixture->event);
    return rmdir(fixture->workers) || rmdir(fixture->config.run_dir);
}

static int try_to_adopt(struct fixture *fixture, struct worker_process **ret_process,
                        struct error *error)
{
    const struct worker_process_options options = {.event = fixture->event,
                                                   .config = &fixture->config,
                                                   .callbacks = &callbacks,
                                                   .context = fixture,
                                                   .job = "demo",
                                                   .job_dir = "/nowhere",
                                                   .slot = 2};

    return worker_process_adopt(&options, ret_process, error);
}

static struct worker_process *adopt(struct fixture *fixture)
{
    struct worker_process *process = NULL;
    struct error error = {0};

    if (try_to_adopt(fixture, &process, &error))
        fail_msg("%s", error.text);
    assert_int_equal(worker_process_pid(process), getpid());
    return process;
}

static int accept_connection(const struct fixture *fixture)
{
    uint64_t deadline_ns = clock_monotonic_ns() + PATIENCE_NS;
    int connection;

    while ((connection = accept4(fixture->listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        assert_true(clock_monotonic_ns() < deadline_ns);
        assert_true(sd_event_run(fixture->event, 10000) >= 0);
    }
    return connection;
}

static void await(const struct fixture *fixture, const unsigned *count, unsigned wanted)
{
    uint64_t deadline_ns = clock_monotonic_ns() + PATIENCE_NS;

    while (*count < wanted) {
        assert_true(clock_monotonic_ns() < deadline_ns);
        assert_true(sd_event_run(fixture->event, 10000) >= 0);
    }
}

static void say_alarm(int connection)
{
    const struct control_message alarm = {.type = CONTROL_ALARM, .text = "the disk is full"};
    struct bytes packed = {0};

    assert_int_equal(control_pack(&alarm, &packed), 0);
    assert_int_equal(send(connection, packed.data, packed.size_bytes, MSG_NOSIGNAL),
                     (ssize_t)packed.size_bytes);
    bytes_done(&packed);
}

static void check_again(struct fixture *fixture, unsigned connected_count)
{
    int connection = accept_connection(fixture);

    await(fixture, &fixture->connected_count, connected_count);
    say_alarm(connection);
    await(fixture, &fixture->message_count, connected_count);
    close(connection);
}

static void test_worker_that_hangs_up_is_connected_again(void **state)
{
    struct fixture *fixture = *state;
    struct worker_process *process = adopt(fixture);

    close(accept_connection(fixture));
    check_again(fixture, 1);
    check_again(fixture, 2);
    worker_process_free(process);
}

static void test_worker_that_is_not_understood_is_connected_again(void **state)
{
    struct fixture *fixture = *state;
    struct worker_process *process = adopt(fixture);
    int connection = accept_connection(fixture);

    assert_int_equal(send(connection, "\0\0\0\0", 4, MSG_NOSIGNAL), 4);
    check_again(fixture, 1);
    close(connection);
    worker_process_free(process);
}

/* A stopped worker accepts no connection, and must not block the daemon. */
static void test_worker_that_accepts_nobody_is_not_waited_for(void **state)
{
    struct fixture *fixture = *state;
    struct worker_process *waiting[16], *process = NULL;
    struct error error = {0};
    unsigned count = 0;

    while (count < 16 && !try_to_adopt(fixture, &waiting[count], &error))
        count++;
    assert_in_range(count, 1, 15);
    assert_int_equal(try_to_adopt(fixture, &process, &error), -EAGAIN);
    while (count > 0)
        worker_process_free(waiting[--count]);
}

static unsigned exited_count;

static void on_killed(void *context, const char *job, unsigned slot, int exit_code,
                      const char *words)
{
    (void)context, (void)job, (void)slot, (void)words;
    assert_int_equal(exit_code, -SIGKILL);
    exited_count++;
}

/* The "worker" never makes its socket; a socket of this test takes its place. */
static void test_socket_of_another_process_is_not_the_workers(void **state)
{
    static const struct worker_process_callbacks of_killed = {
        .connected = on_connected, .message = on_message, .exited = on_killed};
    struct fixture *fixture = *state;
    struct worker_process *process = NULL;
    struct error error = {0};
    char script[CONFIG_TEXT_SIZE + 32], log[CONFIG_TEXT_SIZE + 32], aside[CONFIG_TEXT_SIZE + 8],
        byte;

    snprintf(script, sizeof(script), "%s/worker.sh", fixture->config.run_dir);
    snprintf(log, sizeof(log), "%s/worker-2.log", fixture->config.run_dir);
    snprintf(aside, sizeof(aside), "%s.aside", fixture->socket);
    snprintf(fixture->config.worker, sizeof(fixture->config.worker), "%.500s", script);
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    fputs("#!/bin/sh\nexec sleep 1000\n", file);
    assert_int_equal(fclose(file) | chmod(script, 0755) | rename(fixture->socket, aside), 0);
    const struct worker_process_options options = {.event = fixture->event,
                                                   .config = &fixture->config,
                                                   .callbacks = &of_killed,
                                                   .context = fixture,
                                                   .job = "demo",
                                                   .job_dir = fixture->config.run_dir,
                                                   .spec_path = "/nowhere",
                                                   .checkpoint_dir = "/nowhere",
                                                   .device = "",
                                                   .slot = 2};
    if (worker_process_spawn(&options, &process, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rename(aside, fixture->socket), 0);
    int connection = accept_connection(fixture);
    assert_int_equal(recv(connection, &byte, 1, 0), 0); /* the daemon has hung up */
    close(connection);
    assert_int_equal(fixture->connected_count, 0);
    worker_process_kill(process);
    await(fixture, &exited_count, 1);
    unlink(script);
    unlink(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_worker_that_hangs_up_is_connected_again, begin, end),
        cmocka_unit_test_setup_teardown(test_worker_that_is_not_understood_is_connected_again,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_socket_of_another_process_is_not_the_workers, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_worker_that_accepts_nobody_is_not_waited_for, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
