/* Test tensors: the same numbers as f32 for the kernel and as f64 for the oracle. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tensor {
    size_t count;
    float *f32;
    double *f64; /* equal to f32 when made */
};

/** tensor_random() - normal(0, @deviation), a function of @seed and the count; rounded to what the
   current backend's activations hold */
struct tensor tensor_random(size_t count, uint64_t seed, float deviation);

/** tensor_poison() - NaN everywhere: for results that must be overwritten */
struct tensor tensor_poison(size_t count);
void tensor_free(struct tensor *tensor);

/** tensor_expect() - the f64 side of @tensor becomes the f32 side of @want */
void tensor_expect(struct tensor *tensor, const struct tensor *want);

/** tokens_random() - @count tokens below @vocab, the last one among them */
int32_t *tokens_random(size_t count, uint64_t seed, size_t vocab);

/** assert_near() - |actual - expected| <= tolerance (1 + |expected|) for every element; @tolerance
   is that of f32 arithmetic, see backend_tolerance() */
void assert_near(const float *actual, const double *expected, size_t count, double tolerance);

/** assert_tensor() - f32 of @tensor is near its f64 */
void assert_tensor(const struct tensor *tensor, double tolerance);
