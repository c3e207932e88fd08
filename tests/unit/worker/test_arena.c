/* One allocation for all parts of a generation, kept while it is large enough. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "worker/arena.h"

struct kernel_device {
    unsigned allocated, released;
    size_t live_bytes, last_bytes, limit_bytes;
};

static int allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    if (size_bytes > device->limit_bytes - device->live_bytes)
        return -ENOMEM;
    *ret_memory = calloc(1, size_bytes);
    device->allocated++;
    device->live_bytes += device->last_bytes = size_bytes;
    return 0;
}

static void release(struct kernel_device *device, void *memory)
{
    if (!memory)
        return;
    free(memory);
    device->released++;
    device->live_bytes -= device->last_bytes; /* tests release what they took last */
}

static void zero(struct kernel_device *device, void *memory, size_t size_bytes)
{
    (void)device;
    memset(memory, 0, size_bytes);
}

static int synchronize(struct kernel_device *device, struct error *error)
{
    (void)device;
    (void)error;
    return 0;
}

static const struct kernel far_kernel = {
    .allocate = allocate, .release = release, .zero = zero, .synchronize = synchronize};
static const struct kernel near_kernel = {.host_memory = true,
                                          .allocate = allocate,
                                          .release = release,
                                          .zero = zero,
                                          .synchronize = synchronize};

static struct arena *make(const struct kernel *kernel, struct kernel_device *device)
{
    struct arena *arena;

    *device = (struct kernel_device){.limit_bytes = 4096};
    assert_int_equal(arena_new(kernel, device, &arena), 0);
    return arena;
}

static void begin(struct arena *arena, size_t size_bytes)
{
    struct error error = {0};

    if (arena_begin(arena, size_bytes, &error))
        fail_msg("%s", error.text);
}

static char *take(struct arena *arena, size_t size_bytes)
{
    void *memory;

    assert_int_equal(arena_take(arena, size_bytes, &memory), 0);
    return memory;
}

static void test_parts_lie_apart_in_one_allocation(void **state)
{
    struct kernel_device device;
    struct arena *arena = make(&far_kernel, &device);

    (void)state;
    begin(arena, 1024);
    char *first = take(arena, 1), *second = take(arena, 257), *third = take(arena, 256);
    assert_ptr_equal(second, first + 256);
    assert_ptr_equal(third, second + 512);
    assert_int_equal(device.allocated, 1);
    assert_int_equal(arena_part_bytes(257), 512);
    assert_int_equal(arena_part_bytes(SIZE_MAX - 1), SIZE_MAX);
    arena_free(arena);
    assert_int_equal(device.released, 1);
}

static void test_it_is_kept_and_zeroed(void **state)
{
    struct kernel_device device;
    struct arena *arena = make(&far_kernel, &device);

    (void)state;
    begin(arena, 1024);
    char *part = take(arena, 1000);
    memset(part, 7, 1000);
    arena_end(arena);
    begin(arena, 512); /* a freeze, a smaller generation */
    assert_ptr_equal(take(arena, 512), part);
    for (unsigned i = 0; i < 512; i++)
        assert_int_equal(part[i], 0);
    assert_int_equal(device.allocated, 1);
    assert_int_equal(arena_held_bytes(arena), 1024);
    arena_free(arena);
}

static void test_what_is_too_small_goes_first(void **state)
{
    struct kernel_device device;
    struct arena *arena = make(&far_kernel, &device);
    struct error error = {0};

    (void)state;
    begin(arena, 2048);
    arena_end(arena);
    begin(arena, 4096); /* beside the other one there would be no room */
    assert_int_equal(device.allocated, 2);
    arena_end(arena);
    assert_int_equal(arena_begin(arena, 8192, &error), -ENOMEM);
    assert_int_equal(arena_held_bytes(arena), 0);
    assert_int_equal(device.live_bytes, 0);
    begin(arena, 256);
    arena_drop(arena);
    assert_int_equal(device.live_bytes, 0);
    arena_free(arena);
}

static void test_what_was_not_counted_is_an_allocation_of_its_own(void **state)
{
    struct kernel_device device;
    struct arena *arena = make(&far_kernel, &device);

    (void)state;
    begin(arena, 256);
    take(arena, 256);
    take(arena, 64);
    assert_int_equal(device.allocated, 2);
    arena_end(arena);
    assert_int_equal(device.released, 1);
    arena_free(arena);
    assert_int_equal(device.released, 2);
}

#ifdef __SANITIZE_ADDRESS__
static void test_memory_of_the_host_is_watched_part_by_part(void **state)
{
    struct kernel_device device;
    struct arena *arena = make(&near_kernel, &device);

    (void)state;
    begin(arena, 1024);
    assert_int_equal(device.allocated, 0);
    take(arena, 8);
    assert_int_equal(device.allocated, 1);
    arena_free(arena);
}
#else
static void test_memory_of_the_host_is_held_until_half_would_do(void **state)
{
    const size_t large = (size_t)256 << 20;
    struct kernel_device device;
    struct arena *arena = make(&near_kernel, &device);
    struct error error = {0};

    (void)state;
    device.limit_bytes = large;
    assert_int_equal(arena_reserve(arena, large, &error), 0); /* while it is prepared */
    assert_int_equal(device.allocated, 1);
    begin(arena, large);
    take(arena, large);
    arena_end(arena);
    begin(arena, large / 2);
    arena_end(arena);
    assert_int_equal(device.allocated, 1);
    begin(arena, large / 4);
    arena_end(arena);
    assert_int_equal(device.allocated, 2);
    assert_int_equal(arena_held_bytes(arena), large / 4);
    arena_free(arena);
    assert_int_equal(device.live_bytes, 0);
}
#endif

static void test_the_list_of_parts_apart_grows(void **state)
{
    struct kernel_device device;
    struct arena *arena = make(&far_kernel, &device);
    void *memory;

    (void)state;
    for (unsigned i = 0; i < 65; i++) /* more than the list has room for at first */
        take(arena, 8);
    assert_int_equal(arena_take(arena, 1 << 20, &memory), -ENOMEM);
    arena_end(arena);
    assert_int_equal(device.released, 65);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_lie_apart_in_one_allocation),
        cmocka_unit_test(test_it_is_kept_and_zeroed),
        cmocka_unit_test(test_what_is_too_small_goes_first),
        cmocka_unit_test(test_what_was_not_counted_is_an_allocation_of_its_own),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(test_memory_of_the_host_is_watched_part_by_part),
#else
        cmocka_unit_test(test_memory_of_the_host_is_held_until_half_would_do),
#endif
        cmocka_unit_test(test_the_list_of_parts_apart_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
