/*
 * Making a checkpoint whose shares lie on several nodes, each with a folder of its own.
 *
 * Who does what, all in folders step-N.gG.part, so that an older generation touches nothing:
 *
 * 1. Every node writes its share (checkpoint/write/writer.h) and describes it in part files.
 * 2. Every node fetches the shares that it is to have copies of from the nodes that wrote them:
 *    checkpoint_receive_share().
 * 3. The coordinator merges the parts, notes in the manifest which nodes have which file, and
 * writes index, config and manifest into its own part folder: checkpoint_seal().
 * 4. Every other node fetches these three and gives its folder the final name:
 *    checkpoint_take_manifest(), checkpoint_place(). The coordinator's folder is the last.
 * 5. The record in etcd is the commit: until then nobody looks at what has its final name.
 *
 * So a complete folder of a node is a checkpoint as far as its files go: the manifest says what is
 * missing and which nodes have it, and after copying those files into one folder it is whole.
 */
#pragma once

#include "base/bytes.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/local.h"

/** checkpoint_take_manifest() - everybody else: fetch what the coordinator on node @from has
 * sealed, check that this node's files are here, and write it beside them, durably. Errors as above
 */
int checkpoint_take_manifest(const struct checkpoint_local *local, const char *from,
                             const char *sha256, struct error *error) CHECK_RESULT;

/**
 * checkpoint_place() - give the sealed part folder its final name, durably
 * @digest: of the state; a folder of that name with another state is left alone (-EEXIST); one with
 * the same state, or damaged, makes room: it is of an earlier try, or was refused
 */
int checkpoint_place(const struct checkpoint_local *local, struct hash128 digest,
                     char ret_path[1024], struct error *error) CHECK_RESULT;

/** checkpoint_write_manifest() - @text as the manifest in @directory, durably */
int checkpoint_write_manifest(const struct checkpoint_local *local, const char *directory,
                              const struct bytes *text, struct error *error) CHECK_RESULT;
