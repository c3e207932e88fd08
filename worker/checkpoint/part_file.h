/*
 * The description of one rank's share of a checkpoint: a part of the manifest, in a separate file
 * beside the data until rank 0 has merged all parts.
 */
#pragma once

#include "base/bytes.h"
#include "checkpoint/format/manifest.h"

#define PART_FILE_NAME_SIZE 32
#define PART_FILE_MAX       ((size_t)64 << 20) /* bytes */

/** part_file_name() - format the name of the file: "part-00003.json" */
void part_file_name(unsigned rank, char ret_name[PART_FILE_NAME_SIZE]);

/** part_file_write() - write the file into @directory, durably; -ENOMEM, or errors of the disk */
int part_file_write(const char *directory, unsigned rank, const struct manifest *part,
                    struct error *error) CHECK_RESULT;

/** part_file_decode() - decode untrusted @text; @name is for errors; the caller owns *ret_part */
int part_file_decode(const struct bytes *text, const char *name, struct manifest *ret_part,
                     struct error *error) CHECK_RESULT;
