/*
 * Faults and operator requests: drawn from the seed when the run begins, and over by a known time.
 * After that time training has to go on.
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
    uint64_t struck_ns; /* a fault that waits for its occasion: when it struck; 0: not yet */
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
    /** begin() - false: there is nothing to hit; end() - NULL: nothing is to be undone */
    bool (*begin)(struct sim *sim, struct sim_fault *fault);
    void (*end)(struct sim *sim, const struct sim_fault *fault);
    bool of_store; /* nothing but the store is touched */
};
extern const struct sim_fault_kind sim_fault_kinds[];
extern const unsigned sim_fault_kind_count;
extern const struct sim_fault_kind sim_fault_alone; /* that must last and be alone to be judged */

/* The next worker that comes to this point dies, or is stopped, there. */
struct sim_trap {
    bool armed, kills;
    bool in_switch; /* only a generation that has not committed yet */
    enum sim_point point;
    unsigned skips;
    struct sim_node *deaf; /* its daemon receives nothing for a while from then on; NULL */
};

struct sim_faults {
    struct sim *sim;
    struct sim_fault *list;
    uint64_t over_ns; /* the last one's end */
    uint64_t store_disturbed_ns;
    uint64_t disturbed_ns; /* when anything but the store was touched last */
    unsigned disturbing;   /* how many faults, other than the store's, last */
    struct sim_trap trap;
    struct sim_fault *ambush; /* waits for a planned change with its node in it; NULL: none */
    unsigned wish, devices;
    uint64_t
        slots_back_ns;  /* slots that are out of service, and left to themselves, are back then */
    uint64_t nan_step;  /* of a scene: the loss of this step is NaN; 0: none */
    uint64_t outage_ns; /* since when nothing is disturbed but the store, which is away; or 0 */
};

struct sim_faults *sim_faults_new(struct sim *sim);
/** sim_faults_wish() - Write the current operator request to the store */
void sim_faults_wish(struct sim *sim);
void sim_faults_free(struct sim_faults *faults);
/** sim_faults_answer() - Answer as operator if the job asks to begin at step 0 again */
void sim_faults_answer(struct sim *sim);
/** sim_faults_excuse() - Declare as operator that the cause for slots of @node out of service is
 * over */
void sim_faults_excuse(struct sim *sim, const struct sim_node *node);
/** sim_faults_at() - a worker came to a point */
void sim_faults_at(struct sim_worker *worker);
/** sim_faults_planned() - @plan is about to be in force */
void sim_faults_planned(struct sim *sim, const struct plan *plan);
