/* The llama family: bounds, names and shapes as Hugging Face's, the product layout, costs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/net/unit.h"

static const struct model_spec small = {.family = MODEL_LLAMA,
                                        .layers = 2,
                                        .width = 16,
                                        .heads = 3,
                                        .context = 5,
                                        .vocab = 7,
                                        .tied = true,
                                        .kv_heads = 1,
                                        .head_width = 6,
                                        .hidden = 9,
                                        .rope_theta = 10000,
                                        .norm_epsilon = 1e-5};

/* Llama 3.2 with one billion parameters. */
static const struct model_spec llama_1b = {.family = MODEL_LLAMA,
                                           .layers = 16,
                                           .width = 2048,
                                           .heads = 32,
                                           .context = 1024,
                                           .vocab = 128256,
                                           .tied = true,
                                           .kv_heads = 8,
                                           .head_width = 64,
                                           .hidden = 8192,
                                           .rope_theta = 500000,
                                           .norm_epsilon = 1e-5};

static void expect_bad(struct model_spec spec, const char *key)
{
    struct error error = {0};
    assert_int_equal(model_spec_check(&spec, &error), -EINVAL);
    assert_non_null(strstr(error.text, key));
}

#define EXPECT_BAD(field, value)                                                                   \
    do {                                                                                           \
        struct model_spec changed = small;                                                         \
        changed.field = value;                                                                     \
        expect_bad(changed, "model." #field);                                                      \
    } while (0)

static void test_spec_bounds(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(model_spec_check(&small, &error), 0);
    assert_int_equal(model_spec_check(&llama_1b, &error), 0);
    EXPECT_BAD(kv_heads, 0);
    EXPECT_BAD(kv_heads, 2);
    EXPECT_BAD(kv_heads, 4);
    EXPECT_BAD(head_width, 0);
    EXPECT_BAD(head_width, 7);
    EXPECT_BAD(head_width, MODEL_WIDTH_MAX / 2);
    EXPECT_BAD(hidden, 0);
    EXPECT_BAD(hidden, MODEL_HIDDEN_MAX + 1);
    EXPECT_BAD(width, 24);
    EXPECT_BAD(rope_theta, 0.5);
    EXPECT_BAD(norm_epsilon, 0);
}

static void expect_bad_scaling(struct model_rope_scaling scaling, const char *key)
{
    struct model_spec changed = small;
    changed.rope_scaling = scaling;
    expect_bad(changed, key);
}

static void test_rope_scaling_bounds(void **state)
{
    (void)state;
    struct error error = {0};
    struct model_spec spec = small;
    spec.rope_scaling = (struct model_rope_scaling){MODEL_ROPE_LLAMA3, 32, 1, 4, 8192};
    assert_int_equal(model_spec_check(&spec, &error), 0);
    spec.rope_scaling = (struct model_rope_scaling){.type = MODEL_ROPE_LINEAR, .factor = 2};
    assert_int_equal(model_spec_check(&spec, &error), 0);
    expect_bad_scaling((struct model_rope_scaling){MODEL_ROPE_LLAMA3, 0.5, 1, 4, 8192}, "factor");
    expect_bad_scaling((struct model_rope_scaling){MODEL_ROPE_LLAMA3, 32, 4, 4, 8192},
                       "high_frequency_factor");
    expect_bad_scaling((struct model_rope_scaling){MODEL_ROPE_LLAMA3, 32, 0, 4, 8192},
                       "high_frequency_factor");
    expect_bad_scaling((struct model_rope_scaling){MODEL_ROPE_LLAMA3, 32, 1, 4, 0},
                       "original_context");
}

static void test_family_names(void **state)
{
    (void)state;
    enum model_family family;
    struct error error = {0};
    assert_int_equal(model_family_named("llama", &family, &error), 0);
    assert_int_equal(family, MODEL_LLAMA);
    assert_int_equal(model_family_named("gpt2", &family, &error), 0);
    assert_int_equal(family, MODEL_GPT2);
    assert_int_equal(model_family_named("bert", &family, &error), -EINVAL);
    assert_non_null(strstr(error.text, "bert"));
}

struct expected {
    unsigned unit;
    const char *name;
    enum unit_part part;
    size_t rows, columns;
};

static const struct expected expected_tensors[] = {
    {0, "model.embed_tokens.weight", UNIT_TOKENS, 7, 16},
    {1, "model.layers.0.input_layernorm.weight", UNIT_NORM_WEIGHT, 16, 0},
    {1, "model.layers.0.self_attn.q_proj.weight", UNIT_IN_WEIGHT, 18, 16},
    {1, "model.layers.0.self_attn.k_proj.weight", UNIT_IN_WEIGHT, 6, 16},
    {1, "model.layers.0.self_attn.v_proj.weight", UNIT_IN_WEIGHT, 6, 16},
    {1, "model.layers.0.self_attn.o_proj.weight", UNIT_OUT_WEIGHT, 16, 18},
    {4, "model.layers.1.post_attention_layernorm.weight", UNIT_NORM_WEIGHT, 16, 0},
    {4, "model.layers.1.mlp.gate_proj.weight", UNIT_IN_WEIGHT, 9, 16},
    {4, "model.layers.1.mlp.up_proj.weight", UNIT_IN_WEIGHT, 9, 16},
    {4, "model.layers.1.mlp.down_proj.weight", UNIT_OUT_WEIGHT, 16, 9},
    {5, "model.norm.weight", UNIT_NORM_WEIGHT, 16, 0},
    {5, "lm_head.weight", UNIT_TABLE, 7, 16},
};

static void test_layout_names_and_shapes(void **state)
{
    (void)state;
    struct unit_layout layout;
    unsigned last_unit = UINT32_MAX, index = 0;

    for (size_t i = 0; i < ARRAY_COUNT(expected_tensors); i++) {
        const struct expected *expected = &expected_tensors[i];
        index = expected->unit == last_unit ? index + 1 : 0;
        last_unit = expected->unit;
        model_unit_layout(&small, expected->unit, &layout);
        const struct unit_tensor *tensor = &layout.tensors[index];
        assert_string_equal(tensor->name, expected->name);
        assert_int_equal(tensor->part, expected->part);
        assert_int_equal(tensor->shape[0], expected->rows);
        assert_int_equal(tensor->shape[1], expected->columns);
        assert_int_equal(tensor->decay, expected->columns > 0);
        assert_int_equal(tensor->mirror, expected->part == UNIT_TABLE);
    }
}

/* Without padding between them, so that they are one product. */
static void test_tensors_of_a_part_are_one_matrix(void **state)
{
    (void)state;
    struct unit_layout layout;

    for (unsigned unit = 1; unit <= 2; unit++) {
        model_unit_layout(&small, unit, &layout);
        for (unsigned i = 1; i < layout.tensor_count; i++) {
            const struct unit_tensor *below = &layout.tensors[i - 1], *tensor = &layout.tensors[i];
            if (below->part == tensor->part)
                assert_int_equal(tensor->offset, below->offset + below->count);
        }
        const struct unit_tensor *in = model_unit_part(&layout, UNIT_IN_WEIGHT);
        const struct unit_tensor *out = model_unit_part(&layout, UNIT_OUT_WEIGHT);
        assert_int_equal(out->offset - in->offset,
                         model_unit_widths(&small, layout.kind).wide * small.width);
        assert_int_equal(out->shape[1], model_unit_widths(&small, layout.kind).mixed);
        assert_null(model_unit_part(&layout, UNIT_IN_BIAS));
    }
}

/* A Qwen2's: one vector over q|k|v, without decay, zero at the beginning. */
static void test_biases_of_queries_keys_and_values(void **state)
{
    static const char *const names[] = {"q_proj", "k_proj", "v_proj"};
    struct error error = {0};
    struct model_spec spec = small;
    struct unit_layout layout;
    float values[4096];
    size_t count = 0;

    (void)state;
    spec.qkv_bias = true;
    assert_int_equal(model_spec_check(&spec, &error), -EINVAL); /* 6 columns of keys */
    assert_non_null(strstr(error.text, "model.qkv_bias"));
    spec.head_width = 16;
    assert_int_equal(model_spec_check(&spec, &error), 0);
    model_unit_layout(&spec, 3, &layout);
    assert_true(layout.count <= ARRAY_COUNT(values));
    model_unit_initialize(&spec, 3, 42, 1, values);
    const struct unit_tensor *bias = model_unit_part(&layout, UNIT_IN_BIAS);
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        char name[TENSOR_NAME_SIZE];
        snprintf(name, sizeof(name), "model.layers.1.self_attn.%s.bias", names[i]);
        assert_string_equal(bias[i].name, name);
        assert_int_equal(bias[i].part, UNIT_IN_BIAS);
        assert_int_equal(bias[i].offset, bias[0].offset + count);
        assert_false(bias[i].decay);
        count += bias[i].count;
    }
    assert_int_equal(count, model_unit_widths(&spec, UNIT_ATTENTION).wide);
    for (size_t i = 0; i < count; i++)
        assert_true(values[bias[0].offset + i] == 0.0f);
    assert_null(model_unit_part(&layout, UNIT_OUT_BIAS));
}

/* A Qwen3's: a vector for all heads of queries and one for those of keys, ones at the beginning. */
static void test_norms_of_heads(void **state)
{
    struct error error = {0};
    struct model_spec spec = small;
    struct unit_layout layout;
    float values[4096];

    (void)state;
    spec.qk_norm = true;
    assert_int_equal(model_spec_check(&spec, &error), 0);
    model_unit_layout(&spec, 3, &layout);
    assert_true(layout.count <= ARRAY_COUNT(values));
    model_unit_initialize(&spec, 3, 42, 1, values);
    const struct unit_tensor *q = model_unit_part(&layout, UNIT_Q_NORM);
    const struct unit_tensor *k = model_unit_part(&layout, UNIT_K_NORM);
    assert_string_equal(q->name, "model.layers.1.self_attn.q_norm.weight");
    assert_string_equal(k->name, "model.layers.1.self_attn.k_norm.weight");
    assert_int_equal(q->count, spec.head_width);
    assert_int_equal(k->count, spec.head_width);
    assert_false(q->decay || k->decay);
    for (size_t i = 0; i < spec.head_width; i++)
        assert_true(values[q->offset + i] == 1.0f && values[k->offset + i] == 1.0f);
    spec.head_width = 16;
    spec.qkv_bias = true;
    assert_int_equal(model_spec_check(&spec, &error), -EINVAL);
    assert_non_null(strstr(error.text, "model.qk_norm"));
}

static void test_llama_has_its_parameters(void **state)
{
    (void)state;
    size_t count = 0;
    struct unit_layout layout;

    for (unsigned unit = 0; unit < model_unit_count(&llama_1b); unit++) {
        model_unit_layout(&llama_1b, unit, &layout);
        for (unsigned i = 0; i < layout.tensor_count; i++)
            count += layout.tensors[i].mirror ? 0 : layout.tensors[i].count;
    }
    assert_int_equal(count, 1235814400);
}

static void test_initialization(void **state)
{
    (void)state;
    struct unit_layout layout;
    model_unit_layout(&small, 2, &layout);
    float *values = malloc(layout.count * sizeof(float));
    assert_non_null(values);
    model_unit_initialize(&small, 2, 42, 1, values);
    const struct unit_tensor *norm = model_unit_part(&layout, UNIT_NORM_WEIGHT);
    const struct unit_tensor *in = model_unit_part(&layout, UNIT_IN_WEIGHT);
    const struct unit_tensor *out = model_unit_part(&layout, UNIT_OUT_WEIGHT);
    double in_square = 0, out_square = 0;
    for (size_t i = 0; i < norm->count; i++)
        assert_true(values[norm->offset + i] == 1.0f);
    for (size_t i = 0; i < in->count; i++)
        in_square += (double)(values[in->offset + i] * values[in->offset + i]);
    for (size_t i = 0; i < out->count; i++)
        out_square += (double)(values[out->offset + i] * values[out->offset + i]);
    /* the variance that GPT-2 begins with, and half as many times that as there are layers */
    assert_true(in_square / (double)in->count > 0.7 * 0.0004);
    assert_true(in_square / (double)in->count < 1.4 * 0.0004);
    assert_true(out_square / (double)out->count > 0.7 * 0.0001);
    assert_true(out_square / (double)out->count < 1.4 * 0.0001);
    free(values);
}

static void test_costs(void **state)
{
    (void)state;
    struct unit_cost cost;

    model_unit_cost(&llama_1b, 2, 1, &cost); /* gate and up, then down */
    assert_true(cost.forward_flops == 3.0 * 2.0 * 1024 * 2048 * 8192);
    model_unit_cost(&llama_1b, 1, 1, &cost); /* q|k|v, causal attention, projection */
    assert_true(cost.forward_flops == 2.0 * 1024 * 2048 * (3072 + 2048) + 2.0 * 1024 * 1024 * 2048);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_bounds),
        cmocka_unit_test(test_rope_scaling_bounds),
        cmocka_unit_test(test_family_names),
        cmocka_unit_test(test_layout_names_and_shapes),
        cmocka_unit_test(test_tensors_of_a_part_are_one_matrix),
        cmocka_unit_test(test_biases_of_queries_keys_and_values),
        cmocka_unit_test(test_norms_of_heads),
        cmocka_unit_test(test_llama_has_its_parameters),
        cmocka_unit_test(test_initialization),
        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
