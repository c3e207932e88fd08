/*
 * How much training is held up by the checkpoints that are written beside it.
 *
 * In rounds: some undisturbed steps, a checkpoint and the steps until it is on disk, and again.
 * What a round's steps lose is counted against the undisturbed ones before and after it, so that a
 * machine which becomes slower meanwhile does not count. Time by the clock is what training feels,
 * and other programs stretch it; processor time is what saving takes away from computing, and they
 * do not.
 */
#pragma once

#include "bench/measure.h"
#include "bench/saving.h"

struct disturbance {
    struct samples stall;       /* of each checkpoint: what the step loop itself waited */
    struct samples step;        /* undisturbed ones */
    struct samples step_saving; /* while a checkpoint is written */
    struct samples extra;       /* seconds that a checkpoint's steps took longer, stall included */
    struct samples extra_cpu;   /* processor seconds on top of the steps' own, all threads */
    struct samples slowed;      /* of each round: its steps while saving against undisturbed ones */
    struct samples slowed_noise; /* the same for undisturbed steps: what chance alone makes */
};

/** disturbance_measure() - @rounds checkpoints, each after @steps undisturbed steps */
void disturbance_measure(struct disturbance *disturbance, struct saving *saving, unsigned rounds,
                         unsigned steps);
/** disturbance_report() - in words, and as numbers that begin with @prefix */
void disturbance_report(const struct disturbance *disturbance, const struct saving *saving,
                        unsigned threads, struct measure *measure, const char *prefix);
