/* Test tensors: the same numbers as f32 for the kernel and as f64 for the oracle. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tensor {
    size_t count;
    float *f32;
    double *f64; /* equal to f32 when made */
};

/** tensor_random() - Draw normal(0, @deviation), a function of @seed and the count; rounded to the
 * type of the current backend's activations */
struct tensor tensor_random(size_t count, uint64_t seed, float deviation);

/** tensor_poison() - NaN everywhere: for results that must be overwritten */
struct tensor tensor_poison(size_t count);
void tensor_free(struct tensor *tensor);

/** tensor_expect() - the f64 side of @tensor becomes the f32 side of @want */
void tensor_expect(struct tensor *tensor, const struct tensor *want);

/** tokens_random() - @count tokens below @vocab, the last one among them */
int32_t *tokens_random(size_t count, uint64_t seed, size_t vocab);

/** tensor_off() - how far @actual is from @expected; 0 within tolerance (1 + |expected|) */
double tensor_off(double actual, double expected, double tolerance);

/* The following checks name the result in their messages as the test does. */

/** assert_near() - |actual - expected| <= tolerance (1 + |expected|) for every element; @tolerance
   is that of f32 arithmetic, see backend_tolerance() */
#define assert_near(actual, expected, count, tolerance)                                            \
    assert_near_as(#actual, actual, expected, count, tolerance)
void assert_near_as(const char *name, const float *actual, const double *expected, size_t count,
                    double tolerance);

/** assert_tensor() - f32 of @tensor is near its f64 */
#define assert_tensor(tensor, tolerance) assert_tensor_as(#tensor, tensor, tolerance)
void assert_tensor_as(const char *name, const struct tensor *tensor, double tolerance);

/** assert_same() - @actual has the bits of @expected */
#define assert_same(actual, expected, count) assert_same_as(#actual, actual, expected, count)
void assert_same_as(const char *name, const float *actual, const float *expected, size_t count);
