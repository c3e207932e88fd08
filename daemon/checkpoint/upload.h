/*
 * Committed checkpoints on their way into the object store.
 *
 * One at a time, on a thread of its own (checkpoint/object/object_task.h), so training, commits and
 * this daemon's loop never wait for the store. Of each job that names a bucket the newest recorded
 * checkpoint is sent; what a newer one has overtaken before it began is left out, so a store that
 * is too slow gets fewer checkpoints and never falls behind. The node that recorded a checkpoint
 * sends it; when that node is gone, whoever leads does, where it reaches the files. With copies
 * every node sends what it has written. What is decided is in daemon/checkpoint/upload_choice.h.
 *
 * How far it is stands in jobs/<job>/objects/<step>, for people and for the leader that has no
 * other checkpoint left. What fails is tried again after a while, for as long as it is the newest:
 * an upload goes on where it stopped, also in another life of this daemon.
 */
#pragma once

#include <stdbool.h>

#include "daemon/core/daemon.h"

/** upload_new() - @daemon is borrowed. Return: 0; -ENOMEM, or why the loop gives no timer (nothing
 * is left to free) */
int upload_new(struct daemon *daemon, struct storing **ret_storing) CHECK_RESULT;
/** upload_free() - stops what is on its way; NULL allowed */
void upload_free(struct storing *storing);
/** upload_sync() - after every change of the cluster's keys: begin what is due */
void upload_sync(struct storing *storing);
