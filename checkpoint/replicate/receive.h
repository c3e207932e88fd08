/* Copy the files of one node's part of a checkpoint to this node. */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/local.h"

/**
 * checkpoint_receive_share() - copy the files of @part, written by @from, into this node's part
 * folder, which the writer of its own share has made (writer.h)
 *
 * Each chunk is compared with its CRC32C on arrival, and requested once more if it differs. Files
 * are new inodes, written, truncated to their size and synced. A frozen unit's file that this node
 * has in its last checkpoint but one, with the same bytes by all checksums, gets a second name
 * instead. The transfer is paced: after each chunk it pauses for the time that the chunk took, so
 * that it uses at most half of the throughput of links and disk. The folder is synced at the end.
 *
 * Return: 0; else the files of this share are removed: -ENOSPC and other errors of writing,
 * -EBADMSG, -ENOENT, -EHOSTUNREACH, -EIO of reading, -ECANCELED, -ENOMEM.
 */
int checkpoint_receive_share(const struct checkpoint_local *local, const char *from,
                             const struct manifest *part, struct error *error) CHECK_RESULT;

/**
 * checkpoint_receive_files() - copy into any folder: @name at the sender, @directory here, created
 * if missing
 */
int checkpoint_receive_files(const struct checkpoint_local *local, const char *from,
                             const char *name, const char *directory, const struct manifest *part,
                             struct error *error) CHECK_RESULT;
