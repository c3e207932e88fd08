/* Give this node a copy of another node's part of a checkpoint, long after the commit. */
#pragma once

#include "checkpoint/remote/local.h"

/**
 * checkpoint_copy_share() - long after the commit: have here, too, what @writer wrote
 * @local: `generation` does not count
 * @manifest_sha256: of the commit record
 *
 * The files come into step-N.copy from whichever node has them, checked, paced and synced as in
 * checkpoint_receive_share(). A node that has a part of the checkpoint already gets them into that
 * folder, one rename each; one that has nothing gets the manifest and what every folder has, too,
 * and the folder gets its final name last. Good files that are here are left alone, so it may be
 * called again after any failure.
 *
 * Return: 0: durable; else errors as checkpoint_receive_share(), of the last node tried.
 */
int checkpoint_copy_share(const struct checkpoint_local *local, const char *manifest_sha256,
                          const char *writer, struct error *error) CHECK_RESULT;
