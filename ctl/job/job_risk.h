/*
 * Compute the recovery point of a job: the steps since the newest recorded checkpoint, which would
 * be lost if all workers of the job died now. The job would recompute them, with the same bits.
 */
#pragma once

#include "ctl/cluster/cluster.h"

struct job_risk {
    uint64_t lost_steps;
    double lost_seconds; /* to compute them again at the present speed; NaN: unknown */
    const struct checkpoint_record *durable;  /* the newest; NULL: none, all is lost */
    double durable_age_seconds;               /* of it */
    bool all_damaged;                         /* there are checkpoints, and none is sound */
    const struct checkpoint_record *verified; /* the newest that was read whole and is good, as far
                                                 as this machine reaches it; NULL: none */
};

/** job_risk() - as etcd has it, which hears of progress once a second; records stay the job's */
struct job_risk job_risk(const struct cluster_job *job, uint64_t now_unix_ns);

/** job_risk_json() - new reference, NULL when memory is short */
json_t *job_risk_json(const struct job_risk *risk);
/** job_risk_print() - the lines of `firnctl job show` */
void job_risk_print(const struct job_risk *risk);
