/*
 * Tests that pinned memory passes from one generation to the next, and that unused memory is freed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/device/pinned.h"

struct kernel_device {
    unsigned allocated, released, limit;
};

static int host_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    if (device->allocated == device->limit)
        return -ENOMEM;
    *ret_memory = calloc(1, size_bytes);
    device->allocated++;
    return 0;
}

static void host_release(struct kernel_device *device, void *memory)
{
    free(memory);
    device->released++;
}

static const struct kernel kernel = {.host_allocate = host_allocate, .host_release = host_release};

static void *take(struct pinned *pool, size_t size_bytes)
{
    void *memory;

    assert_int_equal(pinned_take(pool, size_bytes, &memory), 0);
    return memory;
}

static void test_the_next_generation_finds_what_the_last_one_had(void **state)
{
    struct kernel_device device = {.limit = 9};
    struct pinned *pool;

    (void)state;
    assert_int_equal(pinned_new(&kernel, &device, &pool), 0);
    void *unit = take(pool, 100), *other = take(pool, 100), *stream = take(pool, 10);
    assert_ptr_not_equal(unit, other);
    pinned_give(pool, unit);
    pinned_give(pool, other);
    pinned_give(pool, stream);
    pinned_turn(pool);
    void *again = take(pool, 100);
    assert_true(again == unit || again == other);
    assert_int_equal(device.allocated, 3);
    void *smaller = take(pool, 99);
    assert_int_equal(device.allocated, 4);
    pinned_give(pool, again);
    pinned_give(pool, smaller);
    pinned_free(pool);
    assert_int_equal(device.released, 4);
}

static void test_what_a_generation_left_lying_goes(void **state)
{
    struct kernel_device device = {.limit = 9};
    struct pinned *pool;

    (void)state;
    assert_int_equal(pinned_new(&kernel, &device, &pool), 0);
    void *kept = take(pool, 100), *given = take(pool, 200);
    pinned_give(pool, given);
    pinned_turn(pool); /* it was used in the generation that ends */
    assert_int_equal(device.released, 0);
    pinned_turn(pool);
    assert_int_equal(device.released, 1);
    pinned_give(pool, kept); /* in use until now */
    pinned_turn(pool);
    assert_int_equal(device.released, 1);
    pinned_give(pool, NULL);
    pinned_free(pool);
    assert_int_equal(device.released, 2);
}

static void test_no_memory_changes_nothing(void **state)
{
    struct kernel_device device = {.limit = 1};
    struct pinned *pool;
    void *memory;

    (void)state;
    assert_int_equal(pinned_new(&kernel, &device, &pool), 0);
    pinned_give(pool, take(pool, 8));
    assert_int_equal(pinned_take(pool, 9, &memory), -ENOMEM);
    pinned_give(pool, take(pool, 8));
    pinned_free(pool);
    assert_int_equal(device.released, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_generation_finds_what_the_last_one_had),
        cmocka_unit_test(test_what_a_generation_left_lying_goes),
        cmocka_unit_test(test_no_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
