/*
 * Faults and operator requests: drawn from the seed when the run begins, and over by a known time.
 * After that time training must continue.
 *
 * Steps of the wall clock are no fault here: no decision reads it. Decisions get monotonic time as
 * an argument; wall time is written into records for people, and no code compares it.
 */
#pragma once

#include "sim/worker/sim_worker.h"

struct sim_fault {
    struct sim_fault *next;
    struct sim *sim;
    const struct sim_fault_kind *kind;
    unsigned node, other, amount;
    uint64_t until_ns;
    uint64_t struck_ns; /* when a fault that waits for its occasion struck; 0: not yet */
    bool begun;
};

/* An ambush takes one firnd, or two. */
static inline bool sim_fault_takes_two(const struct sim_fault *fault)
{
    return fault->amount % 3 == 0;
}

/* sim_fault_kinds.c */
struct sim_fault_kind {
    const char *name;
    unsigned least_ms, most_ms; /* how long it lasts */
    /** begin() - false: nothing to hit; end() - NULL: nothing to undo */
    bool (*begin)(struct sim *sim, struct sim_fault *fault);
    void (*end)(struct sim *sim, const struct sim_fault *fault);
    bool of_store; /* touches only the store */
};
extern const struct sim_fault_kind sim_fault_kinds[];
extern const unsigned sim_fault_kind_count;
extern const struct sim_fault_kind sim_fault_alone; /* the check needs it long and without others */

/* The next worker that reaches this point dies, or is stopped, there. */
struct sim_trap {
    bool armed, kills;
    bool in_switch; /* only in a generation that has not committed yet */
    enum sim_point point;
    unsigned skips;
    struct sim_node *deaf; /* from then on its daemon receives nothing for a while; or NULL */
};

struct sim_faults {
    struct sim *sim;
    struct sim_fault *list;
    uint64_t over_ns; /* the end of the last fault */
    uint64_t store_disturbed_ns;
    uint64_t disturbed_ns; /* when a fault last touched anything but the store */
    unsigned disturbing;   /* number of current faults, without those of the store */
    struct sim_trap trap;
    struct sim_fault *ambush; /* waits for a planned change with its node in it; NULL: none */
    unsigned wish, devices;
    uint64_t slots_back_ns; /* when slots that return to service by themselves are back */
    uint64_t nan_step;      /* in a scene: the loss of this step is NaN; 0: none */
    uint64_t outage_ns;     /* since when the store is away, without other faults; or 0 */
};

struct sim_faults *sim_faults_new(struct sim *sim);
/** sim_faults_wish() - Write the current operator request to the store */
void sim_faults_wish(struct sim *sim);
void sim_faults_free(struct sim_faults *faults);
/** sim_faults_answer() - Answer as operator if the job asks to begin at step 0 again */
void sim_faults_answer(struct sim *sim);
/** sim_faults_excuse() - Declare as operator the slots of @node good again */
void sim_faults_excuse(struct sim *sim, const struct sim_node *node);
/** sim_faults_at() - Note that a worker has reached a point */
void sim_faults_at(struct sim_worker *worker);
/** sim_faults_planned() - Note that @plan is about to be in force */
void sim_faults_planned(struct sim *sim, const struct plan *plan);
