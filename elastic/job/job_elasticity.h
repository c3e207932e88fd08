/*
 * The section `elastic` of a job: the number of devices, which devices and copies of state, the
 * eviction of slow workers, the schedule of a pipeline, and freezing. Of these only freezing
 * decides bits, and only the number of devices changes after submission.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define JOB_DEVICES_MAX 4096

enum job_freeze {
    JOB_FREEZE_NONE,
    JOB_FREEZE_GRADIENT,
    JOB_FREEZE_SCHEDULE,
    JOB_FREEZE_PLASTICITY,
    JOB_FREEZE_BUDGET,
};

/* The order of a pipeline's operations (elastic/plan/pipeline_schedule.h). */
enum job_pipeline { JOB_PIPELINE_AUTO, JOB_PIPELINE_1F1B };

/* When layers freeze (elastic/step/freeze.h). */
struct job_freezing {
    enum job_freeze policy;
    double alpha;
    uint64_t every;       /* steps between decisions */
    unsigned keep_active; /* layers that never freeze */
    unsigned from_start;  /* layers that are frozen before step 1 */
    uint64_t after;       /* the step after which gradients count and decisions begin */
    double guard, thaw;   /* fractions of the best validation loss; 0: none */
    double tolerance;     /* of `plasticity`: fraction of the larger mean */
    unsigned patience;    /* of `plasticity`: values in a mean */
    double budget;        /* of `budget`: fraction of a step without frozen layers */
    uint64_t cache_mb;    /* MiB of a node's disk for outputs of frozen layers; 0: none are kept */
};

/* When a slow worker is replaced (elastic/leader/leader_slow.h). */
struct job_eviction {
    double factor;  /* slowdown relative to the peers; 0: no eviction */
    unsigned steps; /* steps over which the slowdown must last */
};

struct job_elasticity {
    unsigned devices_min, devices_max;
    bool mixed_devices; /* unlike devices may share the job: its bits depend on the device */
    bool shadow;        /* a stage with all replicas on one node has a copy on another */
    enum job_pipeline pipeline;
    struct job_eviction evict_stragglers;
    struct job_freezing freeze;
};
