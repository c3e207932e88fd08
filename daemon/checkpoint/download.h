/*
 * The way back from the object store: a job goes on from a checkpoint there when that is newer than
 * all that its nodes have left.
 *
 * The leader asks before it would start a job from a checkpoint or from step 0, or have it wait for
 * nodes that are away. The newest checkpoint that is complete in the store is fetched into the
 * job's folder on this node, on a thread of its own, and recorded; then it is one like any other. A
 * store that does not answer is waited for, with the reason in the job's state, when there is no
 * other checkpoint: starting over would cost more. One that turns out damaged there is passed over.
 * What is decided is in daemon/checkpoint/download_choice.h.
 */
#pragma once

#include <stdbool.h>

#include "daemon/core/daemon.h"

struct download;

/** download_new() - @daemon is borrowed. Return: 0, -ENOMEM */
int download_new(struct daemon *daemon, struct download **ret_fetching) CHECK_RESULT;
/** download_free() - stops what is on its way; NULL allowed */
void download_free(struct download *fetching);
/**
 * download_holds() - must @job wait for a checkpoint from the store?
 * @own_step: of the newest that its nodes have, which it would go on from; 0: none
 * @ret_text: RECORD_TEXT_SIZE bytes for its state: what is being done, or why it is not
 *
 * Begins what is to be done. When it is done the cluster's keys change, which wakes the leader.
 */
bool download_holds(struct download *fetching, const char *job, uint64_t own_step, char *ret_text);
/** download_stop() - this node does not lead any more */
void download_stop(struct download *fetching);
