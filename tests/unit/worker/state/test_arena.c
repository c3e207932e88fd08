/*
 * Tests of the arena: one allocation for all parts of a generation, kept while it is large enough.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "worker/state/arena.h"

struct kernel_device {
    unsigned allocated, released, zeroed;
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
    device->live_bytes -= device->last_bytes; /* tests release only the last allocation */
}

static void zero(struct kernel_device *device, void *memory, size_t size_bytes)
{
    device->zeroed++;
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

static void test_host_memory_is_kept_as_it_is(void **state)
{
    struct kernel_device device;
    struct arena *arena = make(&near_kernel, &device);

    (void)state;
    begin(arena, 1024);
    memset(take(arena, 1000), 7, 1000);
    arena_end(arena);
    device.zeroed = 0;
    begin(arena, 512);
    assert_int_equal(device.zeroed, 0);
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
    begin(arena, 4096); /* there is no room for a second arena */
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
/* Return how many bytes of @memory's pages are resident. */
static size_t resident_bytes(char *memory, size_t size_bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), count = 0;
    uintptr_t first = ((uintptr_t)memory + page_bytes - 1) / page_bytes * page_bytes;
    size_t pages = ((uintptr_t)memory + size_bytes - first) / page_bytes;
    unsigned char *there = malloc(pages);

    assert_non_null(there);
    assert_int_equal(mincore((void *)first, pages * page_bytes, there), 0);
    for (size_t i = 0; i < pages; i++)
        count += there[i] & 1;
    free(there);
    return count * page_bytes;
}

static void test_pages_of_the_host_that_are_not_needed_go_back(void **state)
{
    const size_t large = (size_t)64 << 20, spare = (size_t)10 << 20;
    struct kernel_device device;
    struct arena *arena = make(&near_kernel, &device);
    struct error error = {0};

    (void)state;
    device.limit_bytes = large;
    assert_int_equal(arena_reserve(arena, large, &error), 0); /* while the generation is prepared */
    begin(arena, large);
    char *memory = take(arena, large);
    memset(memory, 7, large);
    arena_end(arena);
    begin(arena, large - 1); /* slightly less */
    arena_end(arena);
    assert_int_equal(arena_held_bytes(arena), large);
    begin(arena, large / 2);
    assert_int_equal(arena_held_bytes(arena), large / 2);
    assert_true(resident_bytes(memory, large) <= large / 2 + spare);
    memset(take(arena, large / 2), 8, large / 2);
    arena_end(arena);
    begin(arena, large); /* in the same place, and all pages are resident before a part is taken */
    assert_int_equal(device.allocated, 0);
    assert_true(resident_bytes(memory, large) > large - spare);
    assert_ptr_equal(take(arena, large), memory);
    arena_free(arena);
}

static void test_grows_for_the_next_generation_while_parts_are_in_use(void **state)
{
    const size_t small = (size_t)4 << 20, large = (size_t)64 << 20;
    struct kernel_device device, other = {0};
    struct arena *arena = make(&near_kernel, &device);
    struct error error = {0};

    (void)state;
    device.limit_bytes = large;
    begin(arena, small);
    char *memory = take(arena, small);
    memset(memory, 7, small);
    assert_int_equal(arena_extend(arena, &other, large, &error), 0);
    assert_int_equal(arena_held_bytes(arena), large);
    assert_int_equal(arena_extend(arena, &other, small, &error), 0); /* never less */
    assert_int_equal(arena_held_bytes(arena), large);
    assert_true(resident_bytes(memory, large) == large);
    for (size_t i = 0; i < small; i++)
        assert_int_equal(memory[i], 7);
    arena_end(arena);
    begin(arena, large);
    assert_ptr_equal(take(arena, large), memory);
    arena_free(arena);
    arena = make(&far_kernel, &device); /* device memory is not taken before the switch */
    device.limit_bytes = large;
    begin(arena, small);
    assert_int_equal(arena_extend(arena, &other, large, &error), 0);
    assert_int_equal(arena_held_bytes(arena), small);
    arena_free(arena);
}

static long pages_touched(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* A survivor takes over more units: only the added memory costs fresh pages. */
static void test_memory_of_the_host_grows_in_place(void **state)
{
    const size_t small = (size_t)64 << 20, large = small + ((size_t)4 << 20);
    struct kernel_device device;
    struct arena *arena = make(&near_kernel, &device);

    (void)state;
    long before_small = pages_touched();
    begin(arena, small);
    long cost_small = pages_touched() - before_small;
    char *memory = take(arena, small);
    memset(memory, 7, small);
    arena_end(arena);
    long before_large = pages_touched();
    begin(arena, large);
    assert_true(pages_touched() - before_large < cost_small / 2);
    assert_ptr_equal(take(arena, large), memory);
    assert_true(resident_bytes(memory, large) > large - ((size_t)2 << 20));
    assert_int_equal(device.allocated, 0);
    arena_free(arena);
}

/* Without address space for the reservation the arena is a plain allocation. */
static void test_without_addresses_it_is_an_allocation(void **state)
{
    const size_t small = (size_t)1 << 20;
    struct kernel_device device;
    struct arena *arena = make(&near_kernel, &device);
    struct rlimit limit, none;

    (void)state;
    device.limit_bytes = 4 * small;
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)1 << 30, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    begin(arena, small);
    assert_int_equal(device.allocated, 1);
    arena_end(arena);
    begin(arena, 2 * small);
    assert_int_equal(device.allocated, 2);
    memset(take(arena, small), 7, small);
    arena_free(arena);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(device.live_bytes, 0);
}
#endif

/* Sums of a step in progress stay while everything around them is made again. */
static void test_the_first_parts_stay_as_they_are(void **state)
{
    const size_t small = (size_t)1 << 20;
    struct kernel_device device;
    struct arena *arena = make(&near_kernel, &device);

    (void)state;
    device.limit_bytes = 8 * small; /* where each part is an allocation */
    begin(arena, 4 * small);
    char *kept = take(arena, small);
    struct arena_mark mark = arena_mark(arena);
    char *behind = take(arena, small);
    memset(kept, 7, small);
    memset(behind, 8, small);
    arena_end_at(arena, mark);
    assert_true(arena_fits(arena, 4 * small));
    begin(arena, 4 * small);
    for (size_t i = 0; i < small; i++)
        assert_int_equal(kept[i], 7);
    memset(take(arena, small), 9, small);
    assert_int_equal(kept[small - 1], 7);
    arena_free(arena);
}

static void test_the_list_of_parts_apart_grows(void **state)
{
    struct kernel_device device;
    struct arena *arena = make(&far_kernel, &device);
    void *memory;

    (void)state;
    for (unsigned i = 0; i < 65; i++) /* more than the initial size of the list */
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
        cmocka_unit_test(test_host_memory_is_kept_as_it_is),
        cmocka_unit_test(test_what_is_too_small_goes_first),
        cmocka_unit_test(test_what_was_not_counted_is_an_allocation_of_its_own),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(test_memory_of_the_host_is_watched_part_by_part),
#else
        cmocka_unit_test(test_grows_for_the_next_generation_while_parts_are_in_use),
        cmocka_unit_test(test_pages_of_the_host_that_are_not_needed_go_back),
        cmocka_unit_test(test_memory_of_the_host_grows_in_place),
        cmocka_unit_test(test_without_addresses_it_is_an_allocation),
#endif
        cmocka_unit_test(test_the_list_of_parts_apart_grows),
        cmocka_unit_test(test_the_first_parts_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
