/*
 * Draw the time that a step takes, from a millisecond to half an hour, the micro-batches of which a
 * long one consists, and the time in which a process opens its device, and then reads its state,
 * from 50 ms to ten minutes each. A file server answers at once, or in a millisecond to 20 s. Every
 * limit of the cluster but the failure timeout must hold for all of them.
 */
#include "sim/sim_scale.h"

#include <math.h>

#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_notices.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/worker/sim_bits.h"

#define SCALED_ONE_IN         4 /* histories: a long one costs as much as ten others */
#define NOTICES_ONE_IN        2 /* of histories with only a notice */
#define SCALED_SALT           0x7363616c65
#define BATCHES_SALT          0x62617463
#define STEP_LEAST_US         1e3
#define STEP_MOST_US          1800e6
#define START_LEAST_US        50e3
#define START_MOST_US         600e6
#define COMPUTED_US           100e6 /* of a whole job, about */
#define STEPS_LEAST           4
#define FILES_SALT            0x66696c65
#define FILES_ONE_IN          4
#define ERRAND_LEAST_US       1e3
#define ERRAND_MOST_US        20e6
#define EVALUATION_SALT       0x6576616c
#define EVALUATION_LEAST_US   10e3
#define EVALUATION_MOST_US    60e6
#define EVALUATION_NOTICED_US 10e6 /* at least, if a notice is to meet the evaluation */
#define MOMENTS_SALT          0x6d6f6d656e
#define SUMS_SALT             0x73756d73
#define MOMENTS_LEAST_US      1e3
#define COPIES_SALT           0x636f70696573
#define COPIES_ONE_IN         3
#define COPIES_LEAST          0.1 /* between two copies, of a step */
#define COPIES_MOST           0.5
#define RESOLUTION            ((uint64_t)1 << 20)
#define LONG_STEP_US          200000 /* other histories have no longer steps */

static bool others_need_their_times(const struct sim *sim)
{
    return sim->one_fault || sim_cuts_lone(sim) || sim_stragglers_alone(sim) ||
           sim_bits_alone(sim) || sim->spec.elastic.evict_stragglers.factor > 0;
}

/* Return a time that is equally likely in each decade. */
static double between(double least, double most, uint64_t draw)
{
    return least * pow(most / least, (double)(draw % RESOLUTION) / (double)RESOLUTION);
}

/* Draw by the seed alone, so that other draws are the same with and without a scale. */
void sim_scale_draw(struct sim *sim)
{
    uint64_t draw = sim_mix(sim->seed, SCALED_SALT);
    uint64_t one_in = sim_notices_alone(sim) ? NOTICES_ONE_IN : SCALED_ONE_IN;
    if (others_need_their_times(sim))
        return;
    sim->slowness.slow_files = sim_mix(sim->seed, FILES_SALT) % FILES_ONE_IN == 0;
    if (sim->slowness.slow_files)
        sim_trace(sim, "SCALE a slow file server");
    if (draw % one_in != 0)
        return;
    double step_us = between(STEP_LEAST_US, STEP_MOST_US, draw / SCALED_ONE_IN);
    uint64_t steps = (uint64_t)MAX(COMPUTED_US / step_us, (double)STEPS_LEAST);
    sim->compute_us = (uint64_t)step_us;
    sim->slowness.slow_starts = !sim_notices_alone(sim) && sim_mix(draw, SCALED_SALT) % 2 == 0;
    sim_trace(sim, "SCALE steps of %.3f s%s", step_us / 1e6,
              sim->slowness.slow_starts ? ", processes that start slowly" : "");
    if (sim->compute_us < LONG_STEP_US)
        return;
    static const unsigned micro_batches[] = {1, 2, 16,
                                             64}; /* of a lane; no worker looks within one */
    sim->spec.train.micro_batches_per_lane = micro_batches[sim_mix(draw, BATCHES_SALT) % 4];
    sim->spec.train.steps = MIN(sim->spec.train.steps, steps);
    if (sim->spec.checkpoint.every > 0)
        sim->spec.checkpoint.every = 1 + sim->spec.checkpoint.every % (unsigned)steps;
}

uint64_t sim_scale_device_ns(const struct sim *sim, uint64_t instance)
{
    return sim->slowness.slow_starts ? NS_PER_US * (uint64_t)between(START_LEAST_US, START_MOST_US,
                                                                     sim_mix(instance, SCALED_SALT))
                                     : 0;
}

uint64_t sim_scale_restore_ns(const struct sim *sim, uint64_t instance, uint64_t generation)
{
    return sim_scale_device_ns(sim, sim_mix(instance, generation));
}

uint64_t sim_scale_moments_ns(const struct sim *sim, uint64_t instance, uint64_t generation)
{
    double most_us = MAX(MOMENTS_LEAST_US, (double)sim->compute_us / 2);
    uint64_t draw = sim_mix(sim_mix(instance, MOMENTS_SALT), generation);
    return sim->one_fault ? 0 : NS_PER_US * (uint64_t)between(MOMENTS_LEAST_US, most_us, draw);
}

uint64_t sim_scale_sums_ns(const struct sim *sim, uint64_t instance, uint64_t generation)
{
    double most_us = MAX(MOMENTS_LEAST_US, 2 * (double)sim->compute_us);
    uint64_t draw = sim_mix(sim_mix(instance, SUMS_SALT), generation);
    return sim->one_fault ? 0 : NS_PER_US * (uint64_t)between(MOMENTS_LEAST_US, most_us, draw);
}

double sim_scale_copy_seconds(const struct sim *sim, uint64_t generation)
{
    uint64_t draw = sim_mix(sim_mix(sim->seed, COPIES_SALT), generation);
    if (others_need_their_times(sim) || draw % COPIES_ONE_IN != 0)
        return 0;
    return (double)sim->compute_us / 1e6 * between(COPIES_LEAST, COPIES_MOST, draw / COPIES_ONE_IN);
}

uint64_t sim_scale_start_max_ns(const struct sim *sim)
{
    return sim->slowness.slow_starts ? 2 * (uint64_t)START_MOST_US * NS_PER_US : 0;
}

uint64_t sim_scale_long_step_ns(const struct sim *sim)
{
    return sim->compute_us < LONG_STEP_US ? 0 : sim->compute_us * NS_PER_US;
}

uint64_t sim_scale_beyond_ns(const struct sim *sim)
{
    return SIM_UNITS * sim_scale_long_step_ns(sim);
}

static double evaluation_most_us(const struct sim *sim)
{
    return MAX(EVALUATION_MOST_US, (double)sim->compute_us);
}

uint64_t sim_scale_evaluation_max_ns(const struct sim *sim)
{
    return sim->spec.evaluate.every > 0 ? NS_PER_US * (uint64_t)evaluation_most_us(sim) : 0;
}

uint64_t sim_scale_evaluation_ns(struct sim *sim)
{
    uint64_t draw = sim_mix(sim_mix(sim->seed, EVALUATION_SALT), sim->slowness.evaluations++);
    double least_us = sim_notices_alone(sim) ? EVALUATION_NOTICED_US : EVALUATION_LEAST_US;
    return NS_PER_US * (uint64_t)between(least_us, evaluation_most_us(sim), draw);
}

uint64_t sim_scale_errand_ns(struct sim *sim, bool *ret_early)
{
    uint64_t draw = sim_mix(sim_mix(sim->seed, FILES_SALT), sim->slowness.errands++);
    *ret_early = draw % 2 == 0;
    if (!sim->slowness.slow_files)
        return 0;
    return NS_PER_US * (uint64_t)between(ERRAND_LEAST_US, ERRAND_MOST_US, draw / 2);
}
