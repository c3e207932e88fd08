#include "bench/lib/device_rig.h"

#include <stdio.h>

#include "bench/lib/measure.h"

typedef void (*operation)(const struct device_rig *rig);

/* One line of the output: @run is measured, on random numbers, after @prepare (NULL: nothing). */
struct line {
    const char *name;
    operation run, prepare;
};

/* Return the seconds of one call: the median of five groups of rounds, after one call as warm-up.
 */
static double seconds_of(const struct device_rig *rig, const struct line *line)
{
    const operation run = line->run;
    struct samples samples = {.count = 0};

    device_rig_fill(rig);
    device_rig_check(rig, line->name, true);
    if (line->prepare)
        line->prepare(rig);
    run(rig);
    device_rig_wait(rig);
    for (unsigned group = 0; group < 5; group++) {
        double began = measure_now();
        for (unsigned round = 0; round < rig->rounds; round++)
            run(rig);
        device_rig_wait(rig);
        samples_add(&samples, (measure_now() - began) / rig->rounds);
    }
    device_rig_check(rig, line->name, false);
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

/* Run the product by which devices are compared: large, square, without a remainder. */
static void run_square(const struct device_rig *rig)
{
    const struct kernel_linear shape = {
        .rows = rig->square, .in = rig->square, .out = rig->square, .layout = KERNEL_WEIGHT_IN_OUT};
    rig->kernel->linear_forward(rig->device, rig->b, rig->a, rig->c, NULL, shape);
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

/* Moments begin at zero. The second one is never negative. */
static void prepare_adamw(const struct device_rig *rig)
{
    rig->kernel->zero(rig->device, rig->f32[1], rig->f32_count * sizeof(float));
    rig->kernel->zero(rig->device, rig->f32[2], rig->f32_count * sizeof(float));
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
    rig->kernel->rotary_forward(rig->device, rig->a, rig->angles, attention_shape(rig));
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
                                      rig->c, rig->c, shape);
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

static void bandwidth(struct device_rig *rig, struct line line, double bytes)
{
    double rate = bytes / seconds_of(rig, &line);
    if (rig->copy_bytes == 0)
        rig->copy_bytes = rate;
    printf("%-20s %9.1f GB/s   %5.1f %% of a copy\n", line.name, rate / 1e9,
           100 * rate / rig->copy_bytes);
}

static double rate(struct device_rig *rig, struct line line, double flops)
{
    double per_second = flops / seconds_of(rig, &line);
    if (rig->peak_flops == 0)
        rig->peak_flops = per_second;
    printf("%-20s %9.2f TFLOP/s %5.1f %% of the product\n", line.name, per_second / 1e12,
           100 * per_second / rig->peak_flops);
    return per_second;
}

/* Measure the memory-bound operations by the bytes that they must move. */
static void measure_bandwidths(struct device_rig *rig)
{
    double n = (double)rig->rows, c = rig->spec.width, size = (double)rig->kernel->activation_size;
    double e = (double)rig->elements, row = size * n * c;
    const struct {
        struct line line;
        double bytes;
    } lines[] = {
        {{"copy", run_copy, NULL}, 8 * e},
        {{"tree addition", run_tree_add, NULL}, 12 * e},
        {{"norm", run_norm, NULL}, 4 * e},
        {{"digest", run_digest, NULL}, 4 * e},
        {{"AdamW", run_adamw, prepare_adamw}, (28 + (size < 4 ? size : 0)) * e},
        {{"residual", run_residual, NULL}, 3 * size * e},
        {{"GELU", run_gelu, NULL}, 2 * size * e},
        {{"GELU, backward", run_gelu_backward, NULL}, 3 * size * e},
        {{"SwiGLU", run_swiglu, NULL}, 1.5 * size * e},
        {{"SwiGLU, backward", run_swiglu_backward, NULL}, 2.5 * size * e},
        {{"layer norm", run_layernorm, NULL}, 2 * row},
        {{"layer norm, backward", run_layernorm_backward, run_layernorm}, 4 * row},
        {{"RMS norm", run_rmsnorm, NULL}, 2 * row},
        {{"RMS norm, backward", run_rmsnorm_backward, run_rmsnorm}, 4 * row},
        {{"rotary embedding", run_rotary, NULL}, 4 * row},
        {{"RMS norm of heads", run_headnorm, NULL}, 6 * row},
        {{"embedding", run_embedding, NULL}, 2 * row},
        {{"embedding, backward", run_embedding_backward, NULL}, row},
        {{"classifier", run_classifier, NULL}, 2 * size * n * rig->spec.vocab},
    };

    for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
        bandwidth(rig, lines[i].line, lines[i].bytes);
}

static void measure_products(struct device_rig *rig)
{
    double n = (double)rig->rows, c = rig->spec.width, square = (double)rig->square;
    const struct {
        struct line line;
        double flops;
    } lines[] = {
        {{"product, backward", run_product_backward, NULL}, 16 * n * c * c},
        {{"product, GELU", run_product_gelu, NULL}, 8 * n * c * c},
        {{"product, GELU, backward", run_product_gelu_backward, NULL}, 16 * n * c * c},
        {{"head", run_head, NULL}, 2 * n * c * rig->spec.vocab},
        {{"head, backward", run_head_backward, NULL}, 4 * n * c * rig->spec.vocab},
    };

    (void)rate(rig, (struct line){"product", run_product, NULL}, 8 * n * c * c);
    rig->square_flops =
        rate(rig, (struct line){"product, square", run_square, NULL}, 2 * square * square * square);
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
        (void)rate(rig, lines[i].line, lines[i].flops);
}

static void measure_attention(struct device_rig *rig)
{
    double n = (double)rig->rows, attention = n * rig->spec.context * rig->spec.width;
    const struct line own[] = {
        {"attention, own kernels", run_attention, NULL},
        {"attention, own kernels, backward", run_attention_backward, run_attention}};
    const struct line chosen[] = {{"attention", run_attention, NULL},
                                  {"attention, backward", run_attention_backward, run_attention}};

    (void)rate(rig, own[0], 2 * attention);
    (void)rate(rig, own[1], 5 * attention);
    if (rig->kernel->attention_prepare(rig->device, attention_shape(rig)) < 0)
        device_rig_stop("no memory to choose what computes attention with");
    (void)rate(rig, chosen[0], 2 * attention);
    (void)rate(rig, chosen[1], 5 * attention);
}

void device_operations(struct device_rig *rig)
{
    measure_bandwidths(rig);
    measure_products(rig);
    measure_attention(rig);
}
