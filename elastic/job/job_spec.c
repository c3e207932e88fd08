/*
 * Numbers derived from a job's spec. Every worker computes them itself, so they must be identical
 * to the bit on every machine. Library functions whose last bit depends on version or processor are
 * not used.
 */
#include "elastic/job/job_spec.h"

#include <string.h>

/*
 * Return cos(pi x) for x in [0, 1], as sin(pi (1/2 - x)) by its Taylor series, summed from the
 * smallest term (Horner). On [-pi/2, pi/2] the first term left out is below 1e-18.
 */
static double cosine_of_pi_times(double x)
{
    const double pi = 3.14159265358979323846;
    double angle = pi * (0.5 - x);
    double square = angle * angle;
    double sum = 1;
    for (int n = 20; n >= 2; n -= 2)
        sum = 1 - square / (double)(n * (n + 1)) * sum;
    return angle * sum;
}

/* Return the progress of the steps after the warm-up, 0 to 1. */
static double progress(const struct job_spec *spec, uint64_t step)
{
    uint64_t warmup = spec->train.optimizer.warmup;
    uint64_t steps = spec->train.steps;
    if (step >= steps)
        return 1;
    return (double)(step - warmup) / (double)(steps - warmup);
}

double job_spec_learning_rate(const struct job_spec *spec, uint64_t step)
{
    double rate = spec->train.optimizer.lr;
    double last = spec->train.optimizer.min_lr_factor;
    uint64_t warmup = spec->train.optimizer.warmup;
    if (step <= warmup && warmup > 0)
        return rate * ((double)step / (double)warmup);
    switch (spec->train.optimizer.schedule) {
    case JOB_SCHEDULE_CONSTANT:
        break;
    case JOB_SCHEDULE_LINEAR:
        return rate * (1 - (1 - last) * progress(spec, step));
    case JOB_SCHEDULE_COSINE:
        return rate * (last + (1 - last) * 0.5 * (1 + cosine_of_pi_times(progress(spec, step))));
    }
    return rate;
}

uint64_t job_spec_tokens_per_step(const struct job_spec *spec)
{
    return (uint64_t)spec->train.lanes * spec->train.micro_batch *
           spec->train.micro_batches_per_lane * spec->model.context;
}

bool job_spec_checkpoint_due(const struct job_spec *spec, uint64_t step)
{
    return spec->checkpoint.every > 0 && step % spec->checkpoint.every == 0 &&
           step != spec->train.steps;
}

bool job_spec_is_llama(const struct job_spec *spec)
{
    return strcmp(spec->model.family, "llama") == 0;
}

unsigned job_spec_unit_count(const struct job_spec *spec)
{
    return 2 * spec->model.layers + 2;
}
