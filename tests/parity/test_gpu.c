/* Features of the GPU's backend alone: rounded weights, a fallback for products, failures that
 * stick, and a machine without a GPU. All of it in the emulator. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "emulator/emulator.h"
#include "kernels/cuda/backend.h"
#include "parity/oracle/adapter.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

#define COUNT 5003

static struct kernel_device *opened(const struct kernel *kernel)
{
    struct kernel_device *device = NULL;
    struct error error = {0};
    if (kernel->open(&(struct kernel_options){.index = 0}, &device, &error) < 0)
        fail_msg("%s", error.text);
    return device;
}

/* Run a step that makes weights and leaves the parameters [first, first + count) as they are. */
static void make_weights(const struct kernel *kernel, struct kernel_device *device, float *weights,
                         float *parameters, bool stochastic, uint64_t seed)
{
    static float first[COUNT], second[COUNT], gradient[COUNT];
    const struct kernel_adamw options = {.epsilon = 1e-8f,
                                         .gradient_scale = 1,
                                         .step = 3,
                                         .stochastic_rounding = stochastic,
                                         .rounding_seed = seed};
    const struct kernel_adamw_tensor tensor = {.parameter = parameters,
                                               .first_moment = first,
                                               .second_moment = second,
                                               .gradient = gradient,
                                               .weight = weights,
                                               .count = COUNT,
                                               .stream = 9};
    adapter_around(kernel, device)->adamw(device, &tensor, 1, &options);
}

/* bf16 as its upper half, without rounding. */
static float cut_off(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    bits &= 0xffff0000;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static void test_weights_are_rounded(void **state)
{
    (void)state;
    static float parameters[COUNT], nearest[COUNT], drawn[COUNT], again[COUNT], other[COUNT];
    const struct kernel *kernel = firn_cuda_backend()->bf16;
    struct kernel_device *device = opened(kernel);
    double error = 0;

    philox_fill_normal(philox_key_make(1, 2), 0, 0.0f, 1.0f, parameters, COUNT);
    make_weights(kernel, device, nearest, parameters, false, 0);
    make_weights(kernel, device, drawn, parameters, true, 7);
    make_weights(kernel, device, again, parameters, true, 7);
    make_weights(kernel, device, other, parameters, true, 8);
    for (size_t i = 0; i < COUNT; i++) {
        float low = cut_off(parameters[i]);
        float high = low + copysignf(ldexpf(1.0f, ilogbf(parameters[i]) - 7), low);
        assert_true(fabsf(nearest[i] - parameters[i]) <= ldexpf(1.0f, ilogbf(parameters[i]) - 8));
        assert_true(drawn[i] == low || drawn[i] == high);
        error += (double)(drawn[i] - parameters[i]);
    }
    /* Without bias: the mean error of one weight is below 2^-8 / 2, the mean of all weights far
     * below. */
    assert_true(fabs(error / COUNT) < 2e-4);
    assert_memory_equal(drawn, again, sizeof(drawn));
    assert_memory_not_equal(drawn, other, sizeof(drawn));
    kernel->close(device);
}

/* The draw of element i is word i % 4 of Philox's block i / 4, under the step and the stream. */
static void test_rounding_is_philox(void **state)
{
    (void)state;
    static float parameters[COUNT], drawn[COUNT];
    const struct kernel *kernel = firn_cuda_backend()->bf16;
    struct kernel_device *device = opened(kernel);
    const struct philox_key key = {{5, 0}};

    philox_fill_normal(philox_key_make(1, 2), 0, 0.0f, 1.0f, parameters, COUNT);
    make_weights(kernel, device, drawn, parameters, true, 5);
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t words[4], bits;
        float want = parameters[i];
        philox_block(key, i / 4, (uint64_t)3 << 20 | 9, words);
        memcpy(&bits, &want, sizeof(bits));
        bits = (bits + (words[i % 4] & 0xffff)) & 0xffff0000;
        memcpy(&want, &bits, sizeof(bits));
        assert_true(drawn[i] == want);
    }
    kernel->close(device);
}

/* A queue that waits for another worker must not hold up other queues. */
static void test_each_queue_has_a_connection_of_its_own(void **state)
{
    (void)state;
    struct kernel_device *device = opened(firn_cuda_backend()->bf16);

    assert_true(strtoul(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), NULL, 10) >= 2 * KERNEL_QUEUES);
    firn_cuda_backend()->bf16->close(device);
}

/* Kernels between GPUs do not queue behind all blocks of a product. */
static void test_what_goes_between_gpus_comes_first(void **state)
{
    (void)state;
    const struct kernel *kernel = firn_cuda_backend()->bf16;
    struct kernel_device *device = opened(kernel);
    int compute = emulator_stream_priority(kernel->stream(device, KERNEL_QUEUE_COMPUTE));

    for (int i = KERNEL_QUEUE_COMMUNICATION; i < KERNEL_QUEUES; i++) {
        int priority = emulator_stream_priority(kernel->stream(device, (enum kernel_queue)i));
        assert_true(i < KERNEL_QUEUE_ROUTES ? priority == compute : priority < compute);
    }
    kernel->close(device);
}

static void test_products_that_no_library_knows(void **state)
{
    (void)state;
    const struct kernel_linear shape = {9, 12, 16, KERNEL_WEIGHT_OUT_IN, 0};
    const struct kernel *kernel = firn_cuda_backend()->tf32, *table;
    struct kernel_device *device = opened(kernel);
    struct tensor input = tensor_random(9 * 12, 1, 1), weight = tensor_random(12 * 16, 2, 1);
    struct tensor bias = tensor_random(16, 3, 1), output = tensor_poison(9 * 16);
    struct tensor before = tensor_poison(9 * 16);
    char text[512];

    table = adapter_around(kernel, device);
    emulator_knows_products(false);
    table->linear_gelu_forward(device, output.f32, before.f32, input.f32, weight.f32, bias.f32,
                               shape);
    emulator_knows_products(true);
    oracle_linear(before.f64, input.f64, weight.f64, bias.f64, shape);
    oracle_gelu(output.f64, before.f64, output.count);
    assert_tensor(&before, 1e-5);
    assert_tensor(&output, 1e-5);
    kernel->describe(device, text, sizeof(text));
    assert_non_null(strstr(text, "16x9x12 flags 41: plain"));
    tensor_free(&input);
    tensor_free(&weight);
    tensor_free(&bias);
    tensor_free(&output);
    tensor_free(&before);
    kernel->close(device);
}

/* A heuristic that fails on this machine has not said that there is no algorithm. */
static void test_a_heuristic_that_fails(void **state)
{
    (void)state;
    const struct kernel_linear shape = {.rows = 9, .in = 12, .out = 16};
    const struct kernel *kernel = firn_cuda_backend()->f32;
    struct kernel_device *device = opened(kernel);
    struct error error = {0};
    void *memory;

    assert_int_equal(kernel->allocate(device, 16 * 16 * sizeof(float), &memory), 0);
    emulator_heuristic_fails(true);
    kernel->linear_forward(device, memory, memory, memory, NULL, shape);
    emulator_heuristic_fails(false);
    assert_int_equal(kernel->synchronize(device, &error), -EIO);
    assert_non_null(strstr(error.text, "choosing an algorithm of cuBLASLt"));
    kernel->release(device, memory);
    kernel->close(device);
}

/* Our kernel computes GELU even if cuBLASLt has it: cuBLASLt guarantees no accuracy for it. */
static void test_gelu_of_f32_is_ours(void **state)
{
    (void)state;
    const struct kernel_linear shape = {9, 16, 16, KERNEL_WEIGHT_OUT_IN, 0};
    const struct kernel *tables[] = {firn_cuda_backend()->f32, firn_cuda_backend()->bf16};

    for (unsigned in_bf16 = 0; in_bf16 < 2; in_bf16++) {
        struct kernel_device *device = opened(tables[in_bf16]);
        const struct kernel *table = adapter_around(tables[in_bf16], device);
        float values[16 * 16] = {0}, sums[16 * 16] = {0};
        char text[512];

        table->linear_gelu_forward(device, values, sums, values, values, values, shape);
        table->linear_gelu_backward(device, sums, sums, sums, values, values, values, values,
                                    shape);
        tables[in_bf16]->describe(device, text, sizeof(text));
        assert_int_equal(strstr(text, "flags 4d") != NULL, in_bf16); /* bias and GELU */
        assert_int_equal(strstr(text, "flags 6c") != NULL, in_bf16); /* its derivative */
        assert_int_equal(strstr(text, "flags 21") != NULL, !in_bf16);
        tables[in_bf16]->close(device);
    }
}

static void test_a_failure_sticks(void **state)
{
    (void)state;
    const struct kernel *kernel = firn_cuda_backend()->f32;
    struct kernel_device *device = opened(kernel);
    struct error error = {0};
    double sum = 0;
    void *memory;

    assert_int_equal(kernel->allocate(device, 64, &memory), 0);
    emulator_fail(true);
    kernel->gelu_forward(device, memory, memory, 16);
    emulator_fail(false);
    kernel->residual(device, memory, memory, memory, 16);
    assert_int_equal(kernel->synchronize(device, &error), -EIO);
    assert_non_null(strstr(error.text, "gelu_forward"));
    kernel->norms_squared(device, &(struct kernel_flat_tensor){memory, 16}, 1, &sum);
    assert_true(isnan(sum));
    kernel->release(device, memory);
    kernel->close(device);
}

static void test_shapes_that_are_refused(void **state)
{
    (void)state;
    const struct kernel *kernel = firn_cuda_backend()->bf16;
    struct kernel_device *device = opened(kernel);
    struct error error = {0};

    kernel->attention_forward(device, NULL, NULL, NULL, (struct kernel_attention){1, 8, 512, 1, 1});
    assert_int_equal(kernel->synchronize(device, &error), -EIO);
    assert_non_null(strstr(error.text, "256 columns"));
    kernel->close(device);
}

/* A part of a GPU and other kernels, a driver or libraries have another identity. */
static void test_the_identity_has_everything_that_decides_about_bits(void **state)
{
    struct error error = {0};
    char text[128];

    (void)state;
    setenv("FIRN_CUDNN_LIBRARY", "", 1);
    assert_int_equal(firn_cuda_backend()->identity(text, sizeof(text), &error), 0);
    assert_non_null(strstr(text, "emulator 0, 132 SMs, cuBLASLt 0, kernels 5-"));
    assert_int_equal(strspn(strstr(text, "kernels 5-") + 10, "0123456789abcdef"), 8);
    assert_non_null(strstr(text, ", driver "));
    unsetenv("FIRN_CUDNN_LIBRARY");
}

static void test_no_gpu(void **state)
{
    (void)state;
    struct kernel_device *device = NULL;
    struct error error = {0};

    emulator_devices(0);
    assert_int_equal(
        firn_cuda_backend()->bf16->open(&(struct kernel_options){.index = 0}, &device, &error),
        -ENODEV);
    emulator_devices(1);
    assert_non_null(strstr(error.text, "CPU slots only"));
    assert_int_equal(
        firn_cuda_backend()->bf16->open(&(struct kernel_options){.index = 1}, &device, &error),
        -ENODEV);
    assert_null(device);
}

static void test_too_much_memory(void **state)
{
    (void)state;
    const struct kernel *kernel = firn_cuda_backend()->f32;
    struct kernel_device *device = opened(kernel);
    struct error error = {0};
    void *memory = NULL;

    assert_int_equal(kernel->allocate(device, (size_t)1 << 50, &memory), -ENOMEM);
    assert_int_equal(kernel->synchronize(device, &error), 0); /* asking is no failure */
    kernel->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_are_rounded),
        cmocka_unit_test(test_rounding_is_philox),
        cmocka_unit_test(test_each_queue_has_a_connection_of_its_own),
        cmocka_unit_test(test_what_goes_between_gpus_comes_first),
        cmocka_unit_test(test_products_that_no_library_knows),
        cmocka_unit_test(test_a_heuristic_that_fails),
        cmocka_unit_test(test_gelu_of_f32_is_ours),
        cmocka_unit_test(test_a_failure_sticks),
        cmocka_unit_test(test_shapes_that_are_refused),
        cmocka_unit_test(test_the_identity_has_everything_that_decides_about_bits),
        cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_too_much_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
