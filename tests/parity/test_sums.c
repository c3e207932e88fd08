/* Residual, tree addition, norms and digests. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/tensor.h"

#define COUNT 40003

static void check_additions(const struct backend *backend)
{
    const struct kernel *k = backend->kernel;
    struct tensor a = tensor_random(COUNT, 1, 1), b = tensor_random(COUNT, 2, 1);
    struct tensor residual = tensor_poison(COUNT), tree = tensor_poison(COUNT);
    float *expected = malloc(COUNT * sizeof(float));

    assert_non_null(expected);
    for (size_t i = 0; i < COUNT; i++)
        expected[i] = backend_round(a.f32[i] + b.f32[i]);
    k->residual(backend->device, residual.f32, a.f32, b.f32, COUNT);
    assert_same(residual.f32, expected, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        expected[i] = a.f32[i] + b.f32[i];
    k->tree_add(backend->device, tree.f32, a.f32, b.f32, COUNT);
    assert_same(tree.f32, expected, COUNT);
    k->tree_add(backend->device, a.f32, a.f32, b.f32, COUNT);
    assert_same(a.f32, expected, COUNT);
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&residual);
    tensor_free(&tree);
    free(expected);
}

static double norm_squared(const struct backend *backend, const float *values, size_t count)
{
    const struct kernel_flat_tensor tensor = {values, count};
    double sum;

    backend->kernel->norms_squared(backend->device, &tensor, 1, &sum);
    return sum;
}

/* More than the chunks of one block, a chunk that is not full, and nothing at all; alone and
 * together they have the same bits. */
static void check_norm(const struct backend *backend)
{
    const size_t many = backend_emulated() ? 200001 : 5000001;
    const size_t counts[] = {0, 1, 15, 0, 0, KERNEL_NORM_CHUNK, KERNEL_NORM_CHUNK + 1, many, 7, 0};
    struct kernel_flat_tensor tensors[ARRAY_COUNT(counts)];
    struct tensor values[ARRAY_COUNT(counts)];
    double together[ARRAY_COUNT(counts)];

    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        values[i] = tensor_random(MAX(counts[i], (size_t)1), i, 3);
        tensors[i] = (struct kernel_flat_tensor){values[i].f32, counts[i]};
    }
    backend->kernel->norms_squared(backend->device, tensors, ARRAY_COUNT(counts), together);
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        double expected = 0, alone = norm_squared(backend, values[i].f32, counts[i]);
        for (size_t j = 0; j < counts[i]; j++)
            expected += values[i].f64[j] * values[i].f64[j];
        assert_true(fabs(alone - expected) <= 1e-12 * expected);
        assert_memory_equal(&together[i], &alone, sizeof(alone));
        tensor_free(&values[i]);
    }
}

/* The sum over a whole tensor is the sum over its chunks in index order, to the bit. */
static void check_norm_chunks(const struct backend *backend)
{
    struct tensor values = tensor_random(10 * KERNEL_NORM_CHUNK + 77, 1, 1);
    double sum = 0;

    for (size_t i = 0; i < values.count; i += KERNEL_NORM_CHUNK) {
        size_t count = MIN(values.count - i, (size_t)KERNEL_NORM_CHUNK);
        sum += norm_squared(backend, values.f32 + i, count);
    }
    double whole = norm_squared(backend, values.f32, values.count);
    assert_memory_equal(&sum, &whole, sizeof(sum));
    tensor_free(&values);
}

/* More tensors than one launch takes, a third of them empty. */
static void check_norm_of_many(const struct backend *backend)
{
    enum { MANY = 1600, APART = 16 };
    static struct kernel_flat_tensor tensors[MANY];
    static double sums[MANY];
    struct tensor values = tensor_random(MANY * APART, 1, 1);

    for (size_t i = 0; i < MANY; i++)
        tensors[i] = (struct kernel_flat_tensor){values.f32 + i * APART, i % 3};
    backend->kernel->norms_squared(backend->device, tensors, MANY, sums);
    for (size_t i = 0; i < MANY; i++) {
        double expected = 0;
        for (size_t j = 0; j < i % 3; j++)
            expected += values.f64[i * APART + j] * values.f64[i * APART + j];
        assert_true(fabs(sums[i] - expected) <= 1e-12 * expected);
    }
    tensor_free(&values);
}

static uint64_t digest_by_definition(const float *values, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof(word));
        sum += (uint64_t)word * (uint32_t)(2 * i + 1);
    }
    return sum;
}

static void check_digests(const struct backend *backend)
{
    const size_t many = backend_emulated() ? 20001 : 5000001;
    const size_t counts[] = {0, 1, 3, 0, 4, 1023, many, 7, 0};
    struct kernel_flat_tensor tensors[ARRAY_COUNT(counts)];
    struct tensor values[ARRAY_COUNT(counts)];
    uint64_t digests[ARRAY_COUNT(counts)];

    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        values[i] = tensor_random(MAX(counts[i], (size_t)1), i, 3);
        tensors[i] = (struct kernel_flat_tensor){values[i].f32, counts[i]};
    }
    backend->kernel->digests(backend->device, tensors, ARRAY_COUNT(counts), digests);
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        assert_true(digests[i] == digest_by_definition(values[i].f32, counts[i]));
        tensor_free(&values[i]);
    }
}

/* A sign, the last place of a small number among large ones, a NaN: a norm would not tell. */
static void check_that_a_digest_sees_every_bit(const struct backend *backend)
{
    struct tensor values = tensor_random(1030, 1, 1);
    const struct kernel_flat_tensor tensor = {values.f32, values.count};
    const size_t places[] = {0, 1, 1027, 1029};
    const unsigned bits[] = {0, 22, 31};
    uint64_t before, after;

    values.f32[1] = 1e-30f;
    backend->kernel->digests(backend->device, &tensor, 1, &before);
    for (size_t i = 0; i < ARRAY_COUNT(places); i++)
        for (size_t k = 0; k < ARRAY_COUNT(bits); k++) {
            uint32_t word;
            memcpy(&word, &values.f32[places[i]], sizeof(word));
            uint32_t flipped = word ^ 1u << bits[k];
            memcpy(&values.f32[places[i]], &flipped, sizeof(word));
            backend->kernel->digests(backend->device, &tensor, 1, &after);
            assert_true(after != before);
            memcpy(&values.f32[places[i]], &word, sizeof(word));
        }
    tensor_free(&values);
}

static void test_digests(void **state)
{
    (void)state;
    backend_each(check_digests);
    backend_each(check_that_a_digest_sees_every_bit);
}

static void test_additions(void **state)
{
    (void)state;
    backend_each(check_additions);
}

static void test_norm(void **state)
{
    (void)state;
    backend_each(check_norm);
}

static void test_norm_chunks(void **state)
{
    (void)state;
    backend_each(check_norm_chunks);
}

static void test_norm_of_many(void **state)
{
    (void)state;
    backend_each(check_norm_of_many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_additions),   cmocka_unit_test(test_norm),
        cmocka_unit_test(test_norm_chunks), cmocka_unit_test(test_norm_of_many),
        cmocka_unit_test(test_digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
