/* Tests of the benchmark of a device: it returns rates, and leaves nothing allocated. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "worker/device/slot_benchmark.h"

static const struct slot_benchmark_size small = {
    .rows = 64, .in = 48, .out = 80, .copy_bytes = 1 << 20, .host_bytes = 1 << 19};
static const struct kernel_options options = {.thread_count = 1};
static struct kernel counting;
static int held, left; /* allocations; and how many more succeed, below 0: all */
static size_t free_bytes;

static int allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    if (left == 0)
        return -ENOMEM;
    left--;
    held++;
    return kernel_cpu()->allocate(device, size_bytes, ret_memory);
}

static void release(struct kernel_device *device, void *memory)
{
    held -= memory != NULL;
    kernel_cpu()->release(device, memory);
}

static int host_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    if (left == 0)
        return -ENOMEM;
    left--;
    held++;
    return kernel_cpu()->host_allocate(device, size_bytes, ret_memory);
}

static void host_release(struct kernel_device *device, void *memory)
{
    held -= memory != NULL;
    kernel_cpu()->host_release(device, memory);
}

static void memory(struct kernel_device *device, size_t *ret_free_bytes, size_t *ret_total_bytes)
{
    (void)device;
    *ret_free_bytes = free_bytes;
    *ret_total_bytes = 1000;
}

static int setup(void **state)
{
    (void)state;
    counting = *kernel_cpu();
    counting.allocate = allocate;
    counting.release = release;
    counting.host_allocate = host_allocate;
    counting.host_release = host_release;
    counting.memory = memory;
    held = 0;
    left = -1;
    free_bytes = 990;
    return 0;
}

static void test_rates(void **state)
{
    struct error error = {0};
    double flops = 0, copied = 0, fetched = 0;

    (void)state;
    assert_int_equal(slot_benchmark_of_products(&counting, &options, &small, &flops, &error), 0);
    assert_int_equal(
        slot_benchmark_of_memory(&counting, &options, &small, &copied, &fetched, &error), 0);
    assert_true(flops > 1e6 && flops < 1e16);
    assert_true(copied > 1e6 && copied < 1e16);
    assert_true(fetched > 1e6 && fetched < 1e16);
    assert_int_equal(held, 0);
}

/* On a device in use the rates would include the load of the other program. */
static void test_a_device_in_use_is_not_measured(void **state)
{
    struct error error = {0};
    double flops = 7;

    (void)state;
    free_bytes = 800;
    assert_int_equal(slot_benchmark_of_products(&counting, &options, &small, &flops, &error),
                     -EBUSY);
    assert_true(flops == 7.0);
    assert_non_null(strstr(error.text, "cannot be measured while other processes use"));
}

static void test_each_allocation_fails_once(void **state)
{
    struct error error = {0};
    double one, other;
    int allowed = 0;

    (void)state;
    for (;; allowed++) {
        left = allowed;
        if (slot_benchmark_of_products(&counting, &options, &small, &one, &error) == 0)
            break;
        assert_int_equal(error.code, -ENOMEM);
        assert_int_equal(held, 0);
    }
    assert_true(allowed >= 3);
    for (allowed = 0;; allowed++) {
        left = allowed;
        if (slot_benchmark_of_memory(&counting, &options, &small, &one, &other, &error) == 0)
            break;
        assert_int_equal(error.code, -ENOMEM);
        assert_int_equal(held, 0);
    }
    assert_true(allowed >= 3);
}

/* Simulate other programs that take the processor in the middle of each product. */
#define TAKEN_NS 20000000

static void *take_processor(void *unused)
{
    uint64_t end_ns = clock_monotonic_ns() + TAKEN_NS;

    while (clock_monotonic_ns() < end_ns)
        ;
    return unused;
}

static void interrupted(struct kernel_device *device, void *output, const void *input,
                        const void *weight, const void *bias, struct kernel_linear shape)
{
    pthread_t other;

    assert_int_equal(pthread_create(&other, NULL, take_processor, NULL), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    kernel_cpu()->linear_forward(device, output, input, weight, bias, shape);
}

static void test_what_a_processor_does_for_others_does_not_count(void **state)
{
    double product = 2.0 * (double)(small.rows * small.in * small.out), flops = 0;
    struct error error = {0};

    (void)state;
    counting.linear_forward = interrupted;
    assert_int_equal(slot_benchmark_of_products(&counting, &options, &small, &flops, &error), 0);
    assert_true(flops > product * 1e9 / TAKEN_NS);
    counting.host_memory = false; /* a device beside the processor: its time is wall-clock time */
    assert_int_equal(slot_benchmark_of_products(&counting, &options, &small, &flops, &error), 0);
    assert_true(flops < product * 1e9 / TAKEN_NS);
}

static void test_devices(void **state)
{
    static const char *const wrong[] = {
        "", "gpu", "cpus", "cpu:", "cpu:0", "cpu:-1", "cpu:2x", "cpu:99999999999"};
    struct kernel_options read = {0};
    enum kernel_backend backend;
    struct error error = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_int_equal(slot_benchmark_device(wrong[i], &backend, &read, &error), -EINVAL);
    assert_int_equal(slot_benchmark_device("cpu", &backend, &read, &error), 0);
    assert_int_equal(read.thread_count, 1);
    assert_int_equal(slot_benchmark_device("cpu:12", &backend, &read, &error), 0);
    assert_int_equal(read.thread_count, 12);
    assert_int_equal(backend, KERNEL_BACKEND_CPU);
    assert_int_equal(slot_benchmark_device("cuda", &backend, &read, &error), 0);
    assert_int_equal(backend, KERNEL_BACKEND_CUDA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_rates, setup),
        cmocka_unit_test_setup(test_a_device_in_use_is_not_measured, setup),
        cmocka_unit_test_setup(test_what_a_processor_does_for_others_does_not_count, setup),
        cmocka_unit_test(test_devices),
        cmocka_unit_test_setup(test_each_allocation_fails_once, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
