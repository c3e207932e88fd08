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
#include "daemon/jobs/upload_memory.h"
#include "elastic/plan/plan.h"
#include "membership/kv/records.h"

enum upload_role { UPLOAD_NOTHING, UPLOAD_SENDS, UPLOAD_HELPS, UPLOAD_TRIES };

struct upload_view {
    const struct mirror *mirror;
    const char *cluster, *node;
    bool leads;
    uint64_t now_ns;
    const struct upload_memory *memory; /* of the job */
};

/** upload_choose() - choose the role for @job, which names a bucket; *ret_record is the chosen
 * checkpoint, freed by the caller, unchanged for UPLOAD_NOTHING */
enum upload_role upload_choose(const struct upload_view *view, const char *job,
                               struct checkpoint_record *ret_record);

/** upload_will_send() - return whether @node will upload files that the workers of @plan write;
 * such a node tests the store when the job begins, UPLOAD_TRIES */
bool upload_will_send(const struct plan *plan, const char *node);
