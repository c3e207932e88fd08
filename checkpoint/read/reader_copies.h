/* Checkpoints whose files lie on several nodes: which nodes may have a file or the manifest. */
#pragma once

#include "base/bytes.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/remote.h"

/** checkpoint_manifest_elsewhere() - the manifest of folder @name with @sha256, from any node but
 * @node, and its text. -EBADMSG: nobody has it; -EHOSTUNREACH: nor those that are there;
 * -ECANCELED, -ENOMEM */
int checkpoint_manifest_elsewhere(struct checkpoint_remote *remote, const char *node,
                                  const char *name, const char *sha256,
                                  struct manifest *ret_manifest, struct bytes *ret_text,
                                  struct error *error) CHECK_RESULT;

/** checkpoint_copy_at() - the @index-th node that may have @file: first those that the manifest
 * names, then the others, where copies may have been made since. NULL: there are no more */
const char *checkpoint_copy_at(const struct manifest_file *file,
                               const struct checkpoint_remote *remote, unsigned index);
