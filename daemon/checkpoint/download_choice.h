/*
 * Decide whether a job waits for a checkpoint from the object store, and for which one. The inputs
 * are the cluster's keys and the results of earlier tries. No side effects.
 *
 * The newest readable checkpoint wins, wherever it is stored. The checkpoint in the store wins when
 * its step is later than the newest one that the nodes have. When the store does not answer, a job
 * with an older checkpoint of its own resumes from that; a job without one waits.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "daemon/core/refused.h"
#include "membership/kv/records.h"

/* A leader's memory of its tries. */
struct fetching_memory {
    struct refused_checkpoints refused; /* records of unusable objects */
    char failed_job[NAME_SIZE];         /* not retried before retry_at_ns */
    uint64_t retry_at_ns;
};

struct fetching_view {
    const struct mirror *mirror;
    const char *cluster, *job;
    uint64_t own_step; /* newest checkpoint that the nodes have; 0: none */
    uint64_t now_ns;
    const char *busy_with; /* job whose checkpoint is being fetched; "": none */
    const struct fetching_memory *memory;
};

enum fetching_verdict {
    FETCHING_GO_ON,  /* nothing to wait for */
    FETCHING_BEGIN,  /* fetch this object; the job waits */
    FETCHING_WAIT,   /* in flight, or to be retried later */
    FETCHING_QUEUED, /* another job's download comes first */
};

/** fetching_choose() - decide for a job that names a bucket; set *ret_object and the revision of
 * its record unless FETCHING_GO_ON */
enum fetching_verdict fetching_choose(const struct fetching_view *view,
                                      struct object_record *ret_object, int64_t *ret_revision);

/** fetching_is_lost() - return true if @status means that this checkpoint is unusable (use the
 * one before it), false if only this try failed */
bool fetching_is_lost(int status);
