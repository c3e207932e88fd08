/*
 * The folder of data digests is bounded: every data set that was ever read leaves an entry, and
 * every reader that died a lock without one. The entries that were not used for the longest time go
 * first; a lost entry costs one more reading of its data.
 */
#pragma once

#include <stdint.h>

#define DIGEST_FOLDER_MAX       256          /* files: digests of some 150 bytes, and counts */
#define DIGEST_FOLDER_MAX_BYTES (1ull << 30) /* the counts of a mask have 4 bytes a sample */

/**
 * digest_folder_limit() - remove the oldest files with names of entries until at most @count_max of
 * them and @bytes_max bytes are left
 *
 * Other files stay, and locked entries, whose data is being read. An entry is as old as its time of
 * modification, which its use moves. Errors are ignored: the next call tries again.
 */
void digest_folder_limit(const char *folder, unsigned count_max, uint64_t bytes_max);
