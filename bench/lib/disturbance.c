#include "bench/lib/disturbance.h"

#include <math.h>
#include <stdio.h>

#define ACCEPTED 0.01 /* share of the training time: the aim */

/* The cost of consecutive steps. */
struct stretch {
    double seconds, cpu_seconds, stall, worst;
    unsigned steps;
};

static void run_step(struct saving *saving, bool saves, struct stretch *stretch,
                     struct samples *samples)
{
    double began = measure_now(), cpu = measure_cpu();

    stretch->stall += rig_step(saving->rig, saves ? saving->snapshot : NULL);
    double seconds = measure_now() - began;
    stretch->cpu_seconds += measure_cpu() - cpu;
    stretch->seconds += seconds;
    stretch->worst = seconds > stretch->worst ? seconds : stretch->worst;
    stretch->steps++;
    samples_add(samples, seconds);
}

static struct stretch undisturbed(struct disturbance *disturbance, struct saving *saving,
                                  unsigned steps)
{
    struct stretch stretch = {0};

    for (unsigned i = 0; i < steps; i++)
        run_step(saving, false, &stretch, &disturbance->step);
    return stretch;
}

/* Run the steps during a save. The beginning of the save counts as part of the first step. */
static struct stretch while_saving(struct disturbance *disturbance, struct saving *saving)
{
    struct stretch stretch = {0};
    double began = measure_now(), cpu = measure_cpu();

    saving_begin(saving);
    stretch.stall = stretch.seconds = measure_now() - began;
    stretch.cpu_seconds = measure_cpu() - cpu;
    do
        run_step(saving, true, &stretch, &disturbance->step_saving);
    while (!saving_committed(saving, 0));
    return stretch;
}

static void take_round(struct disturbance *disturbance, const struct stretch *before,
                       const struct stretch *saves, const struct stretch *after)
{
    unsigned steps = before->steps + after->steps;
    double step = (before->seconds + after->seconds) / steps;
    double cpu = (before->cpu_seconds + after->cpu_seconds) / steps;

    samples_add(&disturbance->stall, saves->stall);
    samples_add(&disturbance->extra, saves->seconds - saves->steps * step);
    samples_add(&disturbance->extra_cpu, saves->cpu_seconds - saves->steps * cpu);
    samples_add(&disturbance->slowed, saves->seconds / (saves->steps * step) - 1);
    samples_add(&disturbance->slowed_noise,
                (after->seconds / after->steps) / (before->seconds / before->steps) - 1);
}

void disturbance_measure(struct disturbance *disturbance, struct saving *saving, unsigned rounds,
                         unsigned steps)
{
    struct stretch before = undisturbed(disturbance, saving, steps);

    for (unsigned i = 0; i < rounds; i++) {
        struct stretch saves = while_saving(disturbance, saving);
        struct stretch after = undisturbed(disturbance, saving, steps);
        take_round(disturbance, &before, &saves, &after);
        before = after;
    }
}

/* ---- report ---- */

/* Return the standard error of the mean. */
static double standard_error(const struct samples *samples)
{
    double mean = samples_mean(samples), sum = 0;

    for (unsigned i = 0; i < samples->count; i++)
        sum += (samples->values[i] - mean) * (samples->values[i] - mean);
    return samples->count > 1 ? sqrt(sum / (samples->count - 1) / samples->count) : 0;
}

static void put(struct measure *measure, const char *prefix, const char *key, double value)
{
    char name[96];

    snprintf(name, sizeof(name), "%s%s", prefix, key);
    measure_number(measure, name, value);
}

static void report_stall(const struct disturbance *disturbance, struct measure *measure,
                         const char *prefix)
{
    const struct samples *stall = &disturbance->stall;

    printf("stall    p50 %.1f ms, p99 %.1f ms, worst %.1f ms of %u checkpoints (aim: p99 10 ms)\n",
           1e3 * samples_quantile(stall, 0.5), 1e3 * samples_quantile(stall, 0.99),
           1e3 * samples_quantile(stall, 1.0), stall->count);
    put(measure, prefix, "stall_p50_seconds", samples_quantile(stall, 0.5));
    put(measure, prefix, "stall_p99_seconds", samples_quantile(stall, 0.99));
    put(measure, prefix, "stall_worst_seconds", samples_quantile(stall, 1.0));
}

static void report_steps(const struct disturbance *disturbance, struct measure *measure,
                         const char *prefix)
{
    double step = samples_median(&disturbance->step);
    double worst = samples_quantile(&disturbance->step_saving, 1.0) / step - 1;
    double worst_undisturbed = samples_quantile(&disturbance->step, 1.0) / step - 1;

    printf("steps    %.0f ms; while saving slowed by %+.1f %% +- %.1f (undisturbed ones by chance "
           "%+.1f %% +- %.1f)\n"
           "         worst step while saving %+.0f %%, worst undisturbed one %+.0f %%\n",
           1e3 * step, 100 * samples_mean(&disturbance->slowed),
           100 * standard_error(&disturbance->slowed),
           100 * samples_mean(&disturbance->slowed_noise),
           100 * standard_error(&disturbance->slowed_noise), 100 * worst, 100 * worst_undisturbed);
    put(measure, prefix, "step_seconds", step);
    put(measure, prefix, "saving_slowdown_mean", samples_mean(&disturbance->slowed));
    put(measure, prefix, "saving_slowdown_standard_error", standard_error(&disturbance->slowed));
    put(measure, prefix, "saving_slowdown_worst", worst);
    put(measure, prefix, "undisturbed_slowdown_worst", worst_undisturbed);
}

/* Report the shortest interval between checkpoints that keeps the loss of training time within the
 * aim. */
static void report_interval(const struct disturbance *disturbance, const struct saving *saving,
                            unsigned threads, struct measure *measure, const char *prefix)
{
    double extra = samples_mean(&disturbance->extra);
    double cpu = samples_mean(&disturbance->extra_cpu);
    double error = standard_error(&disturbance->extra_cpu);

    printf(
        "cost     of a checkpoint of %.0f MB: %.3f s +- %.3f of training by the clock; %.3f s +- %.3f "
        "of processors, which %u threads compute in %.3f s\n"
        "         so the whole training is slowed by at most 1 %% where checkpoints are %.0f s "
        "apart or more (by the clock %.0f s)\n",
        (double)saving->size_bytes / 1e6, extra, standard_error(&disturbance->extra), cpu, error,
        threads, cpu / threads, cpu / threads / ACCEPTED, extra / ACCEPTED);
    put(measure, prefix, "checkpoint_extra_seconds", extra);
    put(measure, prefix, "checkpoint_extra_cpu_seconds", cpu);
    put(measure, prefix, "interval_for_one_percent_seconds", cpu / threads / ACCEPTED);
    put(measure, prefix, "interval_for_one_percent_by_clock_seconds", extra / ACCEPTED);
}

void disturbance_report(const struct disturbance *disturbance, const struct saving *saving,
                        unsigned threads, struct measure *measure, const char *prefix)
{
    report_stall(disturbance, measure, prefix);
    report_steps(disturbance, measure, prefix);
    report_interval(disturbance, saving, threads, measure, prefix);
}
