#include "bench/lib/device_rig.h"

#include <stdio.h>

#include "bench/lib/measure.h"

#define DESCRIPTION_SIZE 16384

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

typedef void (*operation)(const struct device_rig *rig);

/* Return the seconds of one call: the median of five groups of rounds, after one group as warm-up.
 */
static double seconds_of(const struct device_rig *rig, operation run)
{
    struct samples samples = {.count = 0};

    run(rig);
    device_rig_wait(rig);
    for (unsigned group = 0; group < 5; group++) {
        double began = measure_now();
        for (unsigned round = 0; round < rig->rounds; round++)
            run(rig);
        device_rig_wait(rig);
        samples_add(&samples, (measure_now() - began) / rig->rounds);
    }
    return samples_median(&samples);
}

/* ---- the operations, on the shapes of the model ---- */

static struct kernel_linear wide_shape(const struct device_rig *rig)
{
    return (struct kernel_linear){.rows = rig->rows,
                                  .in = rig->spec.width,
                                  .out = 4 * (size_t)rig->spec.width,
                                  .layout = KERNEL_WEIGHT_IN_OUT};
}

static struct kernel_attention attention_shape(const struct device_rig *rig)
{
    return (struct kernel_attention){rig->batch, rig->spec.context, rig->spec.width,
                                     rig->spec.heads, rig->spec.heads};
}

static void run_copy(const struct device_rig *rig)
{
    rig->kernel->copy(rig->device, rig->f32[1], rig->f32[0], rig->elements * sizeof(float));
}

static void run_product(const struct device_rig *rig)
{
    rig->kernel->linear_forward(rig->device, rig->b, rig->a, rig->c, NULL, wide_shape(rig));
}

static void run_layernorm(const struct device_rig *rig)
{
    rig->kernel->layernorm_forward(rig->device, rig->b, rig->f32[0], rig->f32[1], NULL, rig->a,
                                   NULL, rig->c, rig->c, rig->rows, rig->spec.width);
}

static void run_residual(const struct device_rig *rig)
{
    rig->kernel->residual(rig->device, rig->b, rig->a, rig->b, rig->elements);
}

static void run_gelu(const struct device_rig *rig)
{
    rig->kernel->gelu_forward(rig->device, rig->b, rig->a, rig->elements);
}

static void run_classifier(const struct device_rig *rig)
{
    rig->kernel->cross_entropy_fused(rig->device, rig->f32[0], rig->a, rig->tokens, 1.0f, rig->rows,
                                     rig->spec.vocab, model_logits_stride(&rig->spec));
}

static void run_attention(const struct device_rig *rig)
{
    rig->kernel->attention_forward(rig->device, rig->b, rig->f32[0], rig->a, attention_shape(rig));
}

static void run_attention_backward(const struct device_rig *rig)
{
    rig->kernel->attention_backward(rig->device, rig->c, rig->b, rig->b, rig->f32[0], rig->a,
                                    attention_shape(rig));
}

static void run_adamw(const struct device_rig *rig)
{
    const struct kernel_adamw options = {.lr = 1e-4f,
                                         .beta1 = 0.9f,
                                         .beta2 = 0.95f,
                                         .epsilon = 1e-8f,
                                         .gradient_scale = 1,
                                         .step = 1};
    const struct kernel_adamw_tensor tensor = {.parameter = rig->f32[0],
                                               .first_moment = rig->f32[1],
                                               .second_moment = rig->f32[2],
                                               .gradient = rig->f32[3],
                                               .weight = rig->a,
                                               .count = rig->elements};
    rig->kernel->adamw(rig->device, &tensor, 1, &options);
}

static void run_tree_add(const struct device_rig *rig)
{
    rig->kernel->tree_add(rig->device, rig->f32[0], rig->f32[0], rig->f32[1], rig->elements);
}

static void run_norm(const struct device_rig *rig)
{
    const struct kernel_flat_tensor tensor = {rig->f32[0], rig->elements};
    double sum;

    rig->kernel->norms_squared(rig->device, &tensor, 1, &sum);
    if (sum < 0)
        device_rig_stop("a sum of squares is negative");
}

static void run_digest(const struct device_rig *rig)
{
    const struct kernel_flat_tensor tensor = {rig->f32[0], rig->elements};
    uint64_t digest;

    rig->kernel->digests(rig->device, &tensor, 1, &digest);
}

static void run_layernorm_backward(const struct device_rig *rig)
{
    rig->kernel->layernorm_backward(rig->device, rig->b, rig->f32[2], rig->f32[3], rig->a, rig->a,
                                    rig->c, rig->f32[0], rig->f32[1], rig->rows, rig->spec.width);
}

static void run_rmsnorm(const struct device_rig *rig)
{
    rig->kernel->rmsnorm_forward(rig->device, rig->b, rig->f32[0], NULL, rig->a, NULL, rig->c,
                                 1e-5f, rig->rows, rig->spec.width);
}

static void run_rmsnorm_backward(const struct device_rig *rig)
{
    rig->kernel->rmsnorm_backward(rig->device, rig->b, rig->f32[2], rig->a, rig->a, rig->c,
                                  rig->f32[0], rig->rows, rig->spec.width);
}

static void run_gelu_backward(const struct device_rig *rig)
{
    rig->kernel->gelu_backward(rig->device, rig->b, rig->b, rig->a, rig->elements);
}

/* Run SwiGLU on 2C columns: gate and up are as wide as the buffers. */
static void run_swiglu(const struct device_rig *rig)
{
    rig->kernel->swiglu_forward(rig->device, rig->b, rig->a, rig->rows,
                                2 * (size_t)rig->spec.width);
}

static void run_swiglu_backward(const struct device_rig *rig)
{
    rig->kernel->swiglu_backward(rig->device, rig->c, rig->b, rig->a, rig->rows,
                                 2 * (size_t)rig->spec.width);
}

static void run_rotary(const struct device_rig *rig)
{
    rig->kernel->rotary_forward(rig->device, rig->a, rig->f32[0], attention_shape(rig));
}

static void run_headnorm(const struct device_rig *rig)
{
    rig->kernel->headnorm_forward(rig->device, rig->c, rig->f32[0], rig->a, rig->b, rig->b, 1e-5f,
                                  attention_shape(rig));
}

static void run_embedding(const struct device_rig *rig)
{
    rig->kernel->embedding_forward(rig->device, rig->b, rig->tokens, rig->a, rig->c, rig->batch,
                                   rig->spec.context, rig->spec.width);
}

static void run_embedding_backward(const struct device_rig *rig)
{
    rig->kernel->embedding_backward(rig->device, rig->f32[0], rig->f32[1], rig->a, rig->tokens,
                                    rig->batch, rig->spec.context, rig->spec.width);
}

static void run_product_backward(const struct device_rig *rig)
{
    rig->kernel->linear_backward(rig->device, rig->b, rig->f32[0], rig->f32[1], rig->a, rig->a,
                                 rig->c, wide_shape(rig));
}

static void run_product_gelu(const struct device_rig *rig)
{
    rig->kernel->linear_gelu_forward(rig->device, rig->b, rig->f32[2], rig->a, rig->c, rig->a,
                                     wide_shape(rig));
}

/* Run the product of the MLP's second matrix, which is as large as its first. */
static void run_product_gelu_backward(const struct device_rig *rig)
{
    const struct kernel_linear shape = {.rows = rig->rows,
                                        .in = 4 * (size_t)rig->spec.width,
                                        .out = rig->spec.width,
                                        .layout = KERNEL_WEIGHT_IN_OUT};
    rig->kernel->linear_gelu_backward(rig->device, rig->b, rig->f32[0], rig->f32[1], rig->a, rig->a,
                                      rig->f32[2], rig->c, shape);
}

static struct kernel_linear head_shape(const struct device_rig *rig)
{
    return (struct kernel_linear){.rows = rig->rows,
                                  .in = rig->spec.width,
                                  .out = rig->spec.vocab,
                                  .layout = KERNEL_WEIGHT_OUT_IN,
                                  .out_stride = model_logits_stride(&rig->spec)};
}

static void run_head(const struct device_rig *rig)
{
    rig->kernel->linear_forward(rig->device, rig->b, rig->a, rig->c, NULL, head_shape(rig));
}

static void run_head_backward(const struct device_rig *rig)
{
    rig->kernel->linear_backward(rig->device, rig->b, rig->f32[0], NULL, rig->a, rig->b, rig->c,
                                 head_shape(rig));
}

static void bandwidth(struct device_rig *rig, const char *name, operation run, double bytes)
{
    double rate = bytes / seconds_of(rig, run);
    if (rig->copy_bytes == 0)
        rig->copy_bytes = rate;
    printf("%-20s %9.1f GB/s   %5.1f %% of a copy\n", name, rate / 1e9,
           100 * rate / rig->copy_bytes);
}

static void rate(struct device_rig *rig, const char *name, operation run, double flops)
{
    double per_second = flops / seconds_of(rig, run);
    if (rig->peak_flops == 0)
        rig->peak_flops = per_second;
    printf("%-20s %9.2f TFLOP/s %5.1f %% of the product\n", name, per_second / 1e12,
           100 * per_second / rig->peak_flops);
}

/* Measure the memory-bound operations by the bytes that they must move. */
static void measure_bandwidths(struct device_rig *rig)
{
    double n = (double)rig->rows, c = rig->spec.width, size = (double)rig->kernel->activation_size;
    double e = (double)rig->elements, row = size * n * c;

    bandwidth(rig, "copy", run_copy, 8 * e);
    bandwidth(rig, "tree addition", run_tree_add, 12 * e);
    bandwidth(rig, "norm", run_norm, 4 * e);
    bandwidth(rig, "digest", run_digest, 4 * e);
    bandwidth(rig, "AdamW", run_adamw, (28 + (size < 4 ? size : 0)) * e);
    bandwidth(rig, "residual", run_residual, 3 * size * e);
    bandwidth(rig, "GELU", run_gelu, 2 * size * e);
    bandwidth(rig, "GELU, backward", run_gelu_backward, 3 * size * e);
    bandwidth(rig, "SwiGLU", run_swiglu, 1.5 * size * e);
    bandwidth(rig, "SwiGLU, backward", run_swiglu_backward, 2.5 * size * e);
    bandwidth(rig, "layer norm", run_layernorm, 2 * row);
    bandwidth(rig, "layer norm, backward", run_layernorm_backward, 4 * row);
    bandwidth(rig, "RMS norm", run_rmsnorm, 2 * row);
    bandwidth(rig, "RMS norm, backward", run_rmsnorm_backward, 4 * row);
    bandwidth(rig, "rotary embedding", run_rotary, 4 * row);
    bandwidth(rig, "RMS norm of heads", run_headnorm, 6 * row);
    bandwidth(rig, "embedding", run_embedding, 2 * row);
    bandwidth(rig, "embedding, backward", run_embedding_backward, row);
    bandwidth(rig, "classifier", run_classifier, 2 * size * n * rig->spec.vocab);
}

void device_operations(struct device_rig *rig)
{
    double n = (double)rig->rows, c = rig->spec.width, attention = n * rig->spec.context * c;

    measure_bandwidths(rig);
    rate(rig, "product", run_product, 8 * n * c * c);
    rate(rig, "product, backward", run_product_backward, 16 * n * c * c);
    rate(rig, "product, GELU", run_product_gelu, 8 * n * c * c);
    rate(rig, "product, GELU, backward", run_product_gelu_backward, 16 * n * c * c);
    rate(rig, "head", run_head, 2 * n * c * rig->spec.vocab);
    rate(rig, "head, backward", run_head_backward, 4 * n * c * rig->spec.vocab);
    rate(rig, "attention, own kernels", run_attention, 2 * attention);
    rate(rig, "attention, own kernels, backward", run_attention_backward, 5 * attention);
    if (rig->kernel->attention_prepare(rig->device, attention_shape(rig)) < 0)
        device_rig_stop("no memory to choose what computes attention with");
    rate(rig, "attention", run_attention, 2 * attention);
    rate(rig, "attention, backward", run_attention_backward, 5 * attention);
}
