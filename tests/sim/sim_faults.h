/*
 * What goes wrong, and what people ask for meanwhile: drawn from the seed when the run begins, and
 * over by a known time, after which training has to go on.
 */
#pragma once

#include "sim/sim_worker.h"

struct sim_fault;

struct sim_faults {
    struct sim *sim;
    struct sim_fault *list;
    uint64_t over_ns; /* the last one's end */
    uint64_t store_disturbed_ns;
    /* The next worker that comes to this point dies, or is stopped, there. */
    bool trap_armed, trap_kills;
    enum sim_point trap;
    unsigned trap_skips;
    bool draining[SIM_NODES_MAX];
    unsigned wish, devices;
};

struct sim_faults *sim_faults_new(struct sim *sim);
void sim_faults_free(struct sim_faults *faults);
/** sim_faults_at() - a worker came to a point */
void sim_faults_at(struct sim_worker *worker);
