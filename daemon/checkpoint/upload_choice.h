/*
 * Which checkpoint this node sends to the object store next, and in which role: decided from the
 * cluster's keys and from what this daemon has done already. Does nothing itself.
 *
 * Of a job the newest recorded checkpoint is sent by the node that recorded it, or by whoever leads
 * when that node is gone. With copies the other nodes help: when the record of the store says that
 * a checkpoint is on its way, each sends what it has written. Before there is a checkpoint, those
 * who will send try whether they can.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "elastic/plan/plan.h"
#include "membership/kv/records.h"

enum storing_role { STORING_NOTHING, STORING_SENDS, STORING_HELPS, STORING_TRIES };

/* What this daemon remembers of its tries. */
struct storing_memory {
    char failed_job[NAME_SIZE], failed_sha256[RECORD_DIGEST_SIZE]; /* not again before ... */
    uint64_t retry_at_ns;
    char helped_job[NAME_SIZE], helped_sha256[RECORD_DIGEST_SIZE]; /* our files of it are there */
    char sent_job[NAME_SIZE], sent_sha256[RECORD_DIGEST_SIZE]; /* complete, the record on its way */
};

struct storing_view {
    const struct mirror *mirror;
    const char *cluster, *node;
    bool leads;
    uint64_t now_ns;
    const struct storing_memory *memory;
};

/** storing_choose() - what is to be done for @job, which names a bucket; the record is of the
 * checkpoint that is meant, the caller's to free, unchanged for STORING_NOTHING */
enum storing_role storing_choose(const struct storing_view *view, const char *job,
                                 struct checkpoint_record *ret_record);

/** storing_will_send() - whether @node is to send something of what the workers of @plan make: then
 * it tries the store when the job begins, STORING_TRIES */
bool storing_will_send(const struct plan *plan, const char *node);

/** storing_failed() - it is tried again at @retry_at_ns; whether this one had failed before */
bool storing_failed(struct storing_memory *memory, const char *job, const char *manifest_sha256,
                    uint64_t retry_at_ns);
/** storing_succeeded() - in @role */
void storing_succeeded(struct storing_memory *memory, enum storing_role role, const char *job,
                       const char *manifest_sha256);
