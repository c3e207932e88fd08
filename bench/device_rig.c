#include "bench/lib/device_rig.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "model/net/rotary.h"

#define DESCRIPTION_SIZE 16384
#define FRESH_ERROR_MAX  0.05 /* of the mean square of drawn numbers, in bf16 */

void device_rig_stop(const char *what)
{
    fprintf(stderr, "bench-device: %s\n", what);
    exit(1);
}

void device_rig_describe(const struct device_rig *rig)
{
    static char text[DESCRIPTION_SIZE];

    rig->kernel->describe(rig->device, text, sizeof(text));
    printf("%s", text);
}

void device_rig_wait(const struct device_rig *rig)
{
    struct error error = {0};
    if (rig->kernel->synchronize(rig->device, &error) == 0)
        return;
    device_rig_describe(rig);
    device_rig_stop(error.text);
}

void *device_rig_memory(const struct device_rig *rig, size_t size_bytes)
{
    void *result = NULL;
    if (rig->kernel->allocate(rig->device, size_bytes, &result) < 0)
        device_rig_stop("no memory on the device: make the model or the batch smaller");
    return result;
}

/* ---- buffers ---- */

/* Round up to a multiple of the drawn numbers, so that every element is filled. */
static size_t whole_draws(size_t count)
{
    return (count + DEVICE_RIG_DRAWN - 1) / DEVICE_RIG_DRAWN * DEVICE_RIG_DRAWN;
}

static size_t head_width(const struct device_rig *rig)
{
    return rig->spec.width / rig->spec.heads;
}

static void make_drawn(struct device_rig *rig)
{
    AUTO_FREE float *values = malloc(DEVICE_RIG_DRAWN * sizeof(*values));

    if (!values)
        device_rig_stop("no memory");
    philox_fill_normal(philox_key_make(1, 1), 0, 0.0f, 1.0f, values, DEVICE_RIG_DRAWN);
    rig->drawn = device_rig_memory(rig, DEVICE_RIG_DRAWN * sizeof(*values));
    rig->kernel->upload(rig->device, rig->drawn, values, DEVICE_RIG_DRAWN * sizeof(*values));
}

static void make_angles(struct device_rig *rig)
{
    struct model_spec spec = rig->spec;
    size_t size_bytes = spec.context * head_width(rig) * sizeof(float);
    AUTO_FREE float *angles = malloc(size_bytes);

    if (!angles)
        device_rig_stop("no memory");
    spec.head_width = (unsigned)head_width(rig);
    spec.rope_theta = 10000.0;
    rotary_angles(&spec, angles);
    rig->angles = device_rig_memory(rig, size_bytes);
    rig->kernel->upload(rig->device, rig->angles, angles, size_bytes);
}

int32_t *device_rig_host_tokens(const struct device_rig *rig)
{
    int32_t *tokens = calloc(rig->rows, sizeof(*tokens));

    if (!tokens)
        device_rig_stop("no memory");
    for (size_t i = 0; i < rig->rows; i++)
        tokens[i] = (int32_t)(i * 7919 % rig->spec.vocab);
    return tokens;
}

static void make_tokens(struct device_rig *rig)
{
    AUTO_FREE int32_t *tokens = device_rig_host_tokens(rig);

    rig->tokens = device_rig_memory(rig, rig->rows * sizeof(*tokens));
    rig->kernel->upload(rig->device, rig->tokens, tokens, rig->rows * sizeof(*tokens));
}

/* Gradients of the product's weight (C,4C) and of the table (V,C) are f32. */
static size_t widest_f32(const struct device_rig *rig)
{
    size_t width = rig->spec.width;
    return MAX(rig->elements, MAX(4 * width, (size_t)rig->spec.vocab) * width);
}

void device_rig_make_buffers(struct device_rig *rig)
{
    size_t width = MAX((size_t)4 * rig->spec.width, model_logits_stride(&rig->spec));
    size_t weight = MAX((size_t)4 * rig->spec.width, (size_t)rig->spec.vocab) * rig->spec.width;

    rig->activation_count =
        whole_draws(MAX(rig->rows * width, MAX(weight, rig->square * rig->square)));
    rig->f32_count = whole_draws(widest_f32(rig));
    size_t size_bytes = rig->activation_count * rig->kernel->activation_size;
    rig->a = device_rig_memory(rig, size_bytes);
    rig->b = device_rig_memory(rig, size_bytes);
    rig->c = device_rig_memory(rig, size_bytes);
    for (unsigned i = 0; i < ARRAY_COUNT(rig->f32); i++)
        rig->f32[i] = device_rig_memory(rig, rig->f32_count * sizeof(float));
    make_drawn(rig);
    make_angles(rig);
    make_tokens(rig);
    device_rig_wait(rig);
}

void device_rig_release_buffers(struct device_rig *rig)
{
    void *const all[] = {rig->a,      rig->b,      rig->c,     rig->f32[0], rig->f32[1],
                         rig->f32[2], rig->f32[3], rig->drawn, rig->angles, rig->tokens};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++)
        rig->kernel->release(rig->device, all[i]);
}

void device_rig_fill(const struct device_rig *rig)
{
    const struct kernel *kernel = rig->kernel;
    void *const activations[] = {rig->a, rig->b, rig->c};
    size_t step_bytes = DEVICE_RIG_DRAWN * kernel->activation_size;

    for (size_t i = 0; i < ARRAY_COUNT(activations); i++)
        for (size_t k = 0; k < rig->activation_count / DEVICE_RIG_DRAWN; k++)
            kernel->weights(rig->device, (char *)activations[i] + k * step_bytes, rig->drawn,
                            DEVICE_RIG_DRAWN);
    for (size_t i = 0; i < ARRAY_COUNT(rig->f32); i++)
        for (size_t k = 0; k < rig->f32_count / DEVICE_RIG_DRAWN; k++)
            kernel->copy(rig->device, rig->f32[i] + k * DEVICE_RIG_DRAWN, rig->drawn,
                         DEVICE_RIG_DRAWN * sizeof(float));
    device_rig_wait(rig);
}

/* Return the mean square of the first elements; not finite if one of them is not. */
static double mean_square(const struct device_rig *rig, const float *values)
{
    const struct kernel_flat_tensor tensor = {values, DEVICE_RIG_DRAWN};
    double sum;

    rig->kernel->norms_squared(rig->device, &tensor, 1, &sum);
    return sum / (double)DEVICE_RIG_DRAWN;
}

static void check_values(const struct device_rig *rig, const float *values, const char *line,
                         bool fresh)
{
    double square = mean_square(rig, values);

    if (isfinite(square) && (!fresh || fabs(square - 1) < FRESH_ERROR_MAX))
        return;
    fprintf(stderr, "bench-device: \"%s\" is measured on %s: mean square %g\n", line,
            fresh ? "old numbers" : "numbers that are not finite", square);
    exit(1);
}

void device_rig_check(const struct device_rig *rig, const char *line, bool fresh)
{
    const void *const activations[] = {rig->a, rig->b, rig->c};
    float *scratch = rig->f32[ARRAY_COUNT(rig->f32) - 1];

    for (size_t i = 0; i < ARRAY_COUNT(rig->f32); i++)
        check_values(rig, rig->f32[i], line, fresh);
    for (size_t i = 0; i < ARRAY_COUNT(activations); i++) {
        rig->kernel->values(rig->device, scratch, activations[i], DEVICE_RIG_DRAWN);
        check_values(rig, scratch, line, fresh);
    }
}
