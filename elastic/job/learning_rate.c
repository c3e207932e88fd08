#include "elastic/job/learning_rate.h"

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
static double progress(const struct job_training *training, uint64_t step)
{
    uint64_t warmup = training->optimizer.warmup;
    uint64_t steps = training->steps;
    if (step >= steps)
        return 1;
    return (double)(step - warmup) / (double)(steps - warmup);
}

double learning_rate_at(const struct job_training *training, uint64_t step)
{
    double rate = training->optimizer.lr;
    double last = training->optimizer.min_lr_factor;
    uint64_t warmup = training->optimizer.warmup;
    if (step <= warmup && warmup > 0)
        return rate * ((double)step / (double)warmup);
    switch (training->optimizer.schedule) {
    case JOB_SCHEDULE_CONSTANT:
        break;
    case JOB_SCHEDULE_LINEAR:
        return rate * (1 - (1 - last) * progress(training, step));
    case JOB_SCHEDULE_COSINE:
        return rate *
               (last + (1 - last) * 0.5 * (1 + cosine_of_pi_times(progress(training, step))));
    }
    return rate;
}
