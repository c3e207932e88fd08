/*
 * Tests of the worker's socket: the messages repeated to a later firnd, and when the worker hangs
 * up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker/session/control_server.h"

#define PATIENCE_S 20

static char folder[64], path[96];

/* The firnd end of the socket. */
struct firnd {
    int connection;
    struct bytes received;
};

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-control-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/worker.sock", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct control_server *start(void)
{
    struct control_server *server = NULL;
    struct error error = {0};

    if (control_server_start(path, NULL, NULL, &server, &error))
        fail_msg("%s", error.text);
    return server;
}

static void come(struct firnd *firnd)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *firnd = (struct firnd){.connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(firnd->connection >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(connect(firnd->connection, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(
        setsockopt(firnd->connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
}

static void go(struct firnd *firnd)
{
    close(firnd->connection);
    bytes_done(&firnd->received);
}

/* Receive the next message; return false if the worker has hung up. */
static bool hear(struct firnd *firnd, struct control_message *ret_message)
{
    struct error error = {0};
    int status;

    while ((status = control_unpack(&firnd->received, ret_message, &error)) == 0) {
        uint8_t chunk[4096];
        ssize_t size = recv(firnd->connection, chunk, sizeof(chunk), 0);
        if (size == 0 || (size < 0 && errno == ECONNRESET))
            return false;
        assert_true(size > 0);
        assert_int_equal(bytes_append(&firnd->received, chunk, (size_t)size), 0);
    }
    assert_int_equal(status, 1);
    return true;
}

static void hear_checkpoint(struct firnd *firnd, uint64_t step)
{
    struct control_message message = {0};

    assert_true(hear(firnd, &message));
    assert_int_equal(message.type, CONTROL_CHECKPOINT);
    assert_int_equal(message.checkpoint.step, step);
    control_message_done(&message);
}

static void say(const struct firnd *firnd, const struct control_message *message)
{
    struct bytes packed = {0};

    assert_int_equal(control_pack(message, &packed), 0);
    assert_int_equal(send(firnd->connection, packed.data, packed.size_bytes, MSG_NOSIGNAL),
                     (ssize_t)packed.size_bytes);
    bytes_done(&packed);
}

static struct control_message checkpoint_of(uint64_t step)
{
    struct control_message message = {.type = CONTROL_CHECKPOINT,
                                      .checkpoint = {.generation = 3, .step = step}};

    snprintf(message.checkpoint.path, sizeof(message.checkpoint.path), "/checkpoints/%u",
             (unsigned)step);
    return message;
}

static void tell(struct control_server *server, uint64_t step)
{
    struct control_message message = checkpoint_of(step);
    control_server_send(server, &message);
}

/* Send an answer; return when the worker has received it. */
static void answer(const struct firnd *firnd, struct control_server *server, uint64_t step)
{
    struct control_message message = checkpoint_of(step), taken = {0};

    message.committed = true;
    say(firnd, &message);
    assert_int_equal(
        control_server_take(server, clock_monotonic_ns() + PATIENCE_S * NS_PER_SECOND, &taken), 1);
    assert_int_equal(taken.checkpoint.step, step);
    control_message_done(&taken);
}

static void test_checkpoint_is_told_until_it_is_answered(void **state)
{
    struct control_server *server = start();
    struct firnd firnd;

    (void)state;
    tell(server, 10); /* no firnd is connected */
    come(&firnd);
    hear_checkpoint(&firnd, 10);
    go(&firnd);
    come(&firnd);
    hear_checkpoint(&firnd, 10);
    answer(&firnd, server, 10);
    go(&firnd);
    come(&firnd);
    tell(server, 20); /* without step 10 before it */
    hear_checkpoint(&firnd, 20);
    go(&firnd);
    control_server_stop(server);
}

/*
 * The answer was in flight when the worker reported the next checkpoint, which is still unrecorded.
 */
static void test_answer_to_the_checkpoint_before(void **state)
{
    struct control_server *server = start();
    struct firnd firnd;

    (void)state;
    come(&firnd);
    tell(server, 10);
    hear_checkpoint(&firnd, 10);
    tell(server, 20);
    answer(&firnd, server, 10);
    go(&firnd);
    come(&firnd);
    hear_checkpoint(&firnd, 20);
    go(&firnd);
    control_server_stop(server);
}

/*
 * No message is dropped silently: a firnd that is hung up on connects again and repeats all that
 * still holds.
 */
static void test_more_than_is_looked_at(void **state)
{
    const struct control_message order = {.type = CONTROL_GO_ON};
    struct control_server *server = start();
    struct control_message message = {0};
    struct bytes packed = {0}, all = {0};
    struct firnd firnd;

    (void)state;
    assert_int_equal(control_pack(&order, &packed), 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(bytes_append(&all, packed.data, packed.size_bytes), 0);
    come(&firnd);
    ssize_t sent = send(firnd.connection, all.data, all.size_bytes, MSG_NOSIGNAL);
    (void)sent; /* or less, if the worker hangs up before the end */
    assert_false(hear(&firnd, &message));
    go(&firnd);
    unsigned taken = 0;
    for (; control_server_take(server, 0, &message); taken++)
        control_message_done(&message);
    assert_in_range(taken, 1, 999);
    come(&firnd);
    tell(server, 10);
    hear_checkpoint(&firnd, 10);
    answer(&firnd, server, 10);
    go(&firnd);
    bytes_done(&packed);
    bytes_done(&all);
    control_server_stop(server);
}

static void test_start_that_fails_leaves_nothing(void **state)
{
    char nowhere[128];
    struct control_server *server = NULL;
    struct error error = {0};

    (void)state;
    snprintf(nowhere, sizeof(nowhere), "%s/missing/worker.sock", folder);
    assert_true(control_server_start(nowhere, NULL, NULL, &server, &error) < 0);
    assert_non_null(strstr(error.text, nowhere));
    assert_null(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_is_told_until_it_is_answered),
        cmocka_unit_test(test_answer_to_the_checkpoint_before),
        cmocka_unit_test(test_more_than_is_looked_at),
        cmocka_unit_test(test_start_that_fails_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
