/*
 * Tests of the peak memory that a worker reports for its generation, of the memory that plans
 * count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include "worker/state/footprint.h"

#define MIB ((uint64_t)1 << 20)

static void test_numbers_are_found_by_their_key(void **state)
{
    (void)state;
    static const char text[] =
        "Name:\tfirn-worker\nVmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nRssFile: 3 kB\n";
    assert_int_equal(footprint_parse(text, "VmHWM:"), 2 * MIB);
    assert_int_equal(footprint_parse(text, "RssFile:"), 3 << 10);
    assert_int_equal(footprint_parse(text, "Name"), 0);
    assert_int_equal(footprint_parse(text, "HWM:"), 0);
    assert_int_equal(footprint_parse("", "VmHWM:"), 0);
}

static void *touch(size_t size_bytes)
{
    void *memory =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(memory, 1, size_bytes);
    return memory;
}

static void test_a_peak_is_begun_anew(void **state)
{
    (void)state;
    struct footprint footprint = {0};
    assert_int_equal(footprint_peak_bytes(&footprint, NULL), 0);
    footprint_open(&footprint, kernel_cpu(), NULL);
    uint64_t before = footprint_peak_bytes(&footprint, NULL);
    assert_true(before > 0);
    munmap(touch(64 * MIB), 64 * MIB);
    uint64_t risen = footprint_peak_bytes(&footprint, NULL);
    assert_true(risen >= before + 48 * MIB);
    if (access("/proc/self/clear_refs", W_OK))
        skip();
    footprint_restart(&footprint);
    assert_true(footprint_peak_bytes(&footprint, NULL) <= risen - 48 * MIB);
}

/* A device with its own memory, which other programs use, too. */
static size_t device_free;

static void device_tells(struct kernel_device *device, size_t *ret_free, size_t *ret_total)
{
    (void)device;
    *ret_free = device_free;
    *ret_total = 100 * MIB;
}

static void test_a_device_counts_from_where_it_was_opened(void **state)
{
    (void)state;
    struct kernel kernel = *kernel_cpu();
    struct footprint footprint;
    kernel.host_memory = false;
    kernel.memory = device_tells;
    device_free = 90 * MIB;
    footprint_open(&footprint, &kernel, NULL);
    assert_int_equal(footprint_peak_bytes(&footprint, NULL), 0);
    device_free = 60 * MIB;
    assert_int_equal(footprint_peak_bytes(&footprint, NULL), 30 * MIB);
    device_free = 80 * MIB;
    assert_int_equal(footprint_peak_bytes(&footprint, NULL), 30 * MIB);
    footprint_restart(&footprint);
    assert_int_equal(footprint_peak_bytes(&footprint, NULL), 10 * MIB);
    device_free = 95 * MIB; /* another program has exited */
    footprint_restart(&footprint);
    assert_int_equal(footprint_peak_bytes(&footprint, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_found_by_their_key),
        cmocka_unit_test(test_a_peak_is_begun_anew),
        cmocka_unit_test(test_a_device_counts_from_where_it_was_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
