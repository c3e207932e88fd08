/*
 * Fetch a checkpoint back from the object store when it is newer than every checkpoint that the
 * job's nodes have.
 *
 * The leader asks before it starts a job from a checkpoint or from step 0, and before it lets a job
 * wait for absent nodes. The newest complete checkpoint of the store is downloaded into the job's
 * folder on this node, on a separate thread, and recorded. From then on it is an ordinary
 * checkpoint. If the store does not answer and the job has no other checkpoint, the job waits and
 * its state shows the reason: starting over would cost more. A checkpoint that is damaged in the
 * store is skipped. daemon/checkpoint/download_choice.h makes the decisions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct daemon;
struct download;

/** download_new() - @daemon is borrowed. Return: 0, -ENOMEM */
int download_new(struct daemon *daemon, struct download **ret_download) CHECK_RESULT;
/** download_free() - stop the download in flight; NULL allowed */
void download_free(struct download *download);
/**
 * download_holds() - return whether @job must wait for a checkpoint from the store
 * @own_step: step of the newest checkpoint that the job's nodes have, from which the job would
 * resume; 0: none
 * @ret_text: RECORD_TEXT_SIZE bytes for the job's state: the progress, or the reason why there is
 * none
 *
 * Start the download if one is needed. When it ends, the cluster's keys change, and that wakes the
 * leader.
 */
bool download_holds(struct download *download, const char *job, uint64_t own_step, char *ret_text);
/** download_stop() - stop the download because this node is no longer the leader */
void download_stop(struct download *download);
