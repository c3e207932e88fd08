/*
 * A call loses its connection to a member that sends HTTP/2 frames from a script. The call is
 * retried once if it is idempotent, or if the member surely has not seen it. Otherwise it is not
 * retried.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "lib/membership/frames.h"
#include "lib/membership/listener.h"
#include "membership/etcd/etcd.h"
#include "membership/transport/poll_loop.h"

#define WAIT_NS (10 * NS_PER_SECOND)

/* The member's reaction to a request; the first of a script is for the first request. */
enum manner {
    REFUSE = 0, /* with a reason of etcd's: this is an answer, and the last of a script */
    HANG_UP,
    GO_AWAY, /* saying that it was not looked at */
    RESET,   /* the same, and the connection stays */
};

struct member {
    int listener;
    unsigned port;
    pthread_t thread;
    const enum manner *script;
    unsigned asked, connections; /* read after the thread has ended */
};

static void refuse(int connection, unsigned stream)
{
    frame_send_headers(connection, 0, stream, ":status: 200\ncontent-type: application/grpc");
    frame_send_headers(connection, FRAME_END_STREAM, stream, "grpc-status: 3\ngrpc-message: no");
}

/* Return whether the connection continues. */
static bool treat(struct member *member, int connection, unsigned stream)
{
    static const uint8_t none[8] = {0};
    member->asked++;
    switch (*member->script) {
    case HANG_UP:
        member->script++;
        return false;
    case GO_AWAY:
        member->script++;
        frame_send(connection, FRAME_GOAWAY, 0, 0, none, sizeof(none));
        return true;
    case RESET:
        member->script++;
        frame_send_number(connection, FRAME_RESET, stream, FRAME_REFUSED);
        return true;
    default:
        refuse(connection, stream);
        return true;
    }
}

static void serve_one(struct member *member, int connection)
{
    struct frame frame;
    bool goes_on = frame_read_preface(connection);
    member->connections++;
    frame_send(connection, FRAME_SETTINGS, 0, 0, NULL, 0);
    while (goes_on && frame_read(connection, &frame)) {
        if (frame.type == FRAME_SETTINGS && !(frame.flags & FRAME_ACK))
            frame_send(connection, FRAME_SETTINGS, FRAME_ACK, 0, NULL, 0);
        else if (frame.type == FRAME_DATA && (frame.flags & FRAME_END_STREAM))
            goes_on = treat(member, connection, frame.stream);
    }
}

static void *serve(void *user)
{
    struct member *member = user;
    for (int connection; (connection = accept(member->listener, NULL, NULL)) >= 0;) {
        serve_one(member, connection);
        close(connection);
    }
    return NULL;
}

struct outcome {
    bool done;
    int status;
};

static void finished(void *user, const struct kv_result *result)
{
    struct outcome *outcome = user;
    assert_false(outcome->done);
    outcome->done = true;
    outcome->status = result->status;
}

/* One transaction, or one reading, of a member that follows @script. */
static int ask(struct member *member, const enum manner *script, bool txn)
{
    char endpoint[64];
    struct etcd *etcd;
    struct error error = {0};
    struct outcome outcome = {0};
    struct poll_loop *loop = poll_loop_new();
    const struct kv_operation put = {.type = KV_PUT, .key = "/k", .value = "v"};
    *member = (struct member){.script = script};
    member->listener = listener_open(&member->port);
    assert_int_equal(pthread_create(&member->thread, NULL, serve, member), 0);
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", member->port);
    const struct etcd_options options = {.endpoints = endpoint};
    assert_int_equal(etcd_new(poll_loop_table(loop), &options, &etcd, &error), 0);
    const struct kv *kv = etcd_kv(etcd);
    if (txn)
        assert_int_equal(kv->txn(kv->context, NULL, 0, &put, 1, finished, &outcome, NULL), 0);
    else
        assert_int_equal(kv->range(kv->context, "/k", false, finished, &outcome, NULL), 0);
    assert_int_equal(poll_loop_run(loop, &outcome.done, clock_monotonic_ns() + WAIT_NS), 0);
    etcd_free(etcd);
    poll_loop_free(loop);
    shutdown(member->listener, SHUT_RDWR);
    pthread_join(member->thread, NULL);
    close(member->listener);
    return outcome.status;
}

static void test_what_may_be_repeated_is_asked_once_more(void **state)
{
    (void)state;
    struct member member;
    assert_int_equal(ask(&member, (const enum manner[]){HANG_UP, REFUSE}, false), -EINVAL);
    assert_int_equal(member.asked, 2);
    assert_int_equal(member.connections, 2);
}

static void test_once_more_is_not_for_ever(void **state)
{
    (void)state;
    struct member member;
    assert_int_equal(ask(&member, (const enum manner[]){HANG_UP, HANG_UP, REFUSE}, false),
                     -ECONNRESET);
    assert_int_equal(member.asked, 2);
}

static void test_what_may_have_been_seen_is_not_repeated(void **state)
{
    (void)state;
    struct member member;
    assert_int_equal(ask(&member, (const enum manner[]){HANG_UP, REFUSE}, true), -ECONNRESET);
    assert_int_equal(member.asked, 1);
}

static void test_what_was_not_looked_at_is_asked_once_more(void **state)
{
    (void)state;
    struct member member;
    assert_int_equal(ask(&member, (const enum manner[]){GO_AWAY, REFUSE}, true), -EINVAL);
    assert_int_equal(member.asked, 2);
    assert_int_equal(member.connections, 2);
    assert_int_equal(ask(&member, (const enum manner[]){RESET, REFUSE}, true), -EINVAL);
    assert_int_equal(member.asked, 2);
    assert_int_equal(member.connections, 1);
    /* then it was seen, perhaps */
    assert_int_equal(ask(&member, (const enum manner[]){GO_AWAY, HANG_UP, REFUSE}, true),
                     -ECONNRESET);
    assert_int_equal(member.asked, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_may_be_repeated_is_asked_once_more),
        cmocka_unit_test(test_once_more_is_not_for_ever),
        cmocka_unit_test(test_what_may_have_been_seen_is_not_repeated),
        cmocka_unit_test(test_what_was_not_looked_at_is_asked_once_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
