/*
 * Tests of the sends from a device that lags: a copy arrives when the test completes it. No send
 * departs before its copy has arrived, all sends depart in order, a flush waits under the guard of
 * the carrier that the device may wait for, and the first failure is final.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "worker/device/send_queue.h"

#define COUNT 4

/* ---- a device whose copies complete when waited for, or when the test completes them ---- */

struct kernel_device {
    unsigned recorded; /* requested copies */
    unsigned passed;   /* completed copies */
    const bool *guarded;
    unsigned unguarded_waits; /* waits of the host for the device, without a guard */
};

struct kernel_event {
    unsigned after; /* number of copies */
};

static int host_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    (void)device;
    *ret_memory = calloc(1, size_bytes);
    return *ret_memory ? 0 : -1;
}

static void host_release(struct kernel_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static int event_new(struct kernel_device *device, struct kernel_event **ret_event)
{
    (void)device;
    *ret_event = calloc(1, sizeof(**ret_event));
    return *ret_event ? 0 : -1;
}

static void event_free(struct kernel_device *device, struct kernel_event *event)
{
    (void)device;
    free(event);
}

static void event_record(struct kernel_device *device, struct kernel_event *event,
                         enum kernel_queue queue)
{
    event->after = queue == KERNEL_QUEUE_COMMUNICATION ? device->recorded : 0;
}

static void queue_wait(struct kernel_device *device, enum kernel_queue queue,
                       struct kernel_event *event)
{
    (void)device;
    (void)queue;
    (void)event;
}

static bool event_passed(struct kernel_device *device, struct kernel_event *event)
{
    return event->after <= device->passed;
}

static void event_wait(struct kernel_device *device, struct kernel_event *event)
{
    device->unguarded_waits += device->guarded && !*device->guarded;
    device->passed = device->passed > event->after ? device->passed : event->after;
}

static void transfer(struct kernel_device *device, enum kernel_queue queue, void *to,
                     const void *from, size_t size_bytes)
{
    assert_int_equal(queue, KERNEL_QUEUE_COMMUNICATION);
    memcpy(to, from, size_bytes);
    device->recorded++;
}

static const struct kernel far_kernel = {
    .name = "far",
    .host_allocate = host_allocate,
    .host_release = host_release,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .queue_wait = queue_wait,
    .event_passed = event_passed,
    .event_wait = event_wait,
    .transfer = transfer,
};

static const struct kernel near_kernel = {.name = "near", .host_memory = true};

/* ---- the carrier that the device may wait for ---- */

struct guard {
    struct carrier carrier; /* first */
    bool up;
    unsigned times;
    int result; /* of the wait under the guard */
};

static void guard_up(struct carrier *carrier)
{
    struct guard *guard = (struct guard *)carrier;

    assert_false(guard->up);
    guard->up = true;
    guard->times++;
}

static int guard_down(struct carrier *carrier)
{
    struct guard *guard = (struct guard *)carrier;

    assert_true(guard->up);
    guard->up = false;
    return guard->result;
}

static const struct carrier_operations guarding = {
    .name = "guard", .device_memory = true, .guard = guard_up, .unguard = guard_down};

/* ---- sends ---- */

struct harbour {
    struct guard guard;
    struct kernel_device device;
    struct pinned *pinned;
    struct host_copy copies[COUNT];
    uint64_t values[COUNT];
    struct send_queue *queue;
    unsigned gone[2 * COUNT], gone_count;
    unsigned failing; /* index of the send that fails; COUNT: none */
};

static int depart(void *context, unsigned index)
{
    struct harbour *harbour = context;

    assert_true(host_copy_passed(&harbour->copies[index]));
    assert_int_equal(*(uint64_t *)harbour->copies[index].on_host, 100 + index);
    harbour->gone[harbour->gone_count++] = index;
    return index == harbour->failing ? -5 : 0;
}

static void open_harbour(struct harbour *harbour, const struct kernel *kernel, bool direct)
{
    memset(harbour, 0, sizeof(*harbour));
    harbour->failing = COUNT;
    harbour->guard.carrier.operations = &guarding;
    harbour->device.guarded = &harbour->guard.up;
    assert_int_equal(pinned_new(kernel, &harbour->device, &harbour->pinned), 0);
    assert_int_equal(send_queue_new(COUNT, &harbour->guard.carrier, &harbour->queue), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        harbour->values[i] = 100 + i;
        assert_int_equal(host_copy_init(&harbour->copies[i], harbour->pinned, &harbour->values[i],
                                        sizeof(uint64_t), direct),
                         0);
    }
}

static void close_harbour(struct harbour *harbour)
{
    for (unsigned i = 0; i < COUNT; i++)
        host_copy_done(&harbour->copies[i]);
    send_queue_free(harbour->queue);
    pinned_free(harbour->pinned);
}

static int add(struct harbour *harbour, unsigned index)
{
    return send_queue_add(harbour->queue, &harbour->copies[index], 1, depart, harbour, index);
}

static void test_all_depart_in_order_and_none_before_it_is_there(void **state)
{
    struct harbour harbour;

    (void)state;
    open_harbour(&harbour, &far_kernel, false);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(add(&harbour, i), 0);
    assert_int_equal(harbour.gone_count, 0);
    assert_int_equal(send_queue_poll(harbour.queue), 0);
    assert_int_equal(harbour.gone_count, 0);
    harbour.device.passed = 2;
    assert_int_equal(send_queue_poll(harbour.queue), 0);
    assert_int_equal(harbour.gone_count, 2);
    assert_int_equal(send_queue_flush_past(harbour.queue, &harbour.copies[2]), 0);
    assert_int_equal(harbour.gone_count, 3);
    assert_int_equal(send_queue_flush(harbour.queue), 0);
    assert_int_equal(add(&harbour, 1), 0); /* the ring wraps around */
    assert_int_equal(send_queue_flush(harbour.queue), 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(harbour.gone[i], i);
    assert_int_equal(harbour.gone_count, COUNT + 1);
    close_harbour(&harbour);
}

static void test_several_copies_are_one_departure(void **state)
{
    struct harbour harbour;

    (void)state;
    open_harbour(&harbour, &far_kernel, false);
    assert_int_equal(
        send_queue_add(harbour.queue, harbour.copies, COUNT, depart, &harbour, COUNT - 1), 0);
    harbour.device.passed = COUNT - 1;
    assert_int_equal(send_queue_poll(harbour.queue), 0);
    assert_int_equal(harbour.gone_count, 0);
    harbour.device.passed = COUNT;
    assert_int_equal(send_queue_poll(harbour.queue), 0);
    assert_int_equal(harbour.gone_count, 1);
    close_harbour(&harbour);
}

static void test_a_failure_is_the_end(void **state)
{
    struct harbour harbour;

    (void)state;
    open_harbour(&harbour, &far_kernel, false);
    harbour.failing = 1;
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(add(&harbour, i), 0);
    assert_int_equal(send_queue_flush(harbour.queue), -5);
    assert_int_equal(harbour.gone_count, 2);
    assert_int_equal(send_queue_flush(harbour.queue), 0);
    assert_int_equal(harbour.gone_count, 2);
    close_harbour(&harbour);
}

static void test_nobody_waits_for_the_device_without_a_guard(void **state)
{
    struct harbour harbour;

    (void)state;
    open_harbour(&harbour, &far_kernel, false);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(add(&harbour, i), 0);
    harbour.device.passed = 1; /* that copy needs no guard */
    assert_int_equal(send_queue_flush_past(harbour.queue, &harbour.copies[1]), 0);
    assert_int_equal(harbour.guard.times, 1);
    harbour.guard.result = -7; /* the device continued without its input */
    assert_int_equal(send_queue_flush(harbour.queue), -7);
    assert_int_equal(harbour.gone_count, 2);
    harbour.guard.result = 0;
    assert_int_equal(send_queue_flush(harbour.queue), 0);
    assert_int_equal(harbour.gone_count, 2);
    assert_int_equal(harbour.device.unguarded_waits, 0);
    close_harbour(&harbour);
}

static void leave_at_once(const struct kernel *kernel, bool direct)
{
    struct harbour harbour;

    open_harbour(&harbour, kernel, direct);
    assert_ptr_equal(harbour.copies[0].on_host, &harbour.values[0]);
    assert_int_equal(add(&harbour, 0), 0);
    assert_int_equal(harbour.gone_count, 1);
    assert_int_equal(harbour.device.recorded, 0);
    harbour.failing = 1;
    assert_int_equal(add(&harbour, 1), -5);
    close_harbour(&harbour);
}

static void test_where_no_copy_is_needed_it_leaves_at_once(void **state)
{
    (void)state;
    leave_at_once(&near_kernel, false);
    leave_at_once(&far_kernel, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_depart_in_order_and_none_before_it_is_there),
        cmocka_unit_test(test_several_copies_are_one_departure),
        cmocka_unit_test(test_a_failure_is_the_end),
        cmocka_unit_test(test_nobody_waits_for_the_device_without_a_guard),
        cmocka_unit_test(test_where_no_copy_is_needed_it_leaves_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
