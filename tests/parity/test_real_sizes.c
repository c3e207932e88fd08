/*
 * Operations at the sizes of GPT-2 1.5B and of Llama's heads, against the CPU's, which the other
 * tests here compare with the oracle. Training on a GPU takes these paths: other algorithms of a
 * library than for small shapes, and grids that fill the device many times over. The emulator
 * computes the same at small sizes, so that the test itself is tested.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/tensor.h"

#define TOLERANCE 1e-5

struct sizes {
    size_t batch, context, width, heads, hidden, vocab, stride;
};

static const struct sizes real = {8, 1024, 1600, 25, 6400, 50257, 50304};
static const struct sizes small = {2, 20, 128, 2, 192, 101, 128};

/* The CPU beside the backend of a check. */
struct pair {
    const struct backend *backend;
    const struct kernel *cpu;
    struct kernel_device *cpu_device;
    struct sizes size;
};

static bool pair_open(struct pair *p, const struct backend *backend)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const struct kernel_options options = {.thread_count =
                                               processors > 1 ? (unsigned)processors : 1};

    if (backend->kernel->host_memory)
        return false;
    *p = (struct pair){
        .backend = backend, .cpu = kernel_cpu(), .size = backend_emulated() ? small : real};
    assert_int_equal(p->cpu->open(&options, &p->cpu_device, NULL), 0);
    return true;
}

static void pair_close(struct pair *p)
{
    p->cpu->close(p->cpu_device);
}

/* A result of each: [0] the backend's, [1] the CPU's. */
struct results {
    const char *name;
    struct tensor both[2];
};

static struct results overwritten(const char *name, size_t count)
{
    return (struct results){name, {tensor_poison(count), tensor_poison(count)}};
}

static struct results added_to(const char *name, size_t count)
{
    struct results r = {name, {tensor_random(count, 77, 1), tensor_poison(count)}};
    memcpy(r.both[1].f32, r.both[0].f32, count * sizeof(float));
    return r;
}

/* Both are freed. */
static void compare(struct results *r)
{
    tensor_expect(&r->both[0], &r->both[1]);
    assert_tensor_as(r->name, &r->both[0], TOLERANCE);
    tensor_free(&r->both[0]);
    tensor_free(&r->both[1]);
}

static const struct kernel *kernel_of(const struct pair *p, unsigned side)
{
    return side == 0 ? p->backend->kernel : p->cpu;
}

static struct kernel_device *device_of(const struct pair *p, unsigned side)
{
    return side == 0 ? p->backend->device : p->cpu_device;
}

/* ---- products ---- */

static void check_linear(const struct pair *p, struct kernel_linear shape)
{
    size_t in = shape.rows * shape.in, out = shape.rows * kernel_linear_stride(&shape);
    size_t weights = shape.in * shape.out;
    struct tensor input = tensor_random(in, 1, 1), weight = tensor_random(weights, 2, 0.02f);
    struct tensor bias = tensor_random(shape.out, 3, 1), d_output = tensor_random(out, 4, 0.05f);
    struct results output = overwritten("output", out), d_input = overwritten("d_input", in);
    struct results d_weight = added_to("d_weight", weights);
    struct results d_bias = added_to("d_bias", shape.out);

    backend_case("linear, %zu rows of %zu -> %zu", shape.rows, shape.in, shape.out);
    for (unsigned side = 0; side < 2; side++) {
        const struct kernel *k = kernel_of(p, side);
        memset(output.both[side].f32, 0, out * sizeof(float)); /* between rows, too */
        k->linear_forward(device_of(p, side), output.both[side].f32, input.f32, weight.f32,
                          bias.f32, shape);
        k->linear_backward(device_of(p, side), d_input.both[side].f32, d_weight.both[side].f32,
                           d_bias.both[side].f32, d_output.f32, input.f32, weight.f32, shape);
    }
    compare(&output);
    compare(&d_input);
    compare(&d_weight);
    compare(&d_bias);
    tensor_free(&input);
    tensor_free(&weight);
    tensor_free(&bias);
    tensor_free(&d_output);
}

/* An MLP: GELU after its first product, GELU's derivative after backward of its second. */
static void check_mlp(const struct pair *p, size_t rows)
{
    const struct kernel_linear up = {rows, p->size.width, p->size.hidden, KERNEL_WEIGHT_IN_OUT, 0};
    const struct kernel_linear down = {rows, p->size.hidden, p->size.width, KERNEL_WEIGHT_IN_OUT,
                                       0};
    size_t narrow = rows * p->size.width, wide = rows * p->size.hidden;
    size_t weights = p->size.width * p->size.hidden;
    struct tensor input = tensor_random(narrow, 1, 1), weight = tensor_random(weights, 2, 0.02f);
    struct tensor bias = tensor_random(p->size.hidden, 3, 1);
    struct tensor d_output = tensor_random(narrow, 4, 0.05f), kept = tensor_random(wide, 5, 1);
    struct results output = overwritten("output", wide), before = overwritten("before", wide);
    struct results d_before = overwritten("d_before", wide);
    struct results d_weight = added_to("d_weight", weights);
    struct results d_bias = added_to("d_bias", p->size.width);

    backend_case("MLP, %zu rows of %zu, %zu inside", rows, p->size.width, p->size.hidden);
    for (unsigned side = 0; side < 2; side++) {
        const struct kernel *k = kernel_of(p, side);
        k->linear_gelu_forward(device_of(p, side), output.both[side].f32, before.both[side].f32,
                               input.f32, weight.f32, bias.f32, up);
        k->linear_gelu_backward(device_of(p, side), d_before.both[side].f32,
                                d_weight.both[side].f32, d_bias.both[side].f32, d_output.f32,
                                kept.f32, kept.f32, weight.f32, down);
    }
    compare(&output);
    compare(&before);
    compare(&d_before);
    compare(&d_weight);
    compare(&d_bias);
    tensor_free(&input);
    tensor_free(&weight);
    tensor_free(&bias);
    tensor_free(&d_output);
    tensor_free(&kept);
}

static void check_products(const struct backend *backend)
{
    struct pair p;

    if (!pair_open(&p, backend))
        return;
    size_t rows = p.size.context; /* of one sample: the CPU has to compute it, too */
    check_linear(
        &p, (struct kernel_linear){rows, p.size.width, 3 * p.size.width, KERNEL_WEIGHT_IN_OUT, 0});
    check_linear(&p,
                 (struct kernel_linear){rows, p.size.width, p.size.width, KERNEL_WEIGHT_OUT_IN, 0});
    check_linear(&p, (struct kernel_linear){rows / 2, p.size.width, p.size.vocab,
                                            KERNEL_WEIGHT_OUT_IN, p.size.stride});
    check_mlp(&p, rows);
    pair_close(&p);
}

/* ---- attention ---- */

static void check_attention(const struct pair *p, struct kernel_attention shape)
{
    size_t rows = shape.batch * shape.context, count = rows * shape.width;
    size_t qkv_count = rows * (shape.width + 2 * shape.kv_heads * (shape.width / shape.heads));
    struct tensor qkv = tensor_random(qkv_count, 1, 1), d_output = tensor_random(count, 2, 1);
    struct results output = overwritten("output", count);
    struct results log_sum = overwritten("log_sum", rows * shape.heads);
    struct results d_qkv = overwritten("d_qkv", qkv_count);

    backend_case("attention, %zu samples of %zu, %zu heads of %zu, %zu of keys", shape.batch,
                 shape.context, shape.heads, shape.width / shape.heads, shape.kv_heads);
    for (unsigned side = 0; side < 2; side++) {
        const struct kernel *k = kernel_of(p, side);
        k->attention_forward(device_of(p, side), output.both[side].f32, log_sum.both[side].f32,
                             qkv.f32, shape);
        k->attention_backward(device_of(p, side), d_qkv.both[side].f32, d_output.f32,
                              output.both[side].f32, log_sum.both[side].f32, qkv.f32, shape);
    }
    compare(&output);
    compare(&log_sum);
    compare(&d_qkv);
    tensor_free(&qkv);
    tensor_free(&d_output);
}

/* By our own kernels first, then by the chosen kernels; heads of 64, and of 128 with fewer of
 * keys. */
static void check_attentions(const struct backend *backend)
{
    struct pair p;

    if (!pair_open(&p, backend))
        return;
    const struct kernel_attention shapes[] = {
        {1, p.size.context, p.size.width, p.size.heads, p.size.heads},
        {1, p.size.context, 8 * 128, 8, 2}};
    for (size_t i = 0; i < ARRAY_COUNT(shapes) - (backend_emulated() ? 1 : 0); i++) {
        check_attention(&p, shapes[i]);
        assert_int_equal(backend->kernel->attention_prepare(backend->device, shapes[i]), 0);
        check_attention(&p, shapes[i]);
    }
    pair_close(&p);
}

/* ---- rows ---- */

static void check_norm(const struct pair *p)
{
    size_t rows = p->size.batch * p->size.context, width = p->size.width, count = rows * width;
    struct tensor input = tensor_random(count, 1, 1), d_output = tensor_random(count, 2, 0.1f);
    struct tensor weight = tensor_random(width, 3, 1), bias = tensor_random(width, 4, 1);
    struct results output = overwritten("output", count), mean = overwritten("mean", rows);
    struct results rstd = overwritten("rstd", rows), d_input = added_to("d_input", count);
    struct results d_weight = added_to("d_weight", width), d_bias = added_to("d_bias", width);

    backend_case("layernorm, %zu rows of %zu", rows, width);
    for (unsigned side = 0; side < 2; side++) {
        const struct kernel *k = kernel_of(p, side);
        k->layernorm_forward(device_of(p, side), output.both[side].f32, mean.both[side].f32,
                             rstd.both[side].f32, NULL, input.f32, NULL, weight.f32, bias.f32, rows,
                             width);
        k->layernorm_backward(device_of(p, side), d_input.both[side].f32, d_weight.both[side].f32,
                              d_bias.both[side].f32, d_output.f32, input.f32, weight.f32,
                              mean.both[side].f32, rstd.both[side].f32, rows, width);
    }
    compare(&output);
    compare(&mean);
    compare(&rstd);
    compare(&d_input);
    compare(&d_weight);
    compare(&d_bias);
    tensor_free(&input);
    tensor_free(&d_output);
    tensor_free(&weight);
    tensor_free(&bias);
}

static void check_embedding(const struct pair *p)
{
    size_t rows = p->size.batch * p->size.context, width = p->size.width;
    int32_t *tokens = tokens_random(rows, 1, p->size.vocab);
    struct tensor d_output = tensor_random(rows * width, 2, 1);
    struct results d_table = added_to("d_token_table", p->size.vocab * width);
    struct results d_positions = added_to("d_position_table", p->size.context * width);

    backend_case("embedding, %zu samples of %zu, width %zu", p->size.batch, p->size.context, width);
    for (unsigned side = 0; side < 2; side++)
        kernel_of(p, side)->embedding_backward(device_of(p, side), d_table.both[side].f32,
                                               d_positions.both[side].f32, d_output.f32, tokens,
                                               p->size.batch, p->size.context, width);
    compare(&d_table);
    compare(&d_positions);
    tensor_free(&d_output);
    free(tokens);
}

/* Gradients times the vocabulary: one is about 1, where a tolerance sees it. */
static void check_classifier(const struct pair *p)
{
    size_t rows = p->size.context / 2, count = rows * p->size.stride;
    int32_t *targets = tokens_random(rows, 1, p->size.vocab);
    struct results losses = overwritten("losses", rows);
    struct results logits = added_to("logits", count);

    backend_case("classifier, %zu rows of %zu", rows, p->size.vocab);
    for (unsigned side = 0; side < 2; side++)
        kernel_of(p, side)->cross_entropy_fused(
            device_of(p, side), losses.both[side].f32, logits.both[side].f32, targets,
            (float)p->size.vocab, rows, p->size.vocab, p->size.stride);
    compare(&losses);
    compare(&logits);
    free(targets);
}

static void check_rows(const struct backend *backend)
{
    struct pair p;

    if (!pair_open(&p, backend))
        return;
    check_norm(&p);
    check_embedding(&p);
    check_classifier(&p);
    pair_close(&p);
}

static void test_products(void **state)
{
    (void)state;
    backend_each_product(check_products);
}

static void test_attention(void **state)
{
    (void)state;
    backend_each(check_attentions);
}

static void test_rows(void **state)
{
    (void)state;
    backend_each(check_rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
