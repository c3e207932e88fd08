/*
 * elastic/ plans with the sizes of units and may not ask model/, which makes them: both count the
 * same parameters, of both families.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/planner.h"
#include "worker/state.h"

static void compare_units(const struct job_spec *spec)
{
    struct model_spec model;
    struct error error = {0};
    if (state_model(spec, &model, &error))
        fail_msg("%s", error.text);
    assert_int_equal(model_unit_count(&model), job_spec_unit_count(spec));
    for (unsigned unit = 0; unit < model_unit_count(&model); unit++) {
        struct unit_layout layout;
        size_t count = 0;
        model_unit_layout(&model, unit, &layout);
        for (unsigned i = 0; i < layout.tensor_count; i++)
            count += layout.tensors[i].count;
        assert_int_equal(planner_parameter_bytes(spec, unit), count * sizeof(float));
    }
}

static void test_gpt2(void **state)
{
    (void)state;
    struct job_spec spec = {.model = {.family = "gpt2",
                                      .layers = 12,
                                      .width = 768,
                                      .heads = 12,
                                      .context = 1024,
                                      .vocab = 50257,
                                      .tied = true}};
    compare_units(&spec);
    spec.model.tied = false;
    compare_units(&spec);
}

/* The sizes of Llama 3.2 1B. */
static void test_llama(void **state)
{
    (void)state;
    struct job_spec spec = {.model = {.family = "llama",
                                      .layers = 16,
                                      .width = 2048,
                                      .heads = 32,
                                      .kv_heads = 8,
                                      .head_width = 64,
                                      .hidden = 8192,
                                      .context = 2048,
                                      .vocab = 128256,
                                      .tied = true,
                                      .rope_theta = 500000,
                                      .norm_epsilon = 1e-5}};
    compare_units(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
