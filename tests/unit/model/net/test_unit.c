/* Specs and units: bounds, names and shapes as Hugging Face's, initialization, costs. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/net/unit.h"

static const struct model_spec small = {.family = MODEL_GPT2,
                                        .layers = 2,
                                        .width = 12,
                                        .heads = 3,
                                        .context = 5,
                                        .vocab = 7,
                                        .tied = true};

static const struct model_spec gpt2 = {.family = MODEL_GPT2,
                                       .layers = 12,
                                       .width = 768,
                                       .heads = 12,
                                       .context = 1024,
                                       .vocab = 50257,
                                       .tied = true};

static void expect_bad_spec(struct model_spec spec, const char *key)
{
    struct error error = {0};
    assert_int_equal(model_spec_check(&spec, &error), -EINVAL);
    assert_non_null(strstr(error.text, key));
}

static void test_spec_bounds(void **state)
{
    (void)state;
    struct model_spec spec = small;
    struct error error = {0};
    assert_int_equal(model_spec_check(&small, &error), 0);
    assert_int_equal(model_spec_check(&gpt2, &error), 0);

    spec.layers = 0;
    expect_bad_spec(spec, "model.layers");
    spec.layers = MODEL_LAYERS_MAX + 1;
    expect_bad_spec(spec, "model.layers");
    spec = small;
    spec.width = 0;
    expect_bad_spec(spec, "model.width");
    spec.width = MODEL_WIDTH_MAX + 1;
    expect_bad_spec(spec, "model.width");
    spec = small;
    spec.heads = 0;
    expect_bad_spec(spec, "model.heads");
    spec.heads = 5; /* does not divide 12 */
    expect_bad_spec(spec, "model.heads");
    spec = small;
    spec.context = 0;
    expect_bad_spec(spec, "model.context");
    spec.context = MODEL_CONTEXT_MAX + 1;
    expect_bad_spec(spec, "model.context");
    spec = small;
    spec.vocab = 1;
    expect_bad_spec(spec, "model.vocab");
    spec.vocab = MODEL_VOCAB_MAX + 1;
    expect_bad_spec(spec, "model.vocab");
    spec = small;
    spec.family = (enum model_family)9;
    expect_bad_spec(spec, "model.family");
}

struct expected {
    unsigned unit;
    const char *name;
    unsigned rank;
    size_t rows, columns;
    bool decay;
};

static const struct expected expected_tensors[] = {
    {0, "transformer.wte.weight", 2, 7, 12, true},
    {0, "transformer.wpe.weight", 2, 5, 12, true},
    {1, "transformer.h.0.ln_1.weight", 1, 12, 0, false},
    {1, "transformer.h.0.ln_1.bias", 1, 12, 0, false},
    {1, "transformer.h.0.attn.c_attn.weight", 2, 12, 36, true},
    {1, "transformer.h.0.attn.c_attn.bias", 1, 36, 0, false},
    {1, "transformer.h.0.attn.c_proj.weight", 2, 12, 12, true},
    {1, "transformer.h.0.attn.c_proj.bias", 1, 12, 0, false},
    {4, "transformer.h.1.ln_2.weight", 1, 12, 0, false},
    {4, "transformer.h.1.ln_2.bias", 1, 12, 0, false},
    {4, "transformer.h.1.mlp.c_fc.weight", 2, 12, 48, true},
    {4, "transformer.h.1.mlp.c_fc.bias", 1, 48, 0, false},
    {4, "transformer.h.1.mlp.c_proj.weight", 2, 48, 12, true},
    {4, "transformer.h.1.mlp.c_proj.bias", 1, 12, 0, false},
    {5, "transformer.ln_f.weight", 1, 12, 0, false},
    {5, "transformer.ln_f.bias", 1, 12, 0, false},
    {5, "lm_head.weight", 2, 7, 12, true},
};

static void test_layout_names_and_shapes(void **state)
{
    (void)state;
    struct unit_layout layout;
    unsigned last_unit = UINT32_MAX, index = 0;

    assert_int_equal(model_unit_count(&small), 6);
    for (size_t i = 0; i < ARRAY_COUNT(expected_tensors); i++) {
        const struct expected *expected = &expected_tensors[i];
        index = expected->unit == last_unit ? index + 1 : 0;
        last_unit = expected->unit;
        model_unit_layout(&small, expected->unit, &layout);
        const struct unit_tensor *tensor = &layout.tensors[index];
        assert_string_equal(tensor->name, expected->name);
        assert_int_equal(tensor->rank, expected->rank);
        assert_int_equal(tensor->shape[0], expected->rows);
        assert_int_equal(tensor->shape[1], expected->columns);
        assert_int_equal(tensor->decay, expected->decay);
        assert_int_equal(tensor->mirror, strcmp(tensor->name, "lm_head.weight") == 0);
    }
}

static void test_layout_kinds_and_offsets(void **state)
{
    (void)state;
    const enum unit_kind kinds[] = {UNIT_EMBEDDING, UNIT_ATTENTION, UNIT_MLP,
                                    UNIT_ATTENTION, UNIT_MLP,       UNIT_HEAD};
    struct unit_layout layout;

    for (unsigned unit = 0; unit < 6; unit++) {
        size_t offset = 0;
        model_unit_layout(&small, unit, &layout);
        assert_int_equal(layout.kind, kinds[unit]);
        if (layout.kind == UNIT_ATTENTION || layout.kind == UNIT_MLP)
            assert_int_equal(layout.layer, (unit - 1) / 2);
        for (unsigned i = 0; i < layout.tensor_count; i++) {
            assert_int_equal(layout.tensors[i].offset, offset);
            offset += (layout.tensors[i].count + 15) / 16 * 16;
        }
        assert_int_equal(layout.count, offset);
    }
}

static void test_gpt2_has_its_parameters(void **state)
{
    (void)state;
    size_t count = 0;
    struct unit_layout layout;

    for (unsigned unit = 0; unit < model_unit_count(&gpt2); unit++) {
        model_unit_layout(&gpt2, unit, &layout);
        for (unsigned i = 0; i < layout.tensor_count; i++)
            count += layout.tensors[i].mirror ? 0 : layout.tensors[i].count;
    }
    assert_int_equal(count, 124439808);
}

static void test_untied_head_is_no_mirror(void **state)
{
    (void)state;
    struct model_spec spec = small;
    struct unit_layout layout;

    spec.tied = false;
    model_unit_layout(&spec, 5, &layout);
    assert_string_equal(layout.tensors[2].name, "lm_head.weight");
    assert_false(layout.tensors[2].mirror);
}

static void test_frozen_units(void **state)
{
    (void)state;
    assert_int_equal(model_frozen_units(&small, 0), 0);
    assert_int_equal(model_frozen_units(&small, 1), 3); /* embedding, attention, MLP */
    assert_int_equal(model_frozen_units(&small, 2), 5); /* all but the head */
}

static float *initialized(const struct model_spec *spec, unsigned unit, uint64_t seed)
{
    struct unit_layout layout;
    model_unit_layout(spec, unit, &layout);
    float *values = malloc(layout.count * sizeof(float));
    assert_non_null(values);
    memset(values, 0xff, layout.count * sizeof(float)); /* NaN where nothing is written */
    model_unit_initialize(spec, unit, seed, 1, values);
    return values;
}

static void test_the_number_of_threads_changes_nothing(void **state)
{
    (void)state;
    struct model_spec spec = small;
    struct unit_layout layout;
    spec.vocab = 7001; /* large enough to be shared, and not a multiple of anything */
    model_unit_layout(&spec, 0, &layout);
    float *alone = initialized(&spec, 0, 9);
    for (unsigned threads = 2; threads <= 70; threads += 17) {
        float *shared = malloc(layout.count * sizeof(float));
        assert_non_null(shared);
        model_unit_initialize(&spec, 0, 9, threads, shared);
        assert_memory_equal(shared, alone, layout.count * sizeof(float));
        free(shared);
    }
    free(alone);
}

static void measure(const float *values, size_t count, double *ret_mean, double *ret_deviation)
{
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i];
    for (size_t i = 0; i < count; i++)
        squares +=
            ((double)values[i] - sum / (double)count) * ((double)values[i] - sum / (double)count);
    *ret_mean = sum / (double)count;
    *ret_deviation = sqrt(squares / (double)count);
}

/* Check for GPT-2's initial distribution of a tensor, by its name. */
static void expect_distribution(const struct unit_tensor *tensor, const float *values,
                                unsigned layers)
{
    double mean, deviation, want = 0.02;
    bool residual = strstr(tensor->name, "c_proj");

    measure(values, tensor->count, &mean, &deviation);
    if (tensor->rank == 1) {
        bool norm_weight = strstr(tensor->name, "ln_") && strstr(tensor->name, ".weight");
        assert_true(mean == (norm_weight ? 1.0 : 0.0) && deviation == 0.0);
        return;
    }
    if (residual)
        want /= sqrt(2.0 * layers);
    if (strstr(tensor->name, "wpe"))
        want = 0.01;
    assert_true(fabs(mean) < want * 0.1);
    assert_true(fabs(deviation / want - 1.0) < 0.1);
}

static void test_initialization(void **state)
{
    (void)state;
    const struct model_spec spec = {
        .layers = 3, .width = 60, .heads = 2, .context = 31, .vocab = 67};
    struct unit_layout layout;

    for (unsigned unit = 0; unit < model_unit_count(&spec); unit++) {
        float *values = initialized(&spec, unit, 42);
        model_unit_layout(&spec, unit, &layout);
        for (unsigned i = 0; i < layout.tensor_count; i++) {
            const struct unit_tensor *tensor = &layout.tensors[i];
            size_t end = i + 1 < layout.tensor_count ? layout.tensors[i + 1].offset : layout.count;
            expect_distribution(tensor, values + tensor->offset, spec.layers);
            for (size_t k = tensor->offset + tensor->count; k < end; k++)
                assert_true(values[k] == 0.0f && !signbit(values[k]));
        }
        free(values);
    }
}

static bool same_values(const struct model_spec *spec, unsigned a, uint64_t seed_a, unsigned b,
                        uint64_t seed_b)
{
    struct unit_layout layout;
    model_unit_layout(spec, a, &layout);
    float *left = initialized(spec, a, seed_a), *right = initialized(spec, b, seed_b);
    bool same = memcmp(left, right, layout.count * sizeof(float)) == 0;
    free(left);
    free(right);
    return same;
}

static void test_initialization_is_keyed(void **state)
{
    (void)state;
    for (unsigned unit = 0; unit < 6; unit++) {
        assert_true(same_values(&small, unit, 1, unit, 1));
        assert_false(same_values(&small, unit, 1, unit, 2));
    }
    assert_false(same_values(&small, 1, 1, 3, 1)); /* the same shapes in two layers */
    assert_false(same_values(&small, 2, 1, 4, 1));
}

static void test_mirror_starts_equal(void **state)
{
    (void)state;
    struct model_spec spec = small;
    struct unit_layout layout;

    for (unsigned tied = 0; tied < 2; tied++) {
        spec.tied = tied == 1;
        model_unit_layout(&spec, 5, &layout);
        float *embedding = initialized(&spec, 0, 9), *head = initialized(&spec, 5, 9);
        bool equal = memcmp(embedding, head + layout.tensors[2].offset,
                            layout.tensors[2].count * sizeof(float)) == 0;
        assert_int_equal(equal, spec.tied);
        free(embedding);
        free(head);
    }
}

static void test_costs(void **state)
{
    (void)state;
    struct unit_layout layout;
    struct unit_cost one, two;

    for (unsigned unit = 0; unit < model_unit_count(&gpt2); unit++) {
        model_unit_layout(&gpt2, unit, &layout);
        model_unit_cost(&gpt2, unit, 1, &one);
        model_unit_cost(&gpt2, unit, 2, &two);
        assert_int_equal(one.parameter_bytes, layout.count * 4);
        assert_int_equal(two.activation_bytes, 2 * one.activation_bytes);
        assert_int_equal(one.boundary_bytes, layout.kind == UNIT_HEAD ? 0 : 1024 * 768 * 4);
        assert_true(one.forward_flops > 0.0 && one.backward_flops > one.forward_flops);
        assert_true(two.forward_flops == 2.0 * one.forward_flops);
    }
    model_unit_cost(&gpt2, 2, 1, &one); /* two products of (1024,768) with (768,3072) */
    assert_true(one.forward_flops == 2.0 * 2.0 * 1024 * 768 * 3072);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_bounds),
        cmocka_unit_test(test_layout_names_and_shapes),
        cmocka_unit_test(test_layout_kinds_and_offsets),
        cmocka_unit_test(test_gpt2_has_its_parameters),
        cmocka_unit_test(test_untied_head_is_no_mirror),
        cmocka_unit_test(test_frozen_units),
        cmocka_unit_test(test_the_number_of_threads_changes_nothing),
        cmocka_unit_test(test_initialization),
        cmocka_unit_test(test_initialization_is_keyed),
        cmocka_unit_test(test_mirror_starts_equal),
        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
