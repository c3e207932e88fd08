/*
 * Making a checkpoint whose shares lie on several nodes, each with a folder of its own.
 *
 * Who does what, all in folders step-N.gG.part, so that an older generation touches nothing:
 *
 * 1. Every node writes its share (writer.h) and describes it in part files.
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

#include "checkpoint/io/io.h"
#include "checkpoint/remote/remote.h"
#include "checkpoint/write/writer.h"

/* This node's side of one checkpoint. */
struct checkpoint_local {
    const struct io *io;
    const char *folder; /* the job's, on this node */
    const char *node;   /* this one */
    uint64_t step, generation;
    struct checkpoint_remote *remote;
};

/**
 * checkpoint_receive_share() - copy the files of @part, which @from has written, into this node's
 * part folder, which its own share has made (writer.h)
 *
 * Each chunk is compared with its CRC32C as it comes, and asked for once more when it differs;
 * files are new inodes, written, cut to their length and synced. A frozen unit's file that this
 * node has in its last checkpoint but one, with the same bytes by all checksums, gets a second name
 * instead. The transfer is paced: after each chunk it rests for as long as the chunk took, so that
 * it takes at most half of the links and of the disk. The folder is synced at the end.
 *
 * Return: 0; else this share's files are removed again: -ENOSPC and other errors of writing,
 * -EBADMSG, -ENOENT, -EHOSTUNREACH, -EIO of reading, -ECANCELED, -ENOMEM.
 */
int checkpoint_receive_share(const struct checkpoint_local *local, const char *from,
                             const struct manifest *part, struct error *error) CHECK_RESULT;

/** checkpoint_receive_files() - the same into any folder: @name at the sender, @directory here,
 * made if it is not there */
int checkpoint_receive_files(const struct checkpoint_local *local, const char *from,
                             const char *name, const char *directory, const struct manifest *part,
                             struct error *error) CHECK_RESULT;

/** checkpoint_seal() - the coordinator: as checkpoint_commit() up to the new name; only files that
 * @manifest places on this node must be here */
int checkpoint_seal(const struct checkpoint_local *local, const struct manifest *manifest,
                    const json_t *config, char ret_sha256[65], struct error *error) CHECK_RESULT;

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

/** checkpoint_manifest_elsewhere() - the manifest of folder @name with @sha256, from any node but
 * @node, and its text. -EBADMSG: nobody has it; -EHOSTUNREACH: nor those that are there;
 * -ECANCELED, -ENOMEM */
int checkpoint_manifest_elsewhere(struct checkpoint_remote *remote, const char *node,
                                  const char *name, const char *sha256,
                                  struct manifest *ret_manifest, struct bytes *ret_text,
                                  struct error *error) CHECK_RESULT;

/** checkpoint_write_manifest() - @text as the manifest in @directory, durably */
int checkpoint_write_manifest(const struct checkpoint_local *local, const char *directory,
                              const struct bytes *text, struct error *error) CHECK_RESULT;

/** checkpoint_copy_at() - the @index-th node that may have @file: first those that the manifest
 * names, then the others, where copies may have been made since. NULL: there are no more */
const char *checkpoint_copy_at(const struct manifest_file *file,
                               const struct checkpoint_remote *remote, unsigned index);
