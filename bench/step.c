/*
 * One worker's training step on GPT-2 124M shapes (batch 4 x 64 tokens), as a fraction of the time
 * that sgemm alone needs for the products of its linear layers.
 *
 * The step is the worker's own (bench/lib/rig.h): samples, forward, backward, norms, commit, AdamW.
 * The products are those of all linear layers in the step's order, on the step's own weights and
 * gradient buffers, by cblas_sgemm with as many threads as the slot has. They overwrite their
 * result (the step's accumulate), and attention's own products are left out, so neither the time of
 * sgemm nor the fraction is overstated.
 *
 * The fraction of processor time is printed too. It excludes the time that other programs take from
 * a busy machine.
 *
 * Each round runs the products, the step, and PyTorch's step if FIRN_PYTHON (or python3) has it.
 */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "bench/lib/measure.h"
#include "bench/lib/peer.h"
#include "bench/lib/profile.h"
#include "bench/lib/rig.h"
#include "bench/lib/usage.h"

#define ROUNDS_DEFAULT 7

struct products {
    struct rig *rig;
    size_t rows;
    float *narrow, *wide; /* (N,4C) each: inputs and outputs of the blocks */
    float *logits;        /* (N,V) */
};

static float *filled(size_t count)
{
    float *values = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);

    if (!values)
        measure_die("no memory for activations");
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i % 31) * 0.01f - 0.15f;
    return values;
}

/* Compute result (m,n) = left (m,k) right (k,n), each side as stored or transposed. */
static void product(size_t m, size_t n, size_t k, const float *left, bool left_transposed,
                    const float *right, bool right_transposed, float *result)
{
    cblas_sgemm(CblasRowMajor, left_transposed ? CblasTrans : CblasNoTrans,
                right_transposed ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k,
                1.0f, left, (blasint)(left_transposed ? m : k), right,
                (blasint)(right_transposed ? k : n), 0.0f, result, (blasint)n);
}

/* The weight of one linear layer and its gradient in the step. */
struct linear {
    const float *weight;
    float *gradient;
    size_t in, out;
    bool transposed; /* stored (O,I) */
};

static struct linear linear_of(const struct products *p, unsigned unit, unsigned tensor)
{
    const struct unit_tensor *t = &p->rig->state->units[unit].layout.tensors[tensor];
    bool head = unit == p->rig->state->unit_count - 1;

    return (struct linear){
        .weight = p->rig->state->units[unit].parameters + t->offset,
        .gradient = gradients_reduced(p->rig->engine->gradients)[unit] + t->offset,
        .in = t->shape[head ? 1 : 0],
        .out = t->shape[head ? 0 : 1],
        .transposed = head,
    };
}

static void linear_forward(const struct products *p, struct linear l, const float *input,
                           float *output)
{
    product(p->rows, l.out, l.in, input, false, l.weight, l.transposed, output);
}

static void linear_backward(const struct products *p, struct linear l, float *d_input,
                            const float *input, const float *d_output)
{
    product(p->rows, l.in, l.out, d_output, false, l.weight, !l.transposed, d_input);
    if (l.transposed)
        product(l.out, l.in, p->rows, d_output, true, input, false, l.gradient);
    else
        product(l.in, l.out, p->rows, input, true, d_output, false, l.gradient);
}

static double run_products(const struct products *p)
{
    unsigned head = p->rig->state->unit_count - 1;
    double began = measure_now();

    for (unsigned unit = 1; unit < head; unit++) {
        linear_forward(p, linear_of(p, unit, 2), p->narrow, p->wide);
        linear_forward(p, linear_of(p, unit, 4), p->wide, p->narrow);
    }
    linear_forward(p, linear_of(p, head, 2), p->narrow, p->logits);
    linear_backward(p, linear_of(p, head, 2), p->wide, p->narrow, p->logits);
    for (unsigned unit = head - 1; unit > 0; unit--) {
        linear_backward(p, linear_of(p, unit, 4), p->wide, p->wide, p->narrow);
        linear_backward(p, linear_of(p, unit, 2), p->narrow, p->narrow, p->wide);
    }
    return measure_now() - began;
}

static double gflop(const struct products *p)
{
    double sum = 0.0;

    for (unsigned unit = 1; unit < p->rig->state->unit_count; unit++)
        for (unsigned tensor = 2; tensor <= 4; tensor += 2)
            if (tensor < p->rig->state->units[unit].layout.tensor_count) {
                struct linear l = linear_of(p, unit, tensor);
                sum += 6e-9 * (double)p->rows * (double)l.in * (double)l.out;
            }
    return sum;
}

struct outcome {
    struct samples products, step, peer, fraction, cpu_fraction, peer_ratio;
    double operations[32]; /* seconds of a step, by profile_name() */
};

static void run_round(const struct products *p, unsigned threads, struct peer *peer,
                      struct outcome *outcome)
{
    openblas_set_num_threads((int)threads);
    double cpu_began = measure_cpu(), products = run_products(p);
    double cpu_between = measure_cpu(), began = measure_now();
    rig_step(p->rig, NULL);
    double step = measure_now() - began, cpu_end = measure_cpu();

    samples_add(&outcome->products, products);
    samples_add(&outcome->step, step);
    samples_add(&outcome->fraction, products / step);
    samples_add(&outcome->cpu_fraction, (cpu_between - cpu_began) / (cpu_end - cpu_between));
    if (!peer)
        return;
    double theirs = peer_step(peer);
    if (theirs > 0) {
        samples_add(&outcome->peer, theirs);
        samples_add(&outcome->peer_ratio, theirs / step);
    }
}

static void measure_threads(unsigned threads, unsigned rounds, struct peer *peer,
                            struct outcome *outcome, double *ret_gflop)
{
    struct rig_options options = rig_gpt2_124m(threads);
    size_t rows = (size_t)options.micro_batch * options.context;
    struct outcome *warm = calloc(1, sizeof(*warm));

    options.kernel = profile_kernel();
    struct products p = {.rig = rig_open(&options),
                         .rows = rows,
                         .narrow = filled(rows * 4 * options.width),
                         .wide = filled(rows * 4 * options.width),
                         .logits = filled(rows * options.vocab)};
    if (!warm)
        measure_die("no memory");
    run_round(&p, threads, peer, warm); /* page faults, caches, threads */
    profile_reset();
    for (unsigned i = 0; i < rounds; i++)
        run_round(&p, threads, peer, outcome);
    for (unsigned i = 0; i < profile_count(); i++)
        outcome->operations[i] = profile_seconds(i) / rounds;
    *ret_gflop = gflop(&p);
    free(p.narrow);
    free(p.wide);
    free(p.logits);
    free(warm);
    rig_close(p.rig);
}

static void say_operations(const struct outcome *outcome)
{
    double step = samples_mean(&outcome->step), rest = step;

    printf("   where a step goes:");
    for (unsigned i = 0; i < profile_count(); i++) {
        rest -= outcome->operations[i];
        printf(" %s %.1f%%", profile_name(i), 100 * outcome->operations[i] / step);
    }
    printf(" outside the kernels %.1f%%\n", 100 * rest / step);
}

static void report(struct measure *measure, unsigned threads, const struct outcome *outcome,
                   double work, const struct peer *peer)
{
    char key[64];
    double products = samples_median(&outcome->products);

    printf("%u thread%s: sgemm alone %.0f ms (%.0f GFLOP/s), step %.0f ms, fraction %.3f "
           "(10-90%%: %.3f-%.3f; of processor time %.3f)\n",
           threads, threads > 1 ? "s" : "", 1e3 * products, work / products,
           1e3 * samples_median(&outcome->step), samples_median(&outcome->fraction),
           samples_quantile(&outcome->fraction, 0.1), samples_quantile(&outcome->fraction, 0.9),
           samples_median(&outcome->cpu_fraction));
    say_operations(outcome);
    if (outcome->peer.count > 0)
        printf("   %s: %.0f ms, %.2f times our step\n", peer_name(peer),
               1e3 * samples_median(&outcome->peer), samples_median(&outcome->peer_ratio));
    snprintf(key, sizeof(key), "threads_%u_fraction_of_sgemm", threads);
    measure_samples(measure, key, &outcome->fraction);
    snprintf(key, sizeof(key), "threads_%u_fraction_of_sgemm_cpu_time", threads);
    measure_samples(measure, key, &outcome->cpu_fraction);
    snprintf(key, sizeof(key), "threads_%u_sgemm_seconds", threads);
    measure_samples(measure, key, &outcome->products);
    snprintf(key, sizeof(key), "threads_%u_step_seconds", threads);
    measure_samples(measure, key, &outcome->step);
    snprintf(key, sizeof(key), "threads_%u_torch_over_step", threads);
    if (outcome->peer.count > 0)
        measure_samples(measure, key, &outcome->peer_ratio);
    for (unsigned i = 0; i < profile_count(); i++) {
        snprintf(key, sizeof(key), "threads_%u_%s_seconds", threads, profile_name(i));
        measure_number(measure, key, outcome->operations[i]);
    }
}

static struct peer *start_torch(const char *script, unsigned threads)
{
    const char *python = getenv("FIRN_PYTHON");
    char count[16];

    if (!script)
        return NULL;
    snprintf(count, sizeof(count), "%u", threads);
    const char *const argv[] = {python ? python : "python3", script, count, NULL};
    struct peer *peer = peer_start(argv);
    if (!peer)
        printf("   PyTorch is left out: %s has none (FIRN_PYTHON names an interpreter)\n", argv[0]);
    return peer;
}

static const struct usage_option known[] = {
    {"--rounds", "N", "steps of each kind"},
    {"--threads", "N", "from one thread to so many (2)"},
    {"--torch", "SCRIPT", "bench/step_torch.py: PyTorch's step beside it"},
};

int main(int argc, char **argv)
{
    static struct outcome outcome;
    usage_check(argc, argv, known, ARRAY_COUNT(known));
    unsigned rounds = measure_count(argc, argv, "--rounds", ROUNDS_DEFAULT);
    unsigned threads_max = measure_count(argc, argv, "--threads", 2);
    const char *script = measure_option(argc, argv, "--torch", NULL);
    struct measure *measure = measure_begin(
        "step", "a worker's step, GPT-2 124M, 4 x 64 tokens, beside sgemm for the same products",
        argc, argv);

    for (unsigned threads = 1; threads <= threads_max; threads++) {
        struct peer *peer = start_torch(script, threads);
        double work;
        memset(&outcome, 0, sizeof(outcome));
        measure_threads(threads, rounds, peer, &outcome, &work);
        report(measure, threads, &outcome, work, peer);
        peer_stop(peer);
    }
    return measure_end(measure);
}
