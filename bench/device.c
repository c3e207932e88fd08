/*
 * The rates of one device: each kernel beside a plain copy or the largest product, and training
 * steps of a GPT-2 beside the product's rate. Compare only numbers of the same run.
 */
#include <stdio.h>

#include "bench/lib/backend.h"
#include "bench/lib/device_rig.h"
#include "bench/lib/measure.h"
#include "bench/lib/usage.h"

struct model {
    struct device_rig *rig;
    struct stage *stage;
    unsigned unit_count;
    struct unit_layout layouts[MODEL_UNITS_MAX];
    float *parameters[MODEL_UNITS_MAX], *gradients[MODEL_UNITS_MAX], *moments[2][MODEL_UNITS_MAX];
    void *weights[MODEL_UNITS_MAX];
    int32_t *tokens;
};

/* Copy a sublayer's parameters from the last sublayer of its kind, two units below. The host would
 * need a minute of the device's time to draw 1.5B parameters. */
static void initialize(struct model *m, unsigned unit, size_t size_bytes)
{
    const struct device_rig *rig = m->rig;

    if (unit > 2 && m->layouts[unit].count == m->layouts[unit - 2].count) {
        rig->kernel->copy(rig->device, m->parameters[unit], m->parameters[unit - 2], size_bytes);
        return;
    }
    float *host = malloc(size_bytes);
    if (!host)
        device_rig_stop("no memory");
    model_unit_initialize(&rig->spec, unit, 1, 1, host);
    rig->kernel->upload(rig->device, m->parameters[unit], host, size_bytes);
    free(host);
}

static void make_unit(struct model *m, unsigned unit)
{
    const struct device_rig *rig = m->rig;
    struct unit_layout *layout = &m->layouts[unit];
    model_unit_layout(&rig->spec, unit, layout);
    size_t size_bytes = layout->count * sizeof(float);

    m->parameters[unit] = device_rig_memory(rig, size_bytes);
    m->gradients[unit] = device_rig_memory(rig, size_bytes);
    m->moments[0][unit] = device_rig_memory(rig, size_bytes);
    m->moments[1][unit] = device_rig_memory(rig, size_bytes);
    m->weights[unit] = rig->kernel->activation_size == sizeof(float)
                           ? m->parameters[unit]
                           : device_rig_memory(rig, layout->count * rig->kernel->activation_size);
    initialize(m, unit, size_bytes);
    rig->kernel->weights(rig->device, m->weights[unit], m->parameters[unit], layout->count);
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
    const struct device_rig *rig = m->rig;
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

static double step_flops(const struct device_rig *rig)
{
    double flops = 0;
    for (unsigned unit = 0; unit < model_unit_count(&rig->spec); unit++) {
        struct unit_cost cost;
        model_unit_cost(&rig->spec, unit, rig->batch, &cost);
        flops += cost.forward_flops + cost.backward_flops;
    }
    return flops;
}

static void measure_steps(struct device_rig *rig)
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
    m.tokens = device_rig_host_tokens(rig);
    if (stage_new(&options, &m.stage, &error) < 0)
        device_rig_stop(error.text);
    for (unsigned unit = 0; unit < m.unit_count; unit++)
        make_unit(&m, unit);
    for (unsigned step = 1; step <= rig->rounds + 1; step++) {
        double began = measure_now();
        last = run_step(&m, step);
        device_rig_wait(rig);
        if (step == 1)
            first = last;
        else
            samples_add(&samples, measure_now() - began);
    }
    double seconds = samples_median(&samples);
    double flops = step_flops(rig) / seconds;
    printf("step: %.2f ms, %.0f tokens/s, %.1f %% of the product's rate, %.1f %% of the square's; "
           "loss %.4f -> %.4f (%a)\n",
           1e3 * seconds, (double)rig->rows / seconds, 100 * flops / rig->peak_flops,
           100 * flops / rig->square_flops, first, last, last);
}

static void open_rig(struct device_rig *rig, int argc, char **argv)
{
    const struct kernel_options options = {.index = measure_count(argc, argv, "--gpu", 1) - 1,
                                           .thread_count =
                                               measure_count(argc, argv, "--threads", 1)};
    struct error error = {0};

    rig->kernel = backend_chosen(argc, argv, "cuda");
    if (rig->kernel->open(&options, &rig->device, &error) < 0)
        device_rig_stop(error.text);
    rig->spec = (struct model_spec){.family = MODEL_GPT2,
                                    .layers = measure_count(argc, argv, "--layers", 12),
                                    .width = measure_count(argc, argv, "--width", 768),
                                    .heads = measure_count(argc, argv, "--heads", 12),
                                    .context = measure_count(argc, argv, "--context", 1024),
                                    .vocab = measure_count(argc, argv, "--vocab", 50257),
                                    .tied = false};
    rig->batch = measure_count(argc, argv, "--batch", 8);
    rig->rounds = measure_count(argc, argv, "--rounds", 20);
    rig->square = measure_count(argc, argv, "--square", rig->kernel->host_memory ? 512 : 8192);
    rig->rows = (size_t)rig->batch * rig->spec.context;
    rig->elements = rig->rows * 4 * rig->spec.width;
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
    {"--square", "N", "rows, columns and inner dimension of a square product (8192; 512 of cpu)"},
};

int main(int argc, char **argv)
{
    struct device_rig rig = {.rounds = 0};

    setvbuf(stdout, NULL, _IOLBF, 0); /* keep the results of a run that is cut off */
    usage_check(argc, argv, known, ARRAY_COUNT(known));
    open_rig(&rig, argc, argv);
    device_rig_make_buffers(&rig);
    device_operations(&rig);
    device_rig_release_buffers(&rig);
    measure_steps(&rig);
    device_rig_describe(&rig);
    rig.kernel->close(rig.device); /* frees all device memory: the process ends */
    return 0;
}
