/*
 * The slowdown of training by checkpoints that are written at the same time.
 *
 * Each round has some undisturbed steps, then a checkpoint and the steps until it is on disk.
 * The loss of a round is relative to the undisturbed steps before and after it, so a machine that
 * becomes slower meanwhile does not count. Wall time is the cost for training, but other programs
 * stretch it. Processor time is the share that saving takes from computing; other programs do not
 * change it.
 */
#pragma once

#include "bench/lib/measure.h"
#include "bench/lib/saving.h"

struct disturbance {
    struct samples stall;       /* of each checkpoint: wait of the step loop */
    struct samples step;        /* undisturbed steps */
    struct samples step_saving; /* while a checkpoint is written */
    struct samples extra;       /* seconds that a checkpoint's steps took longer, stall included */
    struct samples extra_cpu;   /* processor seconds on top of the steps' own, all threads */
    struct samples slowed;      /* of each round: its steps while saving against undisturbed ones */
    struct samples slowed_noise; /* the same for undisturbed steps: the noise */
};

/** disturbance_measure() - measure @rounds checkpoints, each after @steps undisturbed steps */
void disturbance_measure(struct disturbance *disturbance, struct saving *saving, unsigned rounds,
                         unsigned steps);
/** disturbance_report() - print the report, and write its numbers under keys that begin with
 * @prefix */
void disturbance_report(const struct disturbance *disturbance, const struct saving *saving,
                        unsigned threads, struct measure *measure, const char *prefix);
