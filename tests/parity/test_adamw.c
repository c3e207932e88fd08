#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

#define COUNT 33001 /* two shares and a tail */

static void check_adamw(const struct backend *backend)
{
    struct tensor parameter = tensor_random(COUNT, 1, 1);
    struct tensor first = tensor_random(COUNT, 0, 0), second = tensor_random(COUNT, 0, 0);

    for (uint64_t step = 1; step <= 5; step++) {
        struct tensor gradient = tensor_random(COUNT, 10 + step, 0.1f);
        struct kernel_adamw options = {.lr = 0.01f,
                                       .beta1 = 0.9f,
                                       .beta2 = 0.95f,
                                       .epsilon = 1e-8f,
                                       .weight_decay = 0.1f,
                                       .gradient_scale = step == 3 ? 0.5f : 1.0f,
                                       .step = step};
        struct kernel_adamw_tensor tensor = {.parameter = parameter.f32,
                                             .first_moment = first.f32,
                                             .second_moment = second.f32,
                                             .gradient = gradient.f32,
                                             .count = COUNT,
                                             .decay = true};
        backend->kernel->adamw(backend->device, &tensor, 1, &options);
        oracle_adamw(parameter.f64, first.f64, second.f64, gradient.f64, COUNT, &options);
        tensor_free(&gradient);
    }
    assert_tensor(&parameter, 1e-6);
    assert_tensor(&first, 1e-7);
    assert_tensor(&second, 1e-8);
    tensor_free(&parameter);
    tensor_free(&first);
    tensor_free(&second);
}

/* Padding between tensors is zero, and must stay zero through every step. */
static void check_zeros_stay(const struct backend *backend)
{
    float parameter[16] = {0}, first[16] = {0}, second[16] = {0};
    const float gradient[16] = {0}, zeros[16] = {0};
    struct kernel_adamw options = {.lr = 0.1f,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.999f,
                                   .epsilon = 1e-8f,
                                   .weight_decay = 0.1f,
                                   .gradient_scale = 1.0f,
                                   .step = 1000000};
    struct kernel_adamw_tensor tensor = {.parameter = parameter,
                                         .first_moment = first,
                                         .second_moment = second,
                                         .gradient = gradient,
                                         .count = 16,
                                         .decay = true};

    backend->kernel->adamw(backend->device, &tensor, 1, &options);
    assert_memory_equal(parameter, zeros, sizeof(zeros));
}

/* More tensors than one launch takes, of many sizes, some empty, give the results of single
 * updates. */
static void check_many(const struct backend *backend)
{
    enum { TENSORS = 1100, ELEMENTS = 6000 };
    static struct kernel_adamw_tensor tensors[TENSORS];
    const struct kernel_adamw options = {.lr = 0.01f,
                                         .beta1 = 0.9f,
                                         .beta2 = 0.95f,
                                         .epsilon = 1e-8f,
                                         .weight_decay = 0.1f,
                                         .gradient_scale = 0.5f,
                                         .step = 2};
    size_t used = 0, total = 10 * TENSORS + ELEMENTS;
    struct tensor p = tensor_random(total, 1, 1), want = tensor_random(total, 1, 1);
    struct tensor first = tensor_random(total, 0, 0), second = tensor_random(total, 0, 0);
    struct tensor gradient = tensor_random(total, 2, 0.1f);

    for (size_t i = 0; i < TENSORS; i++) {
        size_t count = i == TENSORS - 2 ? ELEMENTS : i % 11;
        tensors[i] = (struct kernel_adamw_tensor){.parameter = p.f32 + used,
                                                  .first_moment = first.f32 + used,
                                                  .second_moment = second.f32 + used,
                                                  .gradient = gradient.f32 + used,
                                                  .count = count,
                                                  .stream = i,
                                                  .decay = i % 2 == 0};
        struct kernel_adamw alone = options;
        alone.weight_decay = i % 2 == 0 ? options.weight_decay : 0;
        oracle_adamw(want.f64 + used, first.f64 + used, second.f64 + used, gradient.f64 + used,
                     count, &alone);
        used += count;
    }
    assert_true(used <= total);
    backend->kernel->adamw(backend->device, tensors, TENSORS, &options);
    assert_near(p.f32, want.f64, used, 1e-6);
    assert_near(first.f32, first.f64, used, 1e-7);
    assert_near(second.f32, second.f64, used, 1e-8);
    tensor_free(&p);
    tensor_free(&want);
    tensor_free(&first);
    tensor_free(&second);
    tensor_free(&gradient);
}

static void test_many(void **state)
{
    (void)state;
    backend_each(check_many);
}

static void test_adamw(void **state)
{
    (void)state;
    backend_each(check_adamw);
}

static void test_zeros_stay(void **state)
{
    (void)state;
    backend_each(check_zeros_stay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_zeros_stay),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
