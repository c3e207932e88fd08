/* Find the nodes that may have a file or the manifest of a checkpoint with copies. */
#pragma once

#include "base/bytes.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/remote.h"

/** checkpoint_manifest_elsewhere() - fetch the manifest of folder @name with @sha256, and its
 * text, from any node but @node. -EBADMSG: no node has it; -EHOSTUNREACH: no reachable node has
 * it, and some are away; -ECANCELED, -ENOMEM */
int checkpoint_manifest_elsewhere(struct checkpoint_remote *remote, const char *node,
                                  const char *name, const char *sha256,
                                  struct manifest *ret_manifest, struct bytes *ret_text,
                                  struct error *error) CHECK_RESULT;

/** checkpoint_copy_at() - return the @index-th node that may have @file: first the nodes in the
 * manifest, then the others, which may have newer copies; NULL: no more */
const char *checkpoint_copy_at(const struct manifest_file *file,
                               const struct checkpoint_remote *remote, unsigned index);
