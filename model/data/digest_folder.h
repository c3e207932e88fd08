/*
 * Bound the folder of data digests: every data set that was ever read leaves an entry, and every
 * reader that died leaves a lock without an entry. The least recently used entries are removed
 * first; a removed entry costs one more read of its data.
 */
#pragma once

#include <stdint.h>

#define DIGEST_FOLDER_MAX       256          /* files: digests of about 150 bytes, and counts */
#define DIGEST_FOLDER_MAX_BYTES (1ull << 30) /* the counts of a mask take 4 bytes per sample */

/**
 * digest_folder_limit() - remove the oldest files that are named like entries, until at most
 * @count_max files and @bytes_max bytes are left
 *
 * Other files stay, and so do locked entries, whose data is being read. The age of an entry is its
 * modification time, which every use updates. Errors are ignored: the next call tries again.
 */
void digest_folder_limit(const char *folder, unsigned count_max, uint64_t bytes_max);
