/*
 * Draw the time that a step takes, from a millisecond to half an hour. Every limit of the cluster
 * but the failure time-out must hold for all of them.
 */
#include "sim/sim_scale.h"

#include <math.h>

#include "sim/sim_bits.h"
#include "sim/sim_cuts.h"
#include "sim/sim_notices.h"
#include "sim/sim_stragglers.h"

#define SCALED_ONE_IN 4 /* histories: a long one costs as much as ten others */
#define SCALED_SALT   0x7363616c65
#define SHORTEST_US   1000.0
#define LONGEST_US    1800e6
#define COMPUTED_US   100e6 /* of a whole job, about */
#define STEPS_LEAST   4
#define RESOLUTION    ((uint64_t)1 << 20)
#define LONG_STEP_US  200000 /* the other histories have no longer ones */

static bool others_need_their_times(const struct sim *sim)
{
    return sim->one_fault || sim_cuts_lone(sim) || sim_stragglers_alone(sim) ||
           sim_notices_alone(sim) || sim_bits_alone(sim) ||
           sim->spec.elastic.evict_stragglers.factor > 0;
}

/* Draw by the seed alone, so that other draws are the same with and without. */
void sim_scale_draw(struct sim *sim)
{
    uint64_t draw = sim_mix(sim->seed, SCALED_SALT);
    if (others_need_their_times(sim) || draw % SCALED_ONE_IN != 0)
        return;
    double share = (double)(draw / SCALED_ONE_IN % RESOLUTION) / (double)RESOLUTION;
    double step_us = SHORTEST_US * pow(LONGEST_US / SHORTEST_US, share);
    uint64_t steps = (uint64_t)MAX(COMPUTED_US / step_us, (double)STEPS_LEAST);
    sim->compute_us = (uint64_t)step_us;
    if (sim->compute_us < LONG_STEP_US)
        return;
    sim->spec.train.steps = MIN(sim->spec.train.steps, steps);
    if (sim->spec.checkpoint.every > 0)
        sim->spec.checkpoint.every = 1 + sim->spec.checkpoint.every % (unsigned)steps;
}

uint64_t sim_scale_beyond_ns(const struct sim *sim)
{
    return sim->compute_us < LONG_STEP_US ? 0 : SIM_UNITS * sim->compute_us * NS_PER_US;
}
