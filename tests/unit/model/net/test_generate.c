/* Generating: which token follows, against logits taken by hand; determinism; every error. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "lib/model/tiny_model.h"
#include "model/net/generate.h"

#define COUNT 24 /* tokens: more than the context holds */

static struct tiny_model tiny;

static int set_up(void **state)
{
    (void)state;
    tiny_open(&tiny, TINY_GPT2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_close(&tiny);
    return 0;
}

struct text {
    int32_t tokens[64];
    size_t count, stop_after; /* 0: never */
};

static bool append(int32_t token, void *context)
{
    struct text *text = context;
    assert_true(text->count < ARRAY_COUNT(text->tokens));
    text->tokens[text->count++] = token;
    return text->count != text->stop_after;
}

static struct generate_options options_of(const int32_t *prompt, size_t prompt_count)
{
    return (struct generate_options){.kernel = tiny.kernel,
                                     .device = tiny.device,
                                     .spec = tiny.spec,
                                     .weights = tiny.weights,
                                     .prompt = prompt,
                                     .prompt_count = prompt_count,
                                     .count = COUNT};
}

static struct text generated(const struct generate_options *options)
{
    struct text text = {0};
    struct error error = {0};
    if (generate(options, append, &text, &error) < 0)
        fail_msg("%s", error.text);
    return text;
}

/* The logits behind the last of @count tokens, by a stage of our own. */
static void logits_behind(const int32_t *tokens, size_t count, float *ret_logits)
{
    static float logits[TINY_ROWS * TINY_VOCAB];
    int32_t window[TINY_ROWS] = {0};
    size_t used = MIN(count, (size_t)TINY_CONTEXT);
    struct stage *stage = tiny_stage(&tiny, 0, TINY_UNITS, 1);

    memcpy(window, tokens + count - used, used * sizeof(window[0]));
    stage_forward(stage, 0, tiny.weights, window, NULL, false, 0.0f);
    stage_logits(stage, 0, logits);
    memcpy(ret_logits, logits + (used - 1) * TINY_VOCAB, TINY_VOCAB * sizeof(float));
    stage_free(stage);
}

/* How many tokens are likelier than @token. */
static unsigned rank_of(const float *logits, int32_t token)
{
    unsigned rank = 0;
    for (unsigned v = 0; v < TINY_VOCAB; v++)
        rank += logits[v] > logits[token];
    return rank;
}

static void test_coldest_takes_the_likeliest(void **state)
{
    (void)state;
    int32_t tokens[3 + COUNT] = {5, 17, 60};
    float logits[TINY_VOCAB];
    struct generate_options options = options_of(tokens, 3);
    struct text text = generated(&options);

    assert_int_equal(text.count, COUNT);
    for (size_t i = 0; i < COUNT; i++) { /* past the context too: the window slides */
        logits_behind(tokens, 3 + i, logits);
        assert_int_equal(rank_of(logits, text.tokens[i]), 0);
        tokens[3 + i] = text.tokens[i];
    }
}

static void test_only_the_window_counts(void **state)
{
    (void)state;
    int32_t prompt[40];
    for (unsigned i = 0; i < ARRAY_COUNT(prompt); i++)
        prompt[i] = (int32_t)(i * 7 % TINY_VOCAB);
    struct generate_options options = options_of(prompt, ARRAY_COUNT(prompt));
    struct text whole = generated(&options);
    options = options_of(prompt + 40 - TINY_CONTEXT, TINY_CONTEXT);
    struct text tail = generated(&options);
    assert_memory_equal(whole.tokens, tail.tokens, sizeof(whole.tokens));
}

static void test_a_seed_gives_one_text(void **state)
{
    (void)state;
    const int32_t prompt[] = {1};
    struct generate_options options = options_of(prompt, 1);
    options.temperature = 1.0;
    options.seed = 3;
    struct text first = generated(&options), again = generated(&options);
    options.seed = 4;
    struct text other = generated(&options);
    assert_memory_equal(first.tokens, again.tokens, sizeof(first.tokens));
    assert_memory_not_equal(first.tokens, other.tokens, sizeof(first.tokens));
}

static void test_top_k_bounds_the_choice(void **state)
{
    (void)state;
    int32_t tokens[1 + COUNT] = {9};
    float logits[TINY_VOCAB];
    unsigned ranks_seen = 0;
    struct generate_options options = options_of(tokens, 1);
    options.temperature = 100.0; /* nearly uniform: every rank below k comes up */
    options.top_k = 3;
    struct text text = generated(&options);

    for (size_t i = 0; i < COUNT; i++) {
        logits_behind(tokens, 1 + i, logits);
        unsigned rank = rank_of(logits, text.tokens[i]);
        assert_true(rank < 3);
        ranks_seen |= 1u << rank;
        tokens[1 + i] = text.tokens[i];
    }
    assert_int_equal(ranks_seen, 7);

    options.top_k = 1;
    struct text narrow = generated(&options);
    options.temperature = 0.0;
    options.top_k = 0;
    struct text coldest = generated(&options);
    assert_memory_equal(narrow.tokens, coldest.tokens, sizeof(narrow.tokens));
}

/* Draws at a temperature follow softmax(logits / temperature): chi-square over the 8 likeliest. */
static void test_draws_follow_the_prediction(void **state)
{
    (void)state;
    const unsigned draws = 2000;
    const int32_t prompt[] = {30, 2};
    unsigned counts[TINY_VOCAB] = {0};
    float logits[TINY_VOCAB];
    double sum = 0.0, chi_square = 0.0;
    struct generate_options options = options_of(prompt, 2);

    options.temperature = 0.7;
    options.top_k = 8;
    options.count = 1;
    for (options.seed = 0; options.seed < draws; options.seed++)
        counts[generated(&options).tokens[0]]++;
    logits_behind(prompt, 2, logits);
    for (int32_t v = 0; v < TINY_VOCAB; v++)
        if (rank_of(logits, v) < 8)
            sum += exp((double)logits[v] / 0.7);
    for (int32_t v = 0; v < TINY_VOCAB; v++) {
        double want = (double)draws * exp((double)logits[v] / 0.7) / sum;
        if (rank_of(logits, v) < 8)
            chi_square += (counts[v] - want) * (counts[v] - want) / want;
        else
            assert_int_equal(counts[v], 0);
    }
    assert_true(chi_square < 24.3); /* 7 degrees of freedom, p = 0.001; the seeds are fixed */
}

static void test_the_callback_stops(void **state)
{
    (void)state;
    const int32_t prompt[] = {1};
    struct generate_options options = options_of(prompt, 1);
    struct text text = {.stop_after = 5};
    struct error error = {0};
    assert_int_equal(generate(&options, append, &text, &error), 0);
    assert_int_equal(text.count, 5);
}

static void expect_failure(const struct generate_options *options, int code)
{
    struct text text = {0};
    struct error error = {0};
    assert_int_equal(generate(options, append, &text, &error), code);
    assert_int_equal(text.count, 0);
    assert_true(error.text[0] != '\0');
}

static void test_errors(void **state)
{
    (void)state;
    int32_t prompt[] = {1, 2};
    struct generate_options options = options_of(prompt, 0);
    expect_failure(&options, -EINVAL);
    options = options_of(prompt, 2);
    prompt[1] = TINY_VOCAB;
    expect_failure(&options, -EINVAL);
    prompt[1] = -1;
    expect_failure(&options, -EINVAL);
    prompt[1] = 2;
    options.temperature = -1.0;
    expect_failure(&options, -EINVAL);
    options.temperature = (double)NAN;
    expect_failure(&options, -EINVAL);
    options.temperature = (double)INFINITY;
    expect_failure(&options, -EINVAL);
}

static void test_damaged_parameters(void **state)
{
    (void)state;
    const int32_t prompt[] = {1};
    const float damage = NAN;
    struct generate_options options = options_of(prompt, 1);
    tiny.kernel->upload(tiny.device, tiny.parameters[1], &damage, sizeof(damage));
    expect_failure(&options, -EDOM);
    tiny.kernel->upload(tiny.device, tiny.parameters[1], tiny.host_parameters[1], sizeof(damage));
    generated(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coldest_takes_the_likeliest),
        cmocka_unit_test(test_only_the_window_counts),
        cmocka_unit_test(test_a_seed_gives_one_text),
        cmocka_unit_test(test_top_k_bounds_the_choice),
        cmocka_unit_test(test_draws_follow_the_prediction),
        cmocka_unit_test(test_the_callback_stops),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_damaged_parameters),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
