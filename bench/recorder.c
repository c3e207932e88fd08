/*
 * The cost of a worker's trace (worker/trace/recorder.h): the time to record one span, and steps of
 * a very small model with and without the recorder, in turns. Such steps have the most spans for
 * their time; the larger a model, the smaller the overhead.
 */
#include <stdio.h>
#include <string.h>

#include "bench/lib/measure.h"
#include "bench/lib/rig.h"
#include "bench/lib/usage.h"
#include "worker/trace/recorder.h"

#define SPANS  1000000
#define ROUNDS 2000

static const struct rig_options shapes = {.layers = 2,
                                          .width = 32,
                                          .heads = 2,
                                          .context = 32,
                                          .vocab = 256,
                                          .micro_batch = 1,
                                          .lanes = 12,
                                          .thread_count = 1};

static struct samples with, without, ratios;

static struct recorder *open_recorder(const struct rig *rig)
{
    const struct recorder_options options = {.folder = rig->scratch.path};
    struct recorder *recorder;
    struct error error = {0};

    if (recorder_open(&options, &recorder, &error))
        measure_die("%s", error.text);
    return recorder;
}

/* Return the nanoseconds of one span: two clock readings, the checksum and the store. */
static double span_ns(struct recorder *recorder)
{
    double began = measure_now();

    for (unsigned i = 0; i < SPANS; i++) /* begun long ago, else too short to be kept */
        recorder_add_kind(recorder, 1, TRACE_STEP, i);
    return (measure_now() - began) / SPANS * 1e9;
}

static double step_seconds(struct rig *rig, struct recorder *recorder)
{
    rig->engine->timing.recorder = recorder;
    double began = measure_now();
    (void)rig_step(rig, NULL);
    return measure_now() - began;
}

/* Run both variants; each goes first in every second round. */
static void run_round(struct rig *rig, struct recorder *recorder, bool first)
{
    double traced = first ? step_seconds(rig, recorder) : 0;
    double plain = step_seconds(rig, NULL);

    if (!first)
        traced = step_seconds(rig, recorder);
    samples_add(&with, traced);
    samples_add(&without, plain);
    samples_add(&ratios, traced / plain);
}

static const struct usage_option known[] = {
    {"--rounds", "N", "steps of each kind (2000, at most 4096)"},
};

int main(int argc, char **argv)
{
    usage_check(argc, argv, known, ARRAY_COUNT(known));
    unsigned rounds = measure_count(argc, argv, "--rounds", ROUNDS);
    struct measure *measure = measure_begin(
        "recorder", "steps of a very small model with the recorder, beside steps without", argc,
        argv);
    struct rig *rig = rig_open(&shapes);
    struct recorder *recorder = open_recorder(rig);
    double one_ns = span_ns(recorder);

    for (unsigned i = 0; i < 20; i++) /* page faults, caches */
        (void)step_seconds(rig, recorder);
    for (unsigned i = 0; i < rounds; i++)
        run_round(rig, recorder, i % 2);
    printf("a span: %.0f ns; a step: %.3f ms without the recorder, %.3f ms with it, ratio %.4f "
           "(10-90%%: %.3f-%.3f)\n",
           one_ns, 1e3 * samples_median(&without), 1e3 * samples_median(&with),
           samples_median(&ratios), samples_quantile(&ratios, 0.1), samples_quantile(&ratios, 0.9));
    measure_number(measure, "span_ns", one_ns);
    measure_samples(measure, "step_seconds_without", &without);
    measure_samples(measure, "step_seconds_with", &with);
    measure_samples(measure, "with_over_without", &ratios);
    recorder_close(recorder);
    rig_close(rig);
    return measure_end(measure);
}
