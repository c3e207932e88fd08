#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/cpu/blas.h"
#include "kernels/kernel.h"

#define THREADS 3
#define SIZE    300 /* large enough for OpenBLAS to want threads of its own */

static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* A linear layer and attention, on a thread and a team that OpenBLAS has not seen before. */
static void *compute(void *argument)
{
    struct kernel_options options = {.thread_count = THREADS};
    struct kernel_linear linear = {SIZE, SIZE, SIZE, KERNEL_WEIGHT_IN_OUT, 0};
    const struct kernel *k = kernel_cpu();
    struct kernel_device *device;
    void *a, *b, *c, *log_sum;
    int before = count_threads(), *extra_threads = argument;

    assert_int_equal(k->open(&options, &device, NULL), 0);
    assert_int_equal(k->allocate(device, SIZE * SIZE * sizeof(float), &a), 0);
    assert_int_equal(k->allocate(device, SIZE * SIZE * sizeof(float), &b), 0);
    assert_int_equal(k->allocate(device, SIZE * SIZE * sizeof(float), &c), 0);
    assert_int_equal(k->allocate(device, SIZE * sizeof(float), &log_sum), 0);
    k->linear_forward(device, a, b, c, NULL, linear);
    k->linear_backward(device, a, b, NULL, c, c, b, linear);
    k->attention_forward(device, a, log_sum, b, (struct kernel_attention){1, SIZE, SIZE / 3, 1, 1});
    *extra_threads = count_threads() - before - (THREADS - 1);
    k->release(device, a);
    k->release(device, b);
    k->release(device, c);
    k->release(device, log_sum);
    k->close(device);
    return NULL;
}

static void test_the_team_is_all_that_computes(void **state)
{
    (void)state;
    pthread_t thread;
    int extra_threads = -1;
    assert_int_equal(pthread_create(&thread, NULL, compute, &extra_threads), 0);
    pthread_join(thread, NULL);
    assert_int_equal(extra_threads, 0);
}

static void test_strides_and_transposes(void **state)
{
    (void)state;
    const float left[] = {1, 2, 0, 3, 4, 0};  /* (2,2), rows 3 apart */
    const float right[] = {5, 7, 9, 6, 8, 9}; /* (2,2) transposed, rows 3 apart */
    float result[] = {NAN, NAN, -1, NAN, NAN, -1};
    struct blas_product product = {.m = 2,
                                   .n = 2,
                                   .k = 2,
                                   .left = left,
                                   .right = right,
                                   .left_stride = 3,
                                   .right_stride = 3,
                                   .result_stride = 3,
                                   .right_transposed = true,
                                   .alpha = 2,
                                   .result = result};
    const float stored[] = {38, 44, -1, 86, 100, -1};
    const float added[] = {32, 37, -1, 62, 72, -1}; /* half of that, half of the new */

    blas_multiply(&product);
    assert_memory_equal(result, stored, sizeof(stored));
    product.left_transposed = true;
    product.alpha = 0.5f;
    product.beta = 0.5f;
    blas_multiply(&product);
    assert_memory_equal(result, added, sizeof(added));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_team_is_all_that_computes),
        cmocka_unit_test(test_strides_and_transposes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
