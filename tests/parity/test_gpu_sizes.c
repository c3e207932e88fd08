/*
 * Every operation of the GPU's table at the sizes of real models. The emulator checks each launch
 * as a device does and carries out none: the limits of a grid, of shared memory and of a product's
 * operands, room in the workspace, and arithmetic that does not fit 32 bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "emulator/emulator.h"
#include "kernels/cuda/backend.h"

#define MEMORY_BYTES ((size_t)64 << 30) /* of addresses: nothing touches them */
#define ROW_ALIGN    64                 /* of rows of logits (model/net/unit.h) */

struct sizes {
    const char *name;
    size_t batch, context, width, heads, kv_heads, hidden, vocab, parameters;
};

static const struct sizes models[] = {
    {"GPT-2 124M, 64 samples", 64, 1024, 768, 12, 12, 3072, 50257, 124439808},
    {"GPT-2 1.5B", 8, 1024, 1600, 25, 25, 6400, 50257, 1557611200},
    {"heads of 128, long samples", 2, 8192, 4096, 32, 8, 14336, 128256, 8030261248},
    {"very wide", 1, 8192, 8192, 64, 8, 28672, 128256, 20000000000},
    {"odd widths", 3, 1000, 1602, 9, 9, 6407, 50257, 1500000001},
};

static const struct kernel *k;
static struct kernel_device *device;
static void *memory; /* any operand of any operation */

static void linear(size_t rows, size_t in, size_t out, enum kernel_weight layout, size_t stride)
{
    const struct kernel_linear shape = {rows, in, out, layout, stride};

    k->linear_forward(device, memory, memory, memory, memory, shape);
    k->linear_backward(device, memory, memory, memory, memory, memory, memory, shape);
    if (stride != 0)
        return;
    k->linear_gelu_forward(device, memory, memory, memory, memory, memory, shape);
    k->linear_gelu_backward(device, memory, memory, memory, memory, memory, memory, memory, shape);
}

static void products(const struct sizes *s)
{
    size_t rows = s->batch * s->context, depth = s->width / s->heads;
    size_t stride = (s->vocab + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;

    linear(rows, s->width, s->width + 2 * s->kv_heads * depth, KERNEL_WEIGHT_IN_OUT, 0);
    linear(rows, s->width, s->hidden, KERNEL_WEIGHT_IN_OUT, 0);
    linear(rows, s->hidden, s->width, KERNEL_WEIGHT_OUT_IN, 0);
    linear(rows, s->width, s->vocab, KERNEL_WEIGHT_OUT_IN, stride);
    k->cross_entropy_forward(device, memory, memory, memory, rows, s->vocab, stride);
    k->cross_entropy_fused(device, memory, memory, memory, 1.0f, rows, s->vocab, stride);
}

static void attention(const struct sizes *s)
{
    const struct kernel_attention shape = {s->batch, s->context, s->width, s->heads, s->kv_heads};

    k->attention_forward(device, memory, memory, memory, shape);
    k->attention_backward(device, memory, memory, memory, memory, memory, shape);
    k->rotary_forward(device, memory, memory, shape);
    k->rotary_backward(device, memory, memory, shape);
}

static void rows(const struct sizes *s)
{
    size_t rows = s->batch * s->context, width = s->width;

    k->embedding_forward(device, memory, memory, memory, memory, s->batch, s->context, width);
    k->embedding_backward(device, memory, memory, memory, memory, s->batch, s->context, width);
    k->layernorm_forward(device, memory, memory, memory, memory, memory, memory, memory, memory,
                         rows, width);
    k->layernorm_backward(device, memory, memory, memory, memory, memory, memory, memory, memory,
                          rows, width);
    k->rmsnorm_forward(device, memory, memory, memory, memory, memory, memory, 1e-5f, rows, width);
    k->rmsnorm_backward(device, memory, memory, memory, memory, memory, memory, rows, width);
    k->gelu_forward(device, memory, memory, rows * s->hidden);
    k->gelu_backward(device, memory, memory, memory, rows * s->hidden);
    k->swiglu_forward(device, memory, memory, rows, s->hidden);
    k->swiglu_backward(device, memory, memory, memory, rows, s->hidden);
    k->residual(device, memory, memory, memory, rows * width);
    k->values(device, memory, memory, rows * s->vocab);
}

static void parameters(const struct sizes *s)
{
    const struct kernel_adamw options = {.step = 1, .gradient_scale = 1.0f};
    const struct kernel_adamw_tensor tensor = {.parameter = memory,
                                               .first_moment = memory,
                                               .second_moment = memory,
                                               .gradient = memory,
                                               .weight = memory,
                                               .count = s->parameters};
    const struct kernel_flat_tensor flat = {memory, s->parameters};
    uint64_t digest;
    double norm;

    k->adamw(device, &tensor, 1, &options);
    k->norms_squared(device, &flat, 1, &norm);
    k->digests(device, &flat, 1, &digest);
    k->tree_add(device, memory, memory, memory, s->parameters);
    k->weights(device, memory, memory, s->parameters);
    k->zero(device, memory, s->parameters * sizeof(float));
}

static void take_sizes(const struct kernel *kernel)
{
    k = kernel;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct error error = {0};

        assert_int_equal(k->open(&(struct kernel_options){.index = 0}, &device, &error), 0);
        emulator_carries_out(false);
        assert_int_equal(k->allocate(device, MEMORY_BYTES, &memory), 0);
        products(&models[i]);
        attention(&models[i]);
        rows(&models[i]);
        parameters(&models[i]);
        int status = k->synchronize(device, &error);
        k->release(device, memory);
        emulator_carries_out(true);
        if (status < 0)
            fail_msg("%s: %s", models[i].name, error.text);
        k->close(device);
    }
}

static void test_sizes_in_bf16(void **state)
{
    (void)state;
    take_sizes(firn_cuda_backend()->bf16);
}

static void test_sizes_in_f32(void **state)
{
    (void)state;
    take_sizes(firn_cuda_backend()->f32);
}

/* Sizes without a known product of cuBLASLt are computed by our kernel, whose grid has other
 * limits. */
static void test_sizes_of_plain_products(void **state)
{
    (void)state;
    emulator_knows_products(false);
    take_sizes(firn_cuda_backend()->bf16);
    emulator_knows_products(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_in_bf16),
        cmocka_unit_test(test_sizes_in_f32),
        cmocka_unit_test(test_sizes_of_plain_products),
    };

    if (EMULATOR_JUMPS_ARE_SLOW) /* device memory is of the host's heap there, and has not so much
                                  */
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
