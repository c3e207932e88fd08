/*
 * Who computes slower than its peers: judged by rank 0, from the times that come with every commit
 * (worker/step/step_commit.h). A pure state machine: it knows no clock, and what it says follows
 * from the times alone.
 *
 * A time is what a worker computed by itself in a step, divided by the lanes that it carries, so
 * that replicas with more lanes are not taken for slow ones.
 */
#pragma once

#include "elastic/plan/plan.h"

#define STRAGGLER_VERDICTS_MAX 8

/* @rank computes at @speed times that of its peers, which is not what the plan knows of it. */
struct straggler_verdict {
    unsigned rank;
    double speed; /* above 0; 1: as fast as they are (again) */
};

/* The slowest worker of a stage in one step, for people. */
struct straggler_stage {
    unsigned rank;
    uint64_t lane_ns;    /* what it took for one lane */
    uint64_t fastest_ns; /* what the fastest of the stage took */
};

/**
 * straggler_slowest() - of every stage of @plan
 * @busy_ns: of each rank in one step, all its lanes; 0: not known
 * @ret_stages: plan->stage_count; lane_ns is 0 where nobody's time is known
 */
void straggler_slowest(const struct plan *plan, const uint64_t *busy_ns,
                       struct straggler_stage *ret_stages);

struct straggler;

/**
 * straggler_new() - judges the workers of @plan, as long as their work stays the same
 * @factor: how many times slower is too slow, above 1; @steps: for how many steps, at least 2
 *
 * Return: 0 or -ENOMEM.
 */
int straggler_new(const struct plan *plan, double factor, unsigned steps,
                  struct straggler **ret_straggler) CHECK_RESULT;
void straggler_free(struct straggler *straggler);

/** straggler_step() - the times of one committed step; one in which a time is unknown counts for
 * nothing */
void straggler_step(struct straggler *straggler, const uint64_t *busy_ns);

/** straggler_verdicts() - what stands now, lowest ranks first; returns how many */
unsigned straggler_verdicts(const struct straggler *straggler,
                            struct straggler_verdict ret_verdicts[STRAGGLER_VERDICTS_MAX]);
