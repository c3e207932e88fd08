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
struct download_memory {
    struct refused_checkpoints refused; /* records of unusable objects */
    char failed_job[NAME_SIZE];         /* not retried before retry_at_ns */
    uint64_t retry_at_ns;
};

struct download_view {
    const struct mirror *mirror;
    const char *cluster, *job;
    uint64_t own_step; /* newest checkpoint that the nodes have; 0: none */
    uint64_t now_ns;
    const char *busy_with; /* job whose checkpoint is being fetched; "": none */
    const struct download_memory *memory;
};

enum download_action {
    DOWNLOAD_GO_ON,  /* nothing to wait for */
    DOWNLOAD_BEGIN,  /* fetch this object; the job waits */
    DOWNLOAD_WAIT,   /* in flight, or to be retried later */
    DOWNLOAD_QUEUED, /* another job's download comes first */
};

/** download_choose() - decide for a job that names a bucket; set *ret_object and the revision of
 * its record unless DOWNLOAD_GO_ON */
enum download_action download_choose(const struct download_view *view,
                                     struct object_record *ret_object, int64_t *ret_revision);

/** download_is_lost() - return true if @status means that this checkpoint is unusable (use the
 * one before it), false if only this try failed */
bool download_is_lost(int status);
