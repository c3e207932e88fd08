/*
 * The folder of data digests is bounded: every data set that was ever read leaves an entry, and
 * every reader that died a lock without one. The entries that were not used for the longest time go
 * first; a lost entry costs one more reading of its data.
 */
#pragma once

#define DIGEST_FOLDER_MAX 256 /* data sets; of some 150 bytes each */

/**
 * digest_folder_limit() - remove the oldest files with names of entries until @count_max are left
 *
 * Other files stay, and locked entries, whose data is being read. An entry is as old as its time of
 * modification, which its use moves. Errors are ignored: the next call tries again.
 */
void digest_folder_limit(const char *folder, unsigned count_max);
