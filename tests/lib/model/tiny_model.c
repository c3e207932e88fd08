#include "lib/model/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/philox.h"

#define TINY_THREADS   2
#define TINY_DEVIATION 0.25f
#define TINY_LLAMA_SIZES                                                                           \
    .family = MODEL_LLAMA, .layers = 2, .width = 32, .heads = 4, .context = TINY_CONTEXT,          \
    .vocab = TINY_VOCAB, .tied = true, .kv_heads = 2, .rope_theta = 1000.0, .norm_epsilon = 1e-3,  \
    .hidden = 51           /* odd: rows of the MLP are aligned to nothing */
#define TINY_HEAD_WIDTH 10 /* heads are wider together than the residual stream */

static const struct model_spec tiny_specs[] = {
    [TINY_GPT2] = {.family = MODEL_GPT2,
                   .layers = 2,
                   .width = 36, /* no multiple of 16: vectors have padding */
                   .heads = 4,
                   .context = TINY_CONTEXT,
                   .vocab = TINY_VOCAB,
                   .tied = true},
    [TINY_LLAMA] = {TINY_LLAMA_SIZES, .head_width = TINY_HEAD_WIDTH},
    /* One of five waves stays, two are between, two become long. */
    [TINY_LLAMA3] = {TINY_LLAMA_SIZES, .head_width = TINY_HEAD_WIDTH,
                     .rope_scaling = {.type = MODEL_ROPE_LLAMA3,
                                      .factor = 8.0,
                                      .low_frequency_factor = 0.5,
                                      .high_frequency_factor = 4.0,
                                      .original_context = 64}},
    [TINY_LINEAR] = {TINY_LLAMA_SIZES, .head_width = TINY_HEAD_WIDTH,
                     .rope_scaling = {.type = MODEL_ROPE_LINEAR, .factor = 3.0}},
    [TINY_QWEN2] = {TINY_LLAMA_SIZES, .head_width = 8, .qkv_bias = true},
    [TINY_QWEN3] = {TINY_LLAMA_SIZES, .head_width = TINY_HEAD_WIDTH, .qk_norm = true},
};

static void tiny_fill_parameters(struct tiny_model *tiny, unsigned unit)
{
    const struct unit_layout *layout = &tiny->layouts[unit];
    float *values = calloc(layout->count, sizeof(float));
    assert_non_null(values);
    for (unsigned i = 0; i < layout->tensor_count; i++) {
        const struct unit_tensor *tensor = &layout->tensors[i];
        bool norm_weight = model_part_is_norm(tensor->part);
        philox_fill_normal(philox_key_make(5, TINY_STREAM), unit * 16 + i,
                           norm_weight ? 1.0f : 0.0f, TINY_DEVIATION, values + tensor->offset,
                           tensor->count);
    }
    tiny->host_parameters[unit] = values;
}

static void tiny_fill_tokens(struct tiny_model *tiny)
{
    uint32_t words[4];
    for (unsigned m = 0; m < TINY_MICROS; m++) {
        for (unsigned i = 0; i < TINY_ROWS; i++) {
            philox_block(philox_key_make(6, TINY_STREAM), m, i, words);
            tiny->tokens[m][i] = (int32_t)(words[0] % TINY_VOCAB);
            tiny->targets[m][i] = (int32_t)(words[1] % TINY_VOCAB);
        }
    }
}

static void tiny_make_weights(struct tiny_model *tiny, unsigned unit)
{
    size_t count = tiny->layouts[unit].count;
    tiny->weights[unit] = tiny->parameters[unit];
    if (tiny->kernel->activation_size == sizeof(float))
        return;
    assert_int_equal(tiny->kernel->allocate(tiny->device, count * tiny->kernel->activation_size,
                                            &tiny->weights[unit]),
                     0);
    tiny->kernel->weights(tiny->device, tiny->weights[unit], tiny->parameters[unit], count);
}

void tiny_open_on(struct tiny_model *tiny, const struct model_spec *spec,
                  const struct kernel *kernel)
{
    const struct kernel_options options = {.thread_count = TINY_THREADS};
    struct error error = {0};

    memset(tiny, 0, sizeof(*tiny));
    tiny->spec = spec;
    tiny->kernel = kernel;
    assert_int_equal(tiny->kernel->open(&options, &tiny->device, &error), 0);
    tiny_fill_tokens(tiny);
    for (unsigned unit = 0; unit < TINY_UNITS; unit++) {
        void *parameters, *gradients;
        model_unit_layout(tiny->spec, unit, &tiny->layouts[unit]);
        size_t size_bytes = tiny->layouts[unit].count * sizeof(float);
        tiny_fill_parameters(tiny, unit);
        assert_int_equal(tiny->kernel->allocate(tiny->device, size_bytes, &parameters), 0);
        assert_int_equal(tiny->kernel->allocate(tiny->device, size_bytes, &gradients), 0);
        tiny->kernel->upload(tiny->device, parameters, tiny->host_parameters[unit], size_bytes);
        tiny->parameters[unit] = parameters;
        tiny->gradients[unit] = gradients;
        tiny_make_weights(tiny, unit);
    }
}

void tiny_open(struct tiny_model *tiny, enum tiny_kind kind)
{
    tiny_open_on(tiny, &tiny_specs[kind], kernel_cpu());
}

void tiny_close(struct tiny_model *tiny)
{
    for (unsigned unit = 0; unit < TINY_UNITS; unit++) {
        free(tiny->host_parameters[unit]);
        if (tiny->weights[unit] != tiny->parameters[unit])
            tiny->kernel->release(tiny->device, tiny->weights[unit]);
        tiny->kernel->release(tiny->device, tiny->parameters[unit]);
        tiny->kernel->release(tiny->device, tiny->gradients[unit]);
    }
    tiny->kernel->close(tiny->device);
}

struct stage *tiny_stage(struct tiny_model *tiny, unsigned first_unit, unsigned unit_count,
                         unsigned slots)
{
    const struct stage_options options = {.kernel = tiny->kernel,
                                          .device = tiny->device,
                                          .spec = tiny->spec,
                                          .first_unit = first_unit,
                                          .unit_count = unit_count,
                                          .batch = TINY_BATCH,
                                          .slots = slots};
    struct stage *stage = NULL;
    struct error error = {0};
    if (stage_new(&options, &stage, &error) < 0)
        fail_msg("%s", error.text);
    return stage;
}

void tiny_zero_gradients(struct tiny_model *tiny)
{
    for (unsigned unit = 0; unit < TINY_UNITS; unit++)
        tiny->kernel->zero(tiny->device, tiny->gradients[unit],
                           tiny->layouts[unit].count * sizeof(float));
}

float *tiny_gradient(struct tiny_model *tiny, unsigned unit)
{
    size_t size_bytes = tiny->layouts[unit].count * sizeof(float);
    float *values = malloc(size_bytes);
    struct error error = {0};
    assert_non_null(values);
    tiny->kernel->download(tiny->device, values, tiny->gradients[unit], size_bytes);
    assert_int_equal(tiny->kernel->synchronize(tiny->device, &error), 0);
    return values;
}
