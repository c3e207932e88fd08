/*
 * Whether a job waits for a checkpoint from the object store, and for which: decided from the
 * cluster's keys and from how tries went. Does nothing itself.
 *
 * Of all checkpoints the newest that can be read is taken, wherever it lies: the one in the store
 * when it is of a later step than the newest that the nodes have. When the store does not answer, a
 * job that has an older one of its own goes on from that, and one that has none waits.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "daemon/core/refused.h"
#include "membership/kv/records.h"

/* What a leader remembers of its tries. */
struct fetching_memory {
    struct refused_checkpoints refused; /* records of objects that are no good */
    char failed_job[NAME_SIZE];         /* not again before retry_at_ns */
    uint64_t retry_at_ns;
};

struct fetching_view {
    const struct mirror *mirror;
    const char *cluster, *job;
    uint64_t own_step; /* of the newest checkpoint that the nodes have; 0: none */
    uint64_t now_ns;
    const char *busy_with; /* the job whose checkpoint is being fetched; "": none */
    const struct fetching_memory *memory;
};

enum fetching_verdict {
    FETCHING_GO_ON,  /* nothing is to be waited for */
    FETCHING_BEGIN,  /* fetch this one; the job waits */
    FETCHING_WAIT,   /* it is on its way, or tried again later */
    FETCHING_QUEUED, /* another job's comes first */
};

/** fetching_choose() - of a job that names a bucket; *ret_object and the revision of its record are
 * set unless FETCHING_GO_ON */
enum fetching_verdict fetching_choose(const struct fetching_view *view,
                                      struct object_record *ret_object, int64_t *ret_revision);

/** fetching_is_lost() - does @status of a try speak against this very checkpoint (and the one
 * before it is taken), or only against trying now? */
bool fetching_is_lost(int status);
