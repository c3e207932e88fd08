/*
 * The description of what one rank has written of a checkpoint: a part of the manifest, in a file
 * of its own beside the data until rank 0 has merged all of them.
 */
#pragma once

#include "base/bytes.h"
#include "checkpoint/format/manifest.h"

#define PART_FILE_NAME_SIZE 32
#define PART_FILE_MAX       ((size_t)64 << 20) /* bytes */

/** part_file_name() - "part-00003.json" */
void part_file_name(unsigned rank, char ret_name[PART_FILE_NAME_SIZE]);

/** part_file_write() - into @directory, durable; -ENOMEM, or what the disk says */
int part_file_write(const char *directory, unsigned rank, const struct manifest *part,
                    struct error *error) CHECK_RESULT;

/** part_file_decode() - @text may be anything; @name is for errors; *ret_part is the caller's */
int part_file_decode(const struct bytes *text, const char *name, struct manifest *ret_part,
                     struct error *error) CHECK_RESULT;
