/*
 * The contract of kernels/kernel.h: the bits of a result depend on the arguments alone.
 *
 * Every operation runs once undisturbed, which gives the expectation. Then it runs again with its
 * buffers at other addresses and alignments, after other operations, from another thread, while
 * other threads load the machine, and at every level of vector instructions. Each time all its
 * buffers, inputs and padding included, must equal the expectation.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/levels.h"

#define BUFFERS_MAX 8
#define GUARD       64 /* bytes around a buffer that no operation may touch */

/* The arguments of a call: f32 buffers (tokens are drawn by the case itself). */
struct call {
    const struct kernel *kernel;
    struct kernel_device *device;
    float *buffer[BUFFERS_MAX];
};

struct operation {
    const char *name;
    void (*run)(const struct call *call);
    size_t counts[BUFFERS_MAX]; /* elements of each buffer, 0 after the last */
};

#define ROWS    60
#define WIDTH   96
#define VOCAB   1031
#define B       3
#define T       130
#define HEADS   4
#define ELEMENT 40013

/* Numbers between -1 and 1 with all bits of their significands in use. */
static void draw_numbers(float *numbers, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t hash = ((uint32_t)i + 1) * 2654435761u ^ seed * 2246822519u;
        hash = (hash ^ hash >> 15) * 3266489917u;
        numbers[i] = (float)(int32_t)hash * 0x1p-31f;
    }
}

static void draw_tokens(int32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(i * 7919 % VOCAB);
}

static void embedding_forward(const struct call *c)
{
    int32_t tokens[B * T];
    draw_tokens(tokens, B * T);
    c->kernel->embedding_forward(c->device, c->buffer[0], tokens, c->buffer[1], c->buffer[2], B, T,
                                 WIDTH);
}

static void embedding_backward(const struct call *c)
{
    int32_t tokens[B * T];
    draw_tokens(tokens, B * T);
    c->kernel->embedding_backward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], tokens, B, T,
                                  WIDTH);
}

static void layernorm_forward(const struct call *c)
{
    c->kernel->layernorm_forward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], c->buffer[3],
                                 c->buffer[4], c->buffer[5], c->buffer[6], c->buffer[7], ROWS,
                                 WIDTH + 3);
}

static void layernorm_backward(const struct call *c)
{
    c->kernel->layernorm_backward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], c->buffer[3],
                                  c->buffer[4], c->buffer[5], c->buffer[6], c->buffer[7], ROWS,
                                  WIDTH + 3);
}

static void rmsnorm_forward(const struct call *c)
{
    c->kernel->rmsnorm_forward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], c->buffer[3],
                               c->buffer[4], c->buffer[5], 1e-5f, ROWS, WIDTH + 3);
}

static void rmsnorm_backward(const struct call *c)
{
    c->kernel->rmsnorm_backward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], c->buffer[3],
                                c->buffer[4], c->buffer[5], ROWS, WIDTH + 3);
}

static void linear(const struct call *c, struct kernel_linear shape)
{
    float *input = c->buffer[0], *weight = c->buffer[1], *output = c->buffer[2];
    float *d_input = c->buffer[3], *d_weight = c->buffer[4], *bias = c->buffer[5];
    c->kernel->linear_forward(c->device, output, input, weight, bias, shape);
    c->kernel->linear_backward(c->device, d_input, d_weight, bias, output, input, weight, shape);
}

#define LINEAR(name, rows, in, out, layout)                                                        \
    static void name(const struct call *c)                                                         \
    {                                                                                              \
        linear(c, (struct kernel_linear){rows, in, out, layout, 0});                               \
    }
#define LINEAR_COUNTS(rows, in, out)                                                               \
    {                                                                                              \
        (rows) * (in), (in) * (out), (rows) * (out), (rows) * (in), (in) * (out), out              \
    }
LINEAR(linear_odd, 37, 131, 259, KERNEL_WEIGHT_IN_OUT)
LINEAR(linear_tiny, 3, 16, 8, KERNEL_WEIGHT_IN_OUT)
LINEAR(linear_demo, 128, 128, 384, KERNEL_WEIGHT_IN_OUT)
LINEAR(linear_wide, 256, 768, 2304, KERNEL_WEIGHT_IN_OUT)
LINEAR(linear_head, 64, 128, 5003, KERNEL_WEIGHT_OUT_IN)

static void attention_forward(const struct call *c)
{
    c->kernel->attention_forward(c->device, c->buffer[0], c->buffer[1], c->buffer[2],
                                 (struct kernel_attention){B, T, WIDTH, HEADS, HEADS});
}

static void attention_backward(const struct call *c)
{
    struct kernel_attention shape = {B, T, WIDTH, HEADS, HEADS};
    c->kernel->attention_forward(c->device, c->buffer[2], c->buffer[3], c->buffer[4], shape);
    c->kernel->attention_backward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], c->buffer[3],
                                  c->buffer[4], shape);
}

#define GROUPED   ((struct kernel_attention){B, T, WIDTH, HEADS, HEADS / 2})
#define QKV_WIDTH (2 * WIDTH) /* q as wide as k and v together */
#define NORMS     (HEADS + HEADS / 2)

static void attention_grouped(const struct call *c)
{
    c->kernel->attention_forward(c->device, c->buffer[2], c->buffer[3], c->buffer[4], GROUPED);
    c->kernel->attention_backward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], c->buffer[3],
                                  c->buffer[4], GROUPED);
}

static void headnorm_forward(const struct call *c)
{
    c->kernel->headnorm_forward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], c->buffer[3],
                                c->buffer[4], 1e-5f, GROUPED);
}

static void headnorm_backward(const struct call *c)
{
    c->kernel->headnorm_backward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], c->buffer[3],
                                 c->buffer[4], c->buffer[5], c->buffer[6], GROUPED);
}

static void rotary(const struct call *c)
{
    c->kernel->rotary_forward(c->device, c->buffer[0], c->buffer[2], GROUPED);
    c->kernel->rotary_backward(c->device, c->buffer[1], c->buffer[2], GROUPED);
}

static void swiglu_forward(const struct call *c)
{
    c->kernel->swiglu_forward(c->device, c->buffer[0], c->buffer[1], ROWS, VOCAB);
}

static void swiglu_backward(const struct call *c)
{
    c->kernel->swiglu_backward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], ROWS, VOCAB);
}

static void gelu_forward(const struct call *c)
{
    c->kernel->gelu_forward(c->device, c->buffer[0], c->buffer[1], ELEMENT);
}

static void gelu_backward(const struct call *c)
{
    c->kernel->gelu_backward(c->device, c->buffer[0], c->buffer[1], c->buffer[2], ELEMENT);
}

static void residual(const struct call *c)
{
    c->kernel->residual(c->device, c->buffer[0], c->buffer[1], c->buffer[2], ELEMENT);
}

static void tree_add(const struct call *c)
{
    c->kernel->tree_add(c->device, c->buffer[0], c->buffer[0], c->buffer[1], ELEMENT);
}

static void cross_entropy(const struct call *c)
{
    int32_t targets[ROWS];
    draw_tokens(targets, ROWS);
    targets[ROWS / 2] = -1; /* does not count */
    c->kernel->cross_entropy_forward(c->device, c->buffer[0], c->buffer[2], targets, ROWS, VOCAB,
                                     VOCAB);
    c->kernel->cross_entropy_fused(c->device, c->buffer[1], c->buffer[2], targets, 0.1f, ROWS,
                                   VOCAB, VOCAB);
}

static void adamw(const struct call *c)
{
    struct kernel_adamw options = {.lr = 0.1f,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.95f,
                                   .epsilon = 1e-8f,
                                   .weight_decay = 0.1f,
                                   .gradient_scale = 0.3f,
                                   .step = 7};
    struct kernel_adamw_tensor tensor = {.parameter = c->buffer[0],
                                         .first_moment = c->buffer[1],
                                         .second_moment = c->buffer[2],
                                         .gradient = c->buffer[3],
                                         .count = ELEMENT,
                                         .decay = true};
    memset(c->buffer[2], 0, ELEMENT * sizeof(float)); /* a square is never negative */
    c->kernel->adamw(c->device, &tensor, 1, &options);
}

static void norms_squared(const struct call *c)
{
    const struct kernel_flat_tensor tensor = {c->buffer[1], ELEMENT};
    double norm;

    c->kernel->norms_squared(c->device, &tensor, 1, &norm);
    memcpy(c->buffer[0], &norm, sizeof(norm));
}

static void digests(const struct call *c)
{
    const struct kernel_flat_tensor tensor = {c->buffer[1], ELEMENT};
    uint64_t digest;

    c->kernel->digests(c->device, &tensor, 1, &digest);
    memcpy(c->buffer[0], &digest, sizeof(digest));
}

static const struct operation operations[] = {
    {"embedding_forward", embedding_forward, {B * T * WIDTH, VOCAB *WIDTH, T *WIDTH}},
    {"embedding_backward", embedding_backward, {VOCAB * WIDTH, T *WIDTH, B *T *WIDTH}},
    {"layernorm_forward",
     layernorm_forward,
     {ROWS * (WIDTH + 3), ROWS, ROWS, ROWS *(WIDTH + 3), ROWS *(WIDTH + 3), ROWS *(WIDTH + 3),
      WIDTH + 3, WIDTH + 3}},
    {"layernorm_backward",
     layernorm_backward,
     {ROWS * (WIDTH + 3), WIDTH + 3, WIDTH + 3, ROWS *(WIDTH + 3), ROWS *(WIDTH + 3), WIDTH + 3,
      ROWS, ROWS}},
    {"rmsnorm_forward",
     rmsnorm_forward,
     {ROWS * (WIDTH + 3), ROWS, ROWS *(WIDTH + 3), ROWS *(WIDTH + 3), ROWS *(WIDTH + 3),
      WIDTH + 3}},
    {"rmsnorm_backward",
     rmsnorm_backward,
     {ROWS * (WIDTH + 3), WIDTH + 3, ROWS *(WIDTH + 3), ROWS *(WIDTH + 3), WIDTH + 3, ROWS}},
    {"linear_odd", linear_odd, LINEAR_COUNTS(37, 131, 259)},
    {"linear_tiny", linear_tiny, LINEAR_COUNTS(3, 16, 8)},
    {"linear_demo", linear_demo, LINEAR_COUNTS(128, 128, 384)},
    {"linear_wide", linear_wide, LINEAR_COUNTS(256, 768, 2304)},
    {"linear_head", linear_head, LINEAR_COUNTS(64, 128, 5003)},
    {"attention_forward", attention_forward, {B * T * WIDTH, B *HEADS *T, B *T * 3 * WIDTH}},
    {"attention_backward",
     attention_backward,
     {B * T * 3 * WIDTH, B *T *WIDTH, B *T *WIDTH, B *HEADS *T, B *T * 3 * WIDTH}},
    {"attention_grouped",
     attention_grouped,
     {B * T * QKV_WIDTH, B *T *WIDTH, B *T *WIDTH, B *HEADS *T, B *T *QKV_WIDTH}},
    {"headnorm_forward",
     headnorm_forward,
     {B * T * QKV_WIDTH, B *T *NORMS, B *T *QKV_WIDTH, WIDTH / HEADS, WIDTH / HEADS}},
    {"headnorm_backward",
     headnorm_backward,
     {B * T * QKV_WIDTH, WIDTH / HEADS, WIDTH / HEADS, B *T *QKV_WIDTH, WIDTH / HEADS,
      WIDTH / HEADS, B *T *NORMS}},
    {"rotary", rotary, {B * T * QKV_WIDTH, B *T *QKV_WIDTH, T *WIDTH / HEADS}},
    {"swiglu_forward", swiglu_forward, {ROWS * VOCAB, ROWS * 2 * VOCAB}},
    {"swiglu_backward", swiglu_backward, {ROWS * 2 * VOCAB, ROWS *VOCAB, ROWS * 2 * VOCAB}},
    {"gelu_forward", gelu_forward, {ELEMENT, ELEMENT}},
    {"gelu_backward", gelu_backward, {ELEMENT, ELEMENT, ELEMENT}},
    {"residual", residual, {ELEMENT, ELEMENT, ELEMENT}},
    {"tree_add", tree_add, {ELEMENT, ELEMENT}},
    {"cross_entropy", cross_entropy, {ROWS, ROWS, ROWS *VOCAB}},
    {"adamw", adamw, {ELEMENT, ELEMENT, ELEMENT, ELEMENT}},
    {"norms_squared", norms_squared, {16, ELEMENT}},
    {"digests", digests, {16, ELEMENT}},
};

/* All buffers of a call in one block of memory, with guards, shifted by some bytes. */
struct memory {
    char *block;
    size_t size;
    float *buffer[BUFFERS_MAX];
};

static size_t padded_bytes(size_t count)
{
    return (count * sizeof(float) + 63) / 64 * 64 + 2 * GUARD;
}

static struct memory memory_new(const struct operation *operation, size_t shift_bytes)
{
    struct memory memory = {0};
    for (int i = 0; i < BUFFERS_MAX; i++)
        memory.size += padded_bytes(operation->counts[i]);
    memory.block = aligned_alloc(64, memory.size + 64);
    assert_non_null(memory.block);
    memset(memory.block, 0x5a, memory.size + 64);

    char *at = memory.block + shift_bytes;
    for (int i = 0; i < BUFFERS_MAX && operation->counts[i] > 0; i++) {
        memory.buffer[i] = (float *)(void *)(at + GUARD);
        draw_numbers(memory.buffer[i], operation->counts[i], (uint32_t)i);
        at += padded_bytes(operation->counts[i]);
    }
    return memory;
}

static void perform(const struct operation *operation, const struct kernel *kernel,
                    struct kernel_device *device, struct memory *memory)
{
    struct call call = {.kernel = kernel, .device = device};
    memcpy(call.buffer, memory->buffer, sizeof(call.buffer));
    operation->run(&call);
}

static struct kernel_device *device_new(const struct kernel *kernel, unsigned threads)
{
    struct kernel_device *device;
    struct kernel_options options = {.thread_count = threads};
    assert_int_equal(kernel->open(&options, &device, NULL), 0);
    return device;
}

/* Run @operation and fail unless its memory then equals @expected. */
static void expect_same(const struct operation *operation, const struct kernel *kernel,
                        struct kernel_device *device, const struct memory *expected,
                        size_t shift_bytes)
{
    struct memory memory = memory_new(operation, shift_bytes);
    perform(operation, kernel, device, &memory);
    if (memcmp(memory.block + shift_bytes, expected->block, expected->size) != 0)
        fail_msg("%s, shifted by %zu bytes: other bits", operation->name, shift_bytes);
    free(memory.block);
}

static struct memory expectation(const struct operation *operation, unsigned threads)
{
    struct kernel_device *device = device_new(kernel_cpu(), threads);
    struct memory memory = memory_new(operation, 0);
    perform(operation, kernel_cpu(), device, &memory);
    kernel_cpu()->close(device);
    return memory;
}

/* Each operation at every alignment that an f32 can have; the devices live through all of them. */
static void test_addresses_and_order(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct kernel_device *device = device_new(kernel_cpu(), threads);
        for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
            struct memory expected = expectation(&operations[i], threads);
            for (size_t shift = 0; shift<64; shift += operations[i].counts[1]> 1000000 ? 20 : 4)
                expect_same(&operations[i], kernel_cpu(), device, &expected, shift);
            free(expected.block);
        }
        kernel_cpu()->close(device);
    }
}

static void test_levels_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
        struct memory expected = expectation(&operations[i], 2);
        for (int level = 0; level < CPU_LEVELS; level++) {
            const struct kernel *kernel = kernel_cpu_level((enum cpu_level)level);
            if (!kernel)
                continue;
            struct kernel_device *device = device_new(kernel, 2);
            expect_same(&operations[i], kernel, device, &expected, 0);
            kernel->close(device);
        }
        free(expected.block);
    }
}

/* All but the matrix products promise the same bits for any number of threads. */
static void test_thread_counts_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
        if (strncmp(operations[i].name, "linear", 6) == 0)
            continue;
        struct memory expected = expectation(&operations[i], 1);
        for (unsigned threads = 2; threads <= 5; threads++) {
            struct kernel_device *device = device_new(kernel_cpu(), threads);
            expect_same(&operations[i], kernel_cpu(), device, &expected, 0);
            kernel_cpu()->close(device);
        }
        free(expected.block);
    }
}

struct neighbour {
    pthread_t thread;
    const atomic_bool *stop;
    atomic_uint *rounds;
};

/* Another device of the process, with another thread count, that computes all the time. */
static void *disturb(void *argument)
{
    const struct neighbour *self = argument;
    struct kernel_device *device = device_new(kernel_cpu(), 3);
    while (!atomic_load(self->stop)) {
        const struct operation *operation = &operations[6]; /* linear_demo */
        struct memory memory = memory_new(operation, 0);
        perform(operation, kernel_cpu(), device, &memory);
        free(memory.block);
        atomic_fetch_add(self->rounds, 1);
    }
    kernel_cpu()->close(device);
    return NULL;
}

/* The calls come from threads that the devices have not seen before. */
static void *perform_all(void *argument)
{
    struct memory *expected = argument;
    struct kernel_device *device = device_new(kernel_cpu(), 2);
    for (size_t i = 0; i < ARRAY_COUNT(operations); i++)
        expect_same(&operations[i], kernel_cpu(), device, &expected[i], 8);
    kernel_cpu()->close(device);
    return NULL;
}

static void test_neighbours(void **state)
{
    (void)state;
    struct memory expected[ARRAY_COUNT(operations)];
    atomic_bool stop = false;
    atomic_uint rounds = 0;
    struct neighbour neighbour = {.stop = &stop, .rounds = &rounds};
    pthread_t caller;

    for (size_t i = 0; i < ARRAY_COUNT(operations); i++)
        expected[i] = expectation(&operations[i], 2);
    assert_int_equal(pthread_create(&neighbour.thread, NULL, disturb, &neighbour), 0);
    while (atomic_load(&rounds) == 0)
        sched_yield();
    assert_int_equal(pthread_create(&caller, NULL, perform_all, expected), 0);
    pthread_join(caller, NULL);
    atomic_store(&stop, true);
    pthread_join(neighbour.thread, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(operations); i++)
        free(expected[i].block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_and_order),
        cmocka_unit_test(test_levels_agree),
        cmocka_unit_test(test_thread_counts_agree),
        cmocka_unit_test(test_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
