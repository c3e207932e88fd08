/*
 * Choose the checkpoint that this node uploads to the object store next, and the node's role. The
 * inputs are the cluster's keys and this daemon's own results. No side effects.
 *
 * The newest recorded checkpoint of a job is uploaded by the node that recorded it, or by the
 * leader if that node is gone. With copies, the other nodes help: once the object's record says
 * that the upload has begun, each node uploads the files that it has written. Before the first
 * checkpoint exists, each node that will upload tests its access to the store.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "elastic/plan/plan.h"
#include "membership/kv/records.h"

enum upload_role { UPLOAD_NOTHING, UPLOAD_SENDS, UPLOAD_HELPS, UPLOAD_TRIES };

/* This daemon's memory of its tries. */
struct upload_memory {
    char failed_job[NAME_SIZE], failed_sha256[RECORD_DIGEST_SIZE]; /* until retry_at_ns */
    uint64_t retry_at_ns;
    char helped_job[NAME_SIZE], helped_sha256[RECORD_DIGEST_SIZE]; /* our files are uploaded */
    char sent_job[NAME_SIZE], sent_sha256[RECORD_DIGEST_SIZE];     /* complete, record in flight */
};

struct upload_view {
    const struct mirror *mirror;
    const char *cluster, *node;
    bool leads;
    uint64_t now_ns;
    const struct upload_memory *memory;
};

/** upload_choose() - choose the role for @job, which names a bucket; *ret_record is the chosen
 * checkpoint, freed by the caller, unchanged for UPLOAD_NOTHING */
enum upload_role upload_choose(const struct upload_view *view, const char *job,
                               struct checkpoint_record *ret_record);

/** upload_will_send() - return whether @node will upload files that the workers of @plan write;
 * such a node tests the store when the job begins, UPLOAD_TRIES */
bool upload_will_send(const struct plan *plan, const char *node);

/** upload_failed() - note a failed upload, to be retried at @retry_at_ns. Return: whether the
 * same upload had failed before */
bool upload_failed(struct upload_memory *memory, const char *job, const char *manifest_sha256,
                   uint64_t retry_at_ns);
/** upload_succeeded() - note that this node's part in @role is done */
void upload_succeeded(struct upload_memory *memory, enum upload_role role, const char *job,
                      const char *manifest_sha256);
