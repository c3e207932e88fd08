/*
 * Keep the number of counted targets of each sample of a large mask, beside the digest of its data
 * (model/data/data_digests.h): one file per data set and model.context, with 4 bytes per sample. So
 * a worker need not add up a mask that another worker has added up already.
 *
 * The file belongs to the data of its key, which must be known, and has a checksum; a damaged or
 * foreign file counts as missing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/hash.h"

struct mask_counts {
    char *path;         /* of the file, malloc'ed; NULL: no file is kept */
    struct hash128 key; /* of the data */
    unsigned context;
    uint64_t sample_count;
};

/** mask_counts_load() - read the counts into @ret_counts, of sample_count elements; false: they are
 * not known, and @ret_counts is undefined */
bool mask_counts_load(const struct mask_counts *self, uint32_t *ret_counts) CHECK_RESULT;

/** mask_counts_keep() - write the file; -ENOMEM, or errno of writing it */
int mask_counts_keep(const struct mask_counts *self, const uint32_t *counts,
                     struct error *error) CHECK_RESULT;
