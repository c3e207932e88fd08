/*
 * Scripted scenes of a cluster for tests: the simulator (tests/sim/sim.h) with a quiet cluster, in
 * which all faults come from the test.
 *
 *     struct scene *scene = scene_training(3, 2);          nodes a, b and c of two slots train
 *     scene_drain(scene, 2, SCENE_NO_DEADLINE);
 *     scene_until(scene, 5, scene_plan(scene)->change.reason == PLAN_REASON_DRAIN);
 *     scene_free(scene);
 *
 * Node a leads until it is switched off or the test asks for another leader. Tests see the same as
 * an operator: the plan in force and the job's state in the simulated etcd. All checkers of the
 * simulator run, and a broken rule fails the test.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "elastic/leader/leader.h"
#include "membership/kv/records.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_worker.h"

#define SCENE_NO_DEADLINE      0
#define SCENE_CHECKPOINT_EVERY 20 /* steps */

/* The leader's writes since the start of the job. */
struct scene_writes {
    unsigned published, prepared, dropped;
    unsigned restarts_from_disk;               /* after a failure */
    unsigned reasons[PLAN_REASON_UPGRADE + 1]; /* plans published for each reason */
};

/* A job's plan in the store, decoded anew whenever it changes. */
struct scene_key {
    int64_t revision;  /* 0: not there */
    struct plan *plan; /* NULL: not there */
};

struct scene {
    struct sim *sim;
    struct scene_key generation, next;
    int64_t seen_revision; /* of the store */
    struct state_record state;
    struct scene_writes writes;
};

/* ---- the cluster ---- */

/** scene_new() - make a cluster whose machines are switched off; the test may still change
 * scene->sim->spec and costs */
struct scene *scene_new(unsigned nodes, unsigned slots);
/** scene_begin() - switch all machines on, and submit the job when they are registered */
void scene_begin(struct scene *scene);
/** scene_power_on() - switch a machine on, and wait until its node is registered */
void scene_power_on(struct scene *scene, unsigned node);
/** scene_submit() - submit the job */
void scene_submit(struct scene *scene);
/** scene_training() - make a cluster whose job has trained for a few steps */
struct scene *scene_training(unsigned nodes, unsigned slots);
/** scene_free() - check that no rule was broken, and free the cluster */
void scene_free(struct scene *scene);

/* ---- time ---- */

/** scene_tick() - let a little time pass */
void scene_tick(struct scene *scene);
/** scene_run() - let @seconds pass */
void scene_run(struct scene *scene, double seconds);
/** scene_progress() - let the job commit @steps more, in any generation */
void scene_progress(struct scene *scene, unsigned steps);
/** scene_fail() - fail the test because @condition has not come true in @seconds */
void scene_fail(const struct scene *scene, double seconds, const char *condition);

/* Run until @condition is true, at most @seconds. */
#define scene_until(scene, seconds, condition)                                                     \
    do {                                                                                           \
        uint64_t until_ns_ = (scene)->sim->now_ns + (uint64_t)((seconds)*1e9);                     \
        while (!(condition)) {                                                                     \
            if ((scene)->sim->now_ns >= until_ns_)                                                 \
                scene_fail(scene, seconds, #condition);                                            \
            scene_tick(scene);                                                                     \
        }                                                                                          \
    } while (0)

/* ---- observations ---- */

/** scene_plan() - return the plan in force; NULL before the first */
static inline const struct plan *scene_plan(const struct scene *scene)
{
    return scene->generation.plan;
}

/** scene_next() - return the plan that is being prepared; NULL: none */
static inline const struct plan *scene_next(const struct scene *scene)
{
    return scene->next.plan;
}

/** scene_is() - return whether the job's state is @state */
bool scene_is(const struct scene *scene, const char *state);
/** scene_says() - return whether the text of the job's state contains @words */
bool scene_says(const struct scene *scene, const char *words);
/** scene_explains() - return whether the text of the plan in force contains @words */
bool scene_explains(const struct scene *scene, const char *words);
/** scene_committed() - return the last committed step that is not lost */
uint64_t scene_committed(const struct scene *scene);
/** scene_checkpoint() - return the step of the newest recorded checkpoint; 0: none */
uint64_t scene_checkpoint(const struct scene *scene);
/** scene_trains() - return whether every rank of the plan in force trains in it */
bool scene_trains(const struct scene *scene);
/** scene_rank() - return the rank of a slot in the plan in force; -1: none */
int scene_rank(const struct scene *scene, unsigned node, unsigned slot);
/** scene_uses() - return whether a slot's worker has a rank, not as a donor, in the plan in force
 */
bool scene_uses(const struct scene *scene, unsigned node, unsigned slot);
/** scene_alive() - return the number of worker processes */
unsigned scene_alive(const struct scene *scene);
/** scene_alive_on() - return the number of worker processes on @node */
unsigned scene_alive_on(const struct scene *scene, unsigned node);
/** scene_leader() - return the node that leads; it is an error if none does */
unsigned scene_leader(const struct scene *scene);
