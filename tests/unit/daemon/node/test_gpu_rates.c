/*
 * Tests of a node's measured speed of GPUs: a worker measures them once, the result is kept, and
 * other GPUs are measured anew.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/node/gpu_rates.h"

#define LINE "bf16 6.9e+14 tf32 4.1e+14 f32 5.0e+13 memory 2.6e+12 host 5.3e+10 nccl "

static char folder[] = "/tmp/firn-test-rates-XXXXXX";
static struct config config;
static struct gpu_list list;
static struct node_record self;

/* Make a program in place of firn-worker. */
static void make_worker(const char *line)
{
    snprintf(config.worker, sizeof(config.worker), "%s/worker", folder);
    FILE *file = fopen(config.worker, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\ntest \"$1 $2\" = 'rates cuda' && echo '%s'\n", line);
    fclose(file);
    assert_int_equal(chmod(config.worker, 0700), 0);
}

static int setup(void **state)
{
    char path[sizeof(config.data_dir) + 16];
    (void)state;
    memset(&self, 0, sizeof(self));
    memset(&list, 0, sizeof(list));
    snprintf(config.data_dir, sizeof(config.data_dir), "%s", folder);
    snprintf(path, sizeof(path), "%s/gpu-rates", folder);
    unlink(path);
    snprintf(self.numerics_identity, sizeof(self.numerics_identity), "NVIDIA H200, kernels 2");
    self.slot_count = 2;
    list.count = 2;
    return 0;
}

static void test_a_line(void **state)
{
    static const char *const wrong[] = {"", "bf16 1 tf32 1 f32 1 memory 1 host 1", LINE "1 x",
                                        "bf16 0 tf32 1 f32 1 memory 1 host 1 nccl 1",
                                        "bf16 nan tf32 1 f32 1 memory 1 host 1 nccl 1"};
    struct record_rates rates = {.link_bytes = 7};
    bool nccl = false;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_int_equal(gpu_rates_parse(wrong[i], &rates, &nccl), -EINVAL);
    assert_true(rates.link_bytes == 7.0);
    assert_int_equal(gpu_rates_parse(LINE "1", &rates, &nccl), 0);
    assert_true(rates.bf16_flops == 6.9e14 && rates.tf32_flops == 4.1e14);
    assert_true(rates.f32_flops == 5e13 && rates.memory_bytes == 2.6e12);
    assert_true(rates.link_bytes == 5.3e10 && nccl);
}

static void test_what_was_measured_is_kept(void **state)
{
    (void)state;
    make_worker(LINE "0");
    gpu_rates_describe(&config, &list, &self);
    assert_true(self.rates.bf16_flops == 6.9e14);
    make_worker("");
    gpu_rates_describe(&config, &list, &self);
    assert_true(self.rates.bf16_flops == 6.9e14); /* without a new measurement */
    snprintf(self.numerics_identity, sizeof(self.numerics_identity), "NVIDIA H200, kernels 21");
    gpu_rates_describe(&config, &list, &self); /* other devices: not measured yet */
    assert_true(self.rates.bf16_flops == 0.0 && self.rates.link_bytes == 0.0);
    make_worker("bf16 7e14 tf32 4e14 f32 5e13 memory 2e12 host 5e10 nccl 0");
    gpu_rates_describe(&config, &list, &self);
    assert_true(self.rates.bf16_flops == 7e14);
}

static void test_nvlink_counts_where_it_is_used(void **state)
{
    (void)state;
    make_worker(LINE "1");
    gpu_rates_describe(&config, &list, &self);
    assert_true(self.rates.link_bytes == 5.3e10); /* no NVLink */
    list.gpus[0].paths[1] = GPU_PATH_NVLINK;
    assert_false(gpu_rates_linked(&list));
    list.gpus[1].paths[0] = GPU_PATH_NVLINK;
    assert_true(gpu_rates_linked(&list));
    gpu_rates_describe(&config, &list, &self);
    assert_true(self.rates.link_bytes > 1e11);
    list.count = 1;
    assert_false(gpu_rates_linked(&list));
    setup(NULL);
    list.gpus[0].paths[1] = list.gpus[1].paths[0] = GPU_PATH_NVLINK;
    make_worker(LINE "0"); /* no traffic would use it */
    gpu_rates_describe(&config, &list, &self);
    assert_true(self.rates.link_bytes == 5.3e10);
}

static int end(void **state)
{
    char path[sizeof(config.data_dir) + 16];
    setup(state);
    snprintf(path, sizeof(path), "%s/worker", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_line, setup),
        cmocka_unit_test_setup(test_what_was_measured_is_kept, setup),
        cmocka_unit_test_setup(test_nvlink_counts_where_it_is_used, setup),
    };
    log_set_level(LOG_LEVEL_ERROR);
    return mkdtemp(folder) ? cmocka_run_group_tests(tests, NULL, end) : 1;
}
