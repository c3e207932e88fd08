/*
 * What one device does: the rate of each kernel beside a plain copy or the largest product, and
 * training steps of a GPT-2 beside the product's rate. Numbers of one run are compared with each
 * other only.
 */
#include <stdio.h>
#include <string.h>

#include "bench/measure.h"
#include "bench/usage.h"
#include "kernels/backend.h"
#include "model/stage.h"

#define DESCRIPTION_SIZE 16384

struct rig {
    const struct kernel *kernel;
    struct kernel_device *device;
    struct model_spec spec;
    unsigned batch, rounds;
    size_t rows, elements; /* N; N x 4C: the largest flat buffer */
    void *a, *b, *c;       /* activations, room for N x max(4C, V) */
    float *f32[4];         /* elements each */
    int32_t *tokens;       /* N, on the device */
    double peak_flops, copy_bytes;
};

static void stop(const char *what)
{
    fprintf(stderr, "bench-device: %s\n", what);
    exit(1);
}

static void wait_for(const struct rig *rig)
{
    struct error error = {0};
    if (rig->kernel->synchronize(rig->device, &error) < 0)
        stop(error.text);
}

static void *memory(const struct rig *rig, size_t size_bytes)
{
    void *result = NULL;
    if (rig->kernel->allocate(rig->device, size_bytes, &result) < 0)
        stop("no memory on the device: make the model or the batch smaller");
    return result;
}

typedef void (*operation)(const struct rig *rig);

/* Seconds of one call, the median of five groups of rounds after one to warm up. */
static double seconds_of(const struct rig *rig, operation run)
{
    struct samples samples = {.count = 0};

    run(rig);
    wait_for(rig);
    for (unsigned group = 0; group < 5; group++) {
        double began = measure_now();
        for (unsigned round = 0; round < rig->rounds; round++)
            run(rig);
        wait_for(rig);
        samples_add(&samples, (measure_now() - began) / rig->rounds);
    }
    return samples_median(&samples);
}

/* ---- the operations, on the shapes of the model ---- */

static struct kernel_linear wide_shape(const struct rig *rig)
{
    return (struct kernel_linear){.rows = rig->rows,
                                  .in = rig->spec.width,
                                  .out = 4 * (size_t)rig->spec.width,
                                  .layout = KERNEL_WEIGHT_IN_OUT};
}

static struct kernel_attention attention_shape(const struct rig *rig)
{
    return (struct kernel_attention){rig->batch, rig->spec.context, rig->spec.width,
                                     rig->spec.heads, rig->spec.heads};
}

static void run_copy(const struct rig *rig)
{
    rig->kernel->copy(rig->device, rig->f32[1], rig->f32[0], rig->elements * sizeof(float));
}

static void run_product(const struct rig *rig)
{
    rig->kernel->linear_forward(rig->device, rig->b, rig->a, rig->c, NULL, wide_shape(rig));
}

static void run_layernorm(const struct rig *rig)
{
    rig->kernel->layernorm_forward(rig->device, rig->b, rig->f32[0], rig->f32[1], NULL, rig->a,
                                   NULL, rig->c, rig->c, rig->rows, rig->spec.width);
}

static void run_residual(const struct rig *rig)
{
    rig->kernel->residual(rig->device, rig->b, rig->a, rig->b, rig->elements);
}

static void run_gelu(const struct rig *rig)
{
    rig->kernel->gelu_forward(rig->device, rig->b, rig->a, rig->elements);
}

static void run_classifier(const struct rig *rig)
{
    rig->kernel->cross_entropy_fused(rig->device, rig->f32[0], rig->a, rig->tokens, 1.0f, rig->rows,
                                     rig->spec.vocab);
}

static void run_attention(const struct rig *rig)
{
    rig->kernel->attention_forward(rig->device, rig->b, rig->f32[0], rig->a, attention_shape(rig));
}

static void run_attention_backward(const struct rig *rig)
{
    rig->kernel->attention_backward(rig->device, rig->c, rig->b, rig->b, rig->f32[0], rig->a,
                                    attention_shape(rig));
}

static void run_adamw(const struct rig *rig)
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

static void run_tree_add(const struct rig *rig)
{
    rig->kernel->tree_add(rig->device, rig->f32[0], rig->f32[0], rig->f32[1], rig->elements);
}

static void run_norm(const struct rig *rig)
{
    if (rig->kernel->norm_squared(rig->device, rig->f32[0], rig->elements) < 0)
        stop("a sum of squares is negative");
}

static void bandwidth(struct rig *rig, const char *name, operation run, double bytes)
{
    double rate = bytes / seconds_of(rig, run);
    if (rig->copy_bytes == 0)
        rig->copy_bytes = rate;
    printf("%-20s %9.1f GB/s   %5.1f %% of a copy\n", name, rate / 1e9,
           100 * rate / rig->copy_bytes);
}

static void rate(struct rig *rig, const char *name, operation run, double flops)
{
    double per_second = flops / seconds_of(rig, run);
    if (rig->peak_flops == 0)
        rig->peak_flops = per_second;
    printf("%-20s %9.2f TFLOP/s %5.1f %% of the product\n", name, per_second / 1e12,
           100 * per_second / rig->peak_flops);
}

static void measure_operations(struct rig *rig)
{
    double n = (double)rig->rows, c = rig->spec.width, size = (double)rig->kernel->activation_size;
    double e = (double)rig->elements, attention = n * rig->spec.context * c;

    bandwidth(rig, "copy", run_copy, 8 * e);
    bandwidth(rig, "tree addition", run_tree_add, 12 * e);
    bandwidth(rig, "norm", run_norm, 4 * e);
    bandwidth(rig, "AdamW", run_adamw, (28 + (size < 4 ? size : 0)) * e);
    bandwidth(rig, "residual", run_residual, 3 * size * e);
    bandwidth(rig, "GELU", run_gelu, 2 * size * e);
    bandwidth(rig, "layer norm", run_layernorm, 2 * size * n * c);
    bandwidth(rig, "classifier", run_classifier, 2 * size * n * rig->spec.vocab);
    rate(rig, "product", run_product, 8 * n * c * c);
    rate(rig, "attention", run_attention, 2 * attention);
    rate(rig, "attention, backward", run_attention_backward, 5 * attention);
}

/* ---- steps of a whole model ---- */

struct model {
    struct rig *rig;
    struct stage *stage;
    unsigned unit_count;
    struct unit_layout layouts[MODEL_UNITS_MAX];
    float *parameters[MODEL_UNITS_MAX], *gradients[MODEL_UNITS_MAX], *moments[2][MODEL_UNITS_MAX];
    void *weights[MODEL_UNITS_MAX];
    int32_t *tokens;
};

static void make_unit(struct model *m, unsigned unit)
{
    const struct rig *rig = m->rig;
    struct unit_layout *layout = &m->layouts[unit];
    model_unit_layout(&rig->spec, unit, layout);
    size_t size_bytes = layout->count * sizeof(float);
    float *host = malloc(size_bytes);

    if (!host)
        stop("no memory");
    model_unit_initialize(&rig->spec, unit, 1, host);
    m->parameters[unit] = memory(rig, size_bytes);
    m->gradients[unit] = memory(rig, size_bytes);
    m->moments[0][unit] = memory(rig, size_bytes);
    m->moments[1][unit] = memory(rig, size_bytes);
    m->weights[unit] = rig->kernel->activation_size == sizeof(float)
                           ? m->parameters[unit]
                           : memory(rig, layout->count * rig->kernel->activation_size);
    rig->kernel->upload(rig->device, m->parameters[unit], host, size_bytes);
    rig->kernel->weights(rig->device, m->weights[unit], m->parameters[unit], layout->count);
    free(host);
}

static void step_unit(struct model *m, unsigned unit, const struct kernel_adamw *options)
{
    const struct unit_layout *layout = &m->layouts[unit];
    const struct kernel_adamw_tensor all = {.parameter = m->parameters[unit],
                                            .first_moment = m->moments[0][unit],
                                            .second_moment = m->moments[1][unit],
                                            .gradient = m->gradients[unit],
                                            .weight = m->weights[unit],
                                            .count = layout->count};
    m->rig->kernel->adamw(m->rig->device, &all, 1, options);
}

static double run_step(struct model *m, uint64_t step)
{
    const struct rig *rig = m->rig;
    const struct kernel_adamw options = {.lr = 1e-4f,
                                         .beta1 = 0.9f,
                                         .beta2 = 0.95f,
                                         .epsilon = 1e-8f,
                                         .gradient_scale = 1,
                                         .step = step};

    for (unsigned unit = 0; unit < m->unit_count; unit++)
        rig->kernel->zero(rig->device, m->gradients[unit], m->layouts[unit].count * sizeof(float));
    stage_forward(m->stage, 0, m->weights, m->tokens, m->tokens, true, 1.0f / (float)rig->rows);
    for (unsigned unit = m->unit_count; unit-- > 0;)
        stage_backward_unit(m->stage, 0, unit, m->weights[unit], m->gradients[unit], unit > 0);
    for (unsigned unit = 0; unit < m->unit_count; unit++)
        step_unit(m, unit, &options);
    return stage_loss_sum(m->stage, 0) / (double)rig->rows;
}

static double step_flops(const struct rig *rig)
{
    double flops = 0;
    for (unsigned unit = 0; unit < model_unit_count(&rig->spec); unit++) {
        struct unit_cost cost;
        model_unit_cost(&rig->spec, unit, rig->batch, &cost);
        flops += cost.forward_flops + cost.backward_flops;
    }
    return flops;
}

static void measure_steps(struct rig *rig)
{
    static struct model m;
    const struct stage_options options = {.kernel = rig->kernel,
                                          .device = rig->device,
                                          .spec = &rig->spec,
                                          .unit_count = model_unit_count(&rig->spec),
                                          .batch = rig->batch,
                                          .slots = 1};
    struct samples samples = {.count = 0};
    struct error error = {0};
    double first = 0, last = 0;

    m = (struct model){.rig = rig, .unit_count = options.unit_count};
    m.tokens = calloc(rig->rows, sizeof(int32_t));
    if (!m.tokens || stage_new(&options, &m.stage, &error) < 0)
        stop(error.text);
    for (size_t i = 0; i < rig->rows; i++)
        m.tokens[i] = (int32_t)(i * 7919 % rig->spec.vocab);
    for (unsigned unit = 0; unit < m.unit_count; unit++)
        make_unit(&m, unit);
    for (unsigned step = 1; step <= rig->rounds + 1; step++) {
        double began = measure_now();
        last = run_step(&m, step);
        wait_for(rig);
        if (step == 1)
            first = last;
        else
            samples_add(&samples, measure_now() - began);
    }
    double seconds = samples_median(&samples);
    printf("step: %.2f ms, %.0f tokens/s, %.1f %% of the product's rate; loss %.4f -> %.4f\n",
           1e3 * seconds, (double)rig->rows / seconds,
           100 * step_flops(rig) / seconds / rig->peak_flops, first, last);
}

static void open_rig(struct rig *rig, int argc, char **argv)
{
    const char *backend = measure_option(argc, argv, "--backend", "cuda");
    bool cpu = !strcmp(backend, "cpu");
    const char *precision = measure_option(argc, argv, "--precision", cpu ? "f32" : "bf16");
    const struct kernel_options options = {.index = measure_count(argc, argv, "--gpu", 1) - 1,
                                           .thread_count =
                                               measure_count(argc, argv, "--threads", 1)};
    struct error error = {0};

    if (kernel_backend(cpu ? KERNEL_BACKEND_CPU : KERNEL_BACKEND_CUDA,
                       !strcmp(precision, "bf16")   ? KERNEL_PRECISION_BF16
                       : !strcmp(precision, "tf32") ? KERNEL_PRECISION_TF32
                                                    : KERNEL_PRECISION_F32,
                       &rig->kernel, &error) < 0 ||
        rig->kernel->open(&options, &rig->device, &error) < 0)
        stop(error.text);
    rig->spec = (struct model_spec){.family = MODEL_GPT2,
                                    .layers = measure_count(argc, argv, "--layers", 12),
                                    .width = measure_count(argc, argv, "--width", 768),
                                    .heads = measure_count(argc, argv, "--heads", 12),
                                    .context = measure_count(argc, argv, "--context", 1024),
                                    .vocab = measure_count(argc, argv, "--vocab", 50257),
                                    .tied = false};
    rig->batch = measure_count(argc, argv, "--batch", 8);
    rig->rounds = measure_count(argc, argv, "--rounds", 20);
    rig->rows = (size_t)rig->batch * rig->spec.context;
    rig->elements = rig->rows * 4 * rig->spec.width;
}

static void make_buffers(struct rig *rig)
{
    size_t widest = MAX((size_t)4 * rig->spec.width, (size_t)rig->spec.vocab);
    size_t size_bytes = rig->rows * widest * rig->kernel->activation_size;

    rig->a = memory(rig, size_bytes);
    rig->b = memory(rig, size_bytes);
    rig->c = memory(rig, MAX(size_bytes, (size_t)16 * rig->spec.width * rig->spec.width));
    for (unsigned i = 0; i < 4; i++)
        rig->f32[i] = memory(rig, rig->elements * sizeof(float));
    rig->tokens = memory(rig, rig->rows * sizeof(int32_t));
}

static void release_buffers(struct rig *rig)
{
    void *const all[] = {rig->a,      rig->b,      rig->c,      rig->f32[0],
                         rig->f32[1], rig->f32[2], rig->f32[3], rig->tokens};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++)
        rig->kernel->release(rig->device, all[i]);
}

static const struct usage_option known[] = {
    {"--backend", "NAME", "cuda (as it is) or cpu"},
    {"--precision", "NAME", "bf16, tf32 or f32 (bf16; f32 of cpu)"},
    {"--gpu", "N", "which one, from 1 (1)"},
    {"--threads", "N", "of a cpu (1)"},
    {"--rounds", "N", "(20)"},
    {"--layers", "N", "(12)"},
    {"--width", "N", "(768)"},
    {"--heads", "N", "(12)"},
    {"--context", "N", "(1024)"},
    {"--vocab", "N", "(50257)"},
    {"--batch", "N", "(8)"},
};

int main(int argc, char **argv)
{
    struct rig rig = {.rounds = 0};
    char *text = malloc(DESCRIPTION_SIZE);

    usage_check(argc, argv, known, ARRAY_COUNT(known));
    open_rig(&rig, argc, argv);
    make_buffers(&rig);
    measure_operations(&rig);
    release_buffers(&rig);
    measure_steps(&rig);
    if (text) {
        rig.kernel->describe(rig.device, text, DESCRIPTION_SIZE);
        printf("%s", text);
    }
    free(text);
    rig.kernel->close(rig.device); /* with all that is left on it: the process ends */
    return 0;
}
