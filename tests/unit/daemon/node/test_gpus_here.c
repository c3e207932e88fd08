/*
 * Tests of this machine's GPUs by its own NVML, which exists only on machines with GPUs: make
 * gpu-check runs the tests there, and then a missing GPU is a failure.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/node/nvml.h"

#define MEMORY_BYTES_MIN ((uint64_t)1 << 30)

static void expect_gpu(const struct gpu *gpu)
{
    char fault[256];

    print_message("GPU %u: %s, %s at %s, %llu MiB, %u.%u, %llu errors of memory, Xid %u\n",
                  gpu->index, gpu->name, gpu->uuid, gpu->bus_id,
                  (unsigned long long)(gpu->memory_bytes >> 20), gpu->compute_major,
                  gpu->compute_minor, (unsigned long long)gpu->uncorrected_errors, gpu->xid);
    assert_int_equal(strncmp(gpu->uuid, "GPU-", 4), 0);
    assert_true(gpu->name[0] != '\0');
    assert_true(gpu->memory_bytes >= MEMORY_BYTES_MIN);
    assert_in_range(gpu->compute_major, 1, 99);
    if (gpu_fault(gpu, fault, sizeof(fault)))
        fail_msg("GPU %u must not be used: %s", gpu->index, fault);
}

static void test_gpus_of_this_machine(void **state)
{
    static struct gpu_list list;
    const char *device = getenv("PARITY_DEVICE");
    struct nvml *nvml = NULL;
    struct error error = {0};
    int status = nvml_open(NVML_LIBRARY, &nvml, &list, &error);

    (void)state;
    if (!device && (status == -ENOENT || (status == 0 && list.count == 0))) {
        print_message("skipped: no GPU here (%s)\n", error.text);
        nvml_close(nvml);
        skip();
    }
    if (status < 0)
        fail_msg("%s", error.text);
    assert_true(list.count > 0);
    for (unsigned look = 0; look < 2; look++) {
        for (unsigned i = 0; i < list.count; i++)
            expect_gpu(&list.gpus[i]);
        nvml_look(nvml, &list);
    }
    nvml_close(nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpus_of_this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
