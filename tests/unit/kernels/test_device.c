#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/device.h"

#define THREADS    3
#define SIZE_BYTES ((size_t)3 << 20) /* large enough for huge pages, and for every thread */

/* The sanitizers' allocators end the program when malloc() fails, unless configured otherwise. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static struct kernel_device *device_new(void)
{
    struct kernel_options options = {.thread_count = THREADS};
    struct kernel_device *device;
    assert_int_equal(kernel_cpu()->open(&options, &device, NULL), 0);
    return device;
}

static void test_thread_counts_are_bounded(void **state)
{
    (void)state;
    struct kernel_device *device = NULL;
    struct error error = {0};

    assert_int_equal(kernel_cpu()->open(&(struct kernel_options){0}, &device, &error), -EINVAL);
    assert_non_null(strstr(error.text, "threads"));
    struct kernel_options many = {.thread_count = 1000000};
    assert_int_equal(kernel_cpu()->open(&many, &device, &error), -EINVAL);
    assert_null(device);
    kernel_cpu()->close(NULL);
}

static void test_memory(void **state)
{
    (void)state;
    const struct kernel *k = kernel_cpu();
    struct kernel_device *device = device_new();
    void *first, *second, *empty;
    char *host = malloc(SIZE_BYTES);

    assert_non_null(host);
    assert_int_equal(k->allocate(device, SIZE_BYTES, &first), 0);
    assert_int_equal(k->allocate(device, SIZE_BYTES, &second), 0);
    assert_int_equal(k->allocate(device, 0, &empty), 0);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_int_equal((uintptr_t)empty % 64, 0);
    memset(host, 0, SIZE_BYTES);
    assert_memory_equal(first, host, SIZE_BYTES);

    for (size_t i = 0; i < SIZE_BYTES; i++)
        host[i] = (char)(i * 31 >> 3);
    k->upload(device, first, host, SIZE_BYTES - 1);
    k->copy(device, second, first, SIZE_BYTES);
    host[SIZE_BYTES - 1] = 0;
    assert_memory_equal(second, host, SIZE_BYTES);
    k->zero(device, first, SIZE_BYTES);
    k->download(device, host, first, SIZE_BYTES);
    for (size_t i = 0; i < SIZE_BYTES; i++)
        assert_int_equal(host[i], 0);
    assert_int_equal(k->synchronize(device, NULL), 0);

    k->release(device, first);
    k->release(device, second);
    k->release(device, empty);
    k->release(device, NULL);
    k->close(device);
    free(host);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct kernel_device *device = device_new();
    void *memory = NULL;
    assert_int_equal(kernel_cpu()->allocate(device, SIZE_MAX / 2, &memory), -ENOMEM);
    assert_null(memory);
    kernel_cpu()->close(device);
}

static void mark(const void *context, size_t begin, size_t end, struct device_scratch *scratch)
{
    unsigned char *marks = *(unsigned char *const *)context;
    assert(scratch);
    for (size_t i = begin; i < end; i++)
        marks[i]++;
}

/* Every item belongs to exactly one share, for any grain. */
static void test_shares_cover_everything_once(void **state)
{
    (void)state;
    struct kernel_device *device = device_new();
    unsigned char marks[201], *pointer = marks;

    for (size_t count = 0; count <= 200; count++) {
        for (size_t grain = 1; grain <= 70; grain += 23) {
            memset(marks, 0, sizeof(marks));
            device_for(device, count, grain, mark, &pointer);
            for (size_t i = 0; i < sizeof(marks); i++)
                assert_int_equal(marks[i], i < count);
        }
    }
    kernel_cpu()->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_counts_are_bounded),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_shares_cover_everything_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
