/*
 * Tests of a stage's messages over a carrier that moves the device's own memory: the host enqueues
 * a whole step on the device without waiting for any message, each message in order before the
 * compute that uses it, and learns at the end whether all messages were moved. Over a carrier of
 * host memory the host waits, after it has sent the messages that the other side may be waiting
 * for.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "worker/device/tensor_channel.h"

#define MESSAGES 4

/* ---- a carrier that logs its requests ---- */

struct carrier_request {
    char name; /* of the message: 'a' has tag 0 */
};

struct carrier_log {
    struct carrier carrier; /* first */
    char journal[128];      /* "+a": posted, "|a": compute waits for it, ".a": the host waited */
    struct carrier_request requests[MESSAGES];
    int result; /* of the wait */
};

static void write_down(struct carrier_log *carrier_log, char what,
                       const struct carrier_request *request)
{
    size_t length = strlen(carrier_log->journal);

    snprintf(carrier_log->journal + length, sizeof(carrier_log->journal) - length, "%c%c", what,
             request->name);
}

static int post(struct carrier *carrier, const struct carrier_move *moves, size_t move_count,
                struct carrier_request **ret_requests)
{
    struct carrier_log *carrier_log = (struct carrier_log *)carrier;

    assert_int_equal(move_count, 1);
    assert_true(moves[0].tag < MESSAGES);
    ret_requests[0] = &carrier_log->requests[moves[0].tag];
    ret_requests[0]->name = (char)('a' + moves[0].tag);
    write_down(carrier_log, '+', ret_requests[0]);
    return 0;
}

static int wait_for(struct carrier *carrier, struct carrier_request *request)
{
    write_down((struct carrier_log *)carrier, '.', request);
    return ((struct carrier_log *)carrier)->result;
}

static void precede(struct carrier *carrier, struct carrier_request *request)
{
    write_down((struct carrier_log *)carrier, '|', request);
}

static void give_up(struct carrier *carrier, const char *reason)
{
    (void)reason;
    ((struct carrier_log *)carrier)->result = -ECONNRESET;
}

static const struct carrier_operations over_device = {.name = "device",
                                                      .device_memory = true,
                                                      .post = post,
                                                      .wait = wait_for,
                                                      .precede = precede,
                                                      .abort = give_up};
static const struct carrier_operations over_host = {
    .name = "host", .post = post, .wait = wait_for, .abort = give_up};

/* ---- a worker whose device is the host ---- */

static const struct kernel near_kernel = {.name = "near", .host_memory = true};

struct worker {
    struct carrier_log carrier_log;
    struct pinned *pinned;
    struct send_queue *send_queue;
    struct tensor_channel in, out;
    uint64_t buffers[2];
};

static void open_channel(struct worker *worker, struct tensor_channel *channel, uint64_t *buffer)
{
    const struct tensor_channel_options options = {.pinned = worker->pinned,
                                                   .carrier = &worker->carrier_log.carrier,
                                                   .send_queue = worker->send_queue,
                                                   .buffer = buffer,
                                                   .size_bytes = sizeof(*buffer)};

    assert_int_equal(tensor_channel_init(channel, &options), 0);
}

static void open_worker(struct worker *worker, const struct carrier_operations *operations)
{
    *worker = (struct worker){.carrier_log.carrier.operations = operations};
    assert_int_equal(pinned_new(&near_kernel, NULL, &worker->pinned), 0);
    assert_int_equal(send_queue_new(MESSAGES, &worker->carrier_log.carrier, &worker->send_queue),
                     0);
    open_channel(worker, &worker->in, &worker->buffers[0]);
    open_channel(worker, &worker->out, &worker->buffers[1]);
}

static void close_worker(struct worker *worker)
{
    tensor_channel_close(&worker->in);
    tensor_channel_close(&worker->out);
    send_queue_free(worker->send_queue);
    pinned_free(worker->pinned);
}

static void compute(struct worker *worker)
{
    write_down(&worker->carrier_log, '*', &(struct carrier_request){.name = ' '});
}

/* Pass one micro-batch: receive, compute, send. */
static void pass(struct worker *worker, uint64_t tag)
{
    assert_int_equal(tensor_channel_receive(&worker->in, tag), 0);
    assert_int_equal(tensor_channel_land(&worker->in), 0);
    assert_int_equal(tensor_channel_reuse(&worker->out), 0);
    compute(worker);
    tensor_channel_used(&worker->in);
    assert_int_equal(tensor_channel_send(&worker->out, tag + 1), 0);
}

static void test_the_device_waits_and_not_the_host(void **state)
{
    struct worker worker;

    (void)state;
    open_worker(&worker, &over_device);
    pass(&worker, 0);
    assert_string_equal(worker.carrier_log.journal, "+a|a* +b");
    /*
     * The second micro-batch is enqueued while the first may still be arriving: each buffer only
     * has to be free of the message before the last.
     */
    pass(&worker, 2);
    assert_string_equal(worker.carrier_log.journal, "+a|a* +b.a+c|c|b* .b+d");
    assert_int_equal(tensor_channel_complete(&worker.in), 0);
    assert_int_equal(tensor_channel_complete(&worker.out), 0);
    assert_string_equal(worker.carrier_log.journal, "+a|a* +b.a+c|c|b* .b+d.c.d");
    close_worker(&worker);
}

static void test_what_was_not_moved_is_told_before_it_is_believed(void **state)
{
    struct worker worker;

    (void)state;
    open_worker(&worker, &over_device);
    pass(&worker, 0);
    worker.carrier_log.result = -ETIMEDOUT;
    assert_int_equal(tensor_channel_complete(&worker.in), -ETIMEDOUT);
    assert_int_equal(tensor_channel_complete(&worker.out), -ETIMEDOUT);
    assert_int_equal(tensor_channel_complete(&worker.in), 0); /* reported once */
    close_worker(&worker);
}

static void test_a_message_that_does_not_come_fails_the_carrier(void **state)
{
    struct worker worker;

    (void)state;
    open_worker(&worker, &over_device);
    assert_int_equal(tensor_channel_receive(&worker.in, 0), 0);
    assert_int_equal(tensor_channel_land(&worker.in), 0);
    tensor_channel_close(&worker.in);
    assert_string_equal(worker.carrier_log.journal, "+a|a.a");
    assert_int_equal(worker.carrier_log.result, -ECONNRESET);
    close_worker(&worker);
}

static void test_over_the_host_it_waits(void **state)
{
    struct worker worker;

    (void)state;
    open_worker(&worker, &over_host);
    pass(&worker, 0);
    pass(&worker, 2);
    assert_string_equal(worker.carrier_log.journal, "+a.a* +b+c.c.b* +d");
    close_worker(&worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_device_waits_and_not_the_host),
        cmocka_unit_test(test_what_was_not_moved_is_told_before_it_is_believed),
        cmocka_unit_test(test_a_message_that_does_not_come_fails_the_carrier),
        cmocka_unit_test(test_over_the_host_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
