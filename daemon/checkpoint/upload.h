/*
 * Upload committed checkpoints to the object store.
 *
 * Uploads run one at a time, on a separate thread (checkpoint/object/object_task.h), so training,
 * commits and this daemon's loop never wait for the store. For each job that names a bucket, the
 * newest recorded checkpoint is uploaded. A checkpoint that is overtaken by a newer one before its
 * upload began is skipped, so a slow store gets fewer checkpoints and never lags behind. The node
 * that recorded a checkpoint uploads it. When that node is gone, the leader does, if it reaches the
 * files. With copies, every node uploads the files that it has written.
 * daemon/checkpoint/upload_choice.h makes the decisions.
 *
 * The progress is recorded in jobs/<job>/objects/<step>, for operators and for a leader that has no
 * other checkpoint left. A failed upload is retried after a delay while its checkpoint is the
 * newest. An upload resumes where it stopped, also after a restart of this daemon.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

struct daemon;
struct upload;

/** upload_new() - @daemon is borrowed. Return: 0; -ENOMEM; or the error of creating a loop timer
 * (nothing to free then) */
int upload_new(struct daemon *daemon, struct upload **ret_upload) CHECK_RESULT;
/** upload_free() - stop the upload in flight; NULL allowed */
void upload_free(struct upload *upload);
/** upload_sync() - start any upload that is due; call after every change of the cluster's keys */
void upload_sync(struct upload *upload);
