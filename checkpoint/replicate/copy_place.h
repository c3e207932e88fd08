/*
 * Commit of a checkpoint with shares on several nodes, each with its own folder.
 *
 * All steps work in folders step-N.gG.part, so that an older generation cannot interfere:
 *
 * 1. Every node writes its share (checkpoint/write/writer.h) and describes it in part files.
 * 2. Every node fetches the shares that it copies from the nodes that wrote them:
 *    checkpoint_receive_share().
 * 3. The coordinator merges the parts, records the nodes of each file in the manifest, and writes
 *    index, config and manifest into its own part folder: checkpoint_seal().
 * 4. Every other node fetches these three files and gives its folder the final name:
 *    checkpoint_take_manifest(), checkpoint_place(). The coordinator's folder is renamed last.
 * 5. The record in etcd is the commit. Until then no reader uses a folder with a final name.
 *
 * So the folder of one node is a checkpoint without some files. The manifest lists the missing
 * files and their nodes. After these files are copied into one folder, the checkpoint is complete.
 */
#pragma once

#include "base/bytes.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/local.h"

/**
 * checkpoint_take_manifest() - fetch the index, config and manifest sealed by the coordinator on
 * node @from, check that this node's files are present, and write the manifest into their folder,
 * durably. Call it on every node except the coordinator's. Errors as of checkpoint_receive_share()
 */
int checkpoint_take_manifest(const struct checkpoint_local *local, const char *from,
                             const char *sha256, struct error *error) CHECK_RESULT;

/**
 * checkpoint_place() - give the sealed part folder its final name, durably
 * @digest: of the state. An existing folder of the final name is kept if it has another state
 * (-EEXIST). It is replaced if it has the same state or is damaged, because it is from an earlier
 * attempt or was refused.
 */
int checkpoint_place(const struct checkpoint_local *local, struct hash128 digest,
                     char ret_path[1024], struct error *error) CHECK_RESULT;

/** checkpoint_write_manifest() - write @text as the manifest in @directory, durably */
int checkpoint_write_manifest(const struct checkpoint_local *local, const char *directory,
                              const struct bytes *text, struct error *error) CHECK_RESULT;
