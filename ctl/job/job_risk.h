/*
 * Compute the recovery point of a job: the steps since the newest recorded checkpoint, which would
 * be lost if all workers of the job died now. The job would recompute them, with the same bits.
 */
#pragma once

#include "ctl/cluster/cluster.h"

struct job_risk {
    uint64_t lost_steps;
    double lost_seconds; /* to recompute them at the present speed; NaN: unknown */
    const struct checkpoint_record *durable;  /* the newest; NULL: none, all is lost */
    double durable_age_seconds;               /* its age */
    bool all_damaged;                         /* there are checkpoints, but none is sound */
    const struct checkpoint_record *verified; /* the newest verified one that this machine reaches;
                                                 NULL: none */
};

/** job_risk() - compute it from etcd, which gets progress once a second; records stay the job's */
struct job_risk job_risk(const struct cluster_job *job, uint64_t now_unix_ns);

/** job_risk_json() - return a new reference; NULL: memory is short */
json_t *job_risk_json(const struct job_risk *risk);
/** job_risk_print() - print the lines of `firnctl job show` */
void job_risk_print(const struct job_risk *risk);
