/* Copying of another node's share of a checkpoint to this node, long after the commit. */
#pragma once

#include "checkpoint/remote/local.h"

/**
 * checkpoint_copy_share() - copy the share of @writer to this node
 * @local: `generation` is ignored
 * @manifest_sha256: of the commit record
 *
 * The files are received into step-N.copy from any node that has them, checked, paced and synced as
 * in checkpoint_receive_share(). If this node has a part of the checkpoint already, each file is
 * renamed into that folder. Otherwise this node also receives the manifest and the files of every
 * folder, and the folder gets its final name last. Good files on this node are kept, so the
 * function is idempotent and may be retried after any failure.
 *
 * Return: 0: durable; else the errors of checkpoint_receive_share() for the last node tried.
 */
int checkpoint_copy_share(const struct checkpoint_local *local, const char *manifest_sha256,
                          const char *writer, struct error *error) CHECK_RESULT;
