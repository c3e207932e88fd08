#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/gradient.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

#define B 3
#define T 5
#define C 131 /* no multiple of a vector; two shares of columns */
#define V 7   /* fewer tokens than rows, so rows meet in one entry */

struct embedding {
    const int32_t *tokens;
    struct tensor token_table, position_table, output, d_output;
};

static double loss(const void *context)
{
    const struct embedding *e = context;
    oracle_embedding(e->output.f64, e->tokens, e->token_table.f64, e->position_table.f64, B, T, C);
    return weighted_sum(e->output.f64, e->d_output.f64, e->output.count);
}

static void check_embedding(const struct backend *backend)
{
    int32_t *tokens = tokens_random(B * T, 1, V);
    struct embedding e = {.tokens = tokens,
                          .token_table = tensor_random(V * C, 2, 1),
                          .position_table = tensor_random(T * C, 3, 1),
                          .output = tensor_poison(B * T * C),
                          .d_output = tensor_random(B * T * C, 4, 1)};
    struct tensor d_token = tensor_random(V * C, 5, 1), d_position = tensor_random(T * C, 6, 1);

    backend->kernel->embedding_forward(backend->device, e.output.f32, tokens, e.token_table.f32,
                                       e.position_table.f32, B, T, C);
    loss(&e);
    assert_tensor(&e.output, 1e-7);

    backend->kernel->embedding_backward(backend->device, d_token.f32, d_position.f32,
                                        e.d_output.f32, tokens, B, T, C);
    assert_gradient(loss, &e, e.token_table.f64, d_token.f32, d_token.f64, V * C, 13, 2e-6);
    assert_gradient(loss, &e, e.position_table.f64, d_position.f32, d_position.f64, T * C, 13,
                    2e-6);

    tensor_free(&e.token_table);
    tensor_free(&e.position_table);
    tensor_free(&e.output);
    tensor_free(&e.d_output);
    tensor_free(&d_token);
    tensor_free(&d_position);
    free(tokens);
}

/* Without positions: the position table must not be touched, and tokens alone count. */
static void check_tokens_alone(const struct backend *backend)
{
    int32_t *tokens = tokens_random(B * T, 1, V);
    struct tensor table = tensor_random(V * C, 2, 1), output = tensor_poison(B * T * C);
    struct tensor d_output = tensor_random(B * T * C, 4, 1), d_table = tensor_random(V * C, 5, 1);

    backend->kernel->embedding_forward(backend->device, output.f32, tokens, table.f32, NULL, B, T,
                                       C);
    oracle_embedding(output.f64, tokens, table.f64, NULL, B, T, C);
    assert_tensor(&output, 0);

    backend->kernel->embedding_backward(backend->device, d_table.f32, NULL, d_output.f32, tokens, B,
                                        T, C);
    for (size_t row = 0; row < B * T; row++)
        for (size_t c = 0; c < C; c++)
            d_table.f64[(size_t)tokens[row] * C + c] += d_output.f64[row * C + c];
    assert_tensor(&d_table, 2e-6);
    tensor_free(&table);
    tensor_free(&output);
    tensor_free(&d_output);
    tensor_free(&d_table);
    free(tokens);
}

static void test_tokens_alone(void **state)
{
    (void)state;
    backend_each(check_tokens_alone);
}

static void test_embedding(void **state)
{
    (void)state;
    backend_each(check_embedding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_embedding),
                                       cmocka_unit_test(test_tokens_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
