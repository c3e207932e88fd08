/*
 * Detect stragglers: workers that compute slower than their peers. Rank 0 judges them by the times
 * that come with every commit (protocol/step_commit.h). A pure state machine without a clock:
 * its judgements follow from the times alone.
 *
 * A time is a worker's own compute time in a step, divided by the number of its lanes, so that
 * replicas with more lanes do not count as slow.
 */
#pragma once

#include "elastic/plan/plan.h"

#define STRAGGLER_JUDGEMENTS_MAX 8

/* @rank computes at @speed times its peers' speed, and the plan has another speed for it. */
struct straggler_judgement {
    unsigned rank;
    double speed; /* above 0; 1: as fast as its peers (again) */
};

/* The slowest worker of a stage in one step, for people. */
struct straggler_stage {
    unsigned rank;
    uint64_t lane_ns;    /* its time for one lane */
    uint64_t fastest_ns; /* the same of the fastest worker of the stage */
};

/**
 * straggler_slowest() - find the slowest worker of every stage of @layout
 * @busy_ns: of each rank in one step, all its lanes; 0: not known
 * @ret_stages: plan->stage_count; lane_ns is 0 if no worker's time is known
 */
void straggler_slowest(const struct plan_layout *layout, const uint64_t *busy_ns,
                       struct straggler_stage *ret_stages);

struct straggler;

/**
 * straggler_new() - create a judge of the workers of @plan, as long as their work stays the same
 * @factor: the slowdown that counts, above 1; @steps: the number of steps of a window, at least 2
 *
 * Return: 0 or -ENOMEM.
 */
int straggler_new(const struct plan *plan, double factor, unsigned steps,
                  struct straggler **ret_straggler) CHECK_RESULT;
void straggler_free(struct straggler *straggler);

/** straggler_step() - add one committed step's times; a step with an unknown time is ignored */
void straggler_step(struct straggler *straggler, const uint64_t *busy_ns);

/** straggler_judgements() - list the judgements that stand now, lowest ranks first; return their
 * number */
unsigned straggler_judgements(const struct straggler *straggler,
                              struct straggler_judgement ret_judgements[STRAGGLER_JUDGEMENTS_MAX]);
