/* Copy the files of one node's part of a checkpoint to this node. */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/local.h"

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
