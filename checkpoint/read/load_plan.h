/*
 * Plan a load: sort the wishes by file and offset, and cut them into jobs of adjacent tensors, each
 * of which one thread reads from start to end. Arithmetic only, no I/O.
 */
#pragma once

#include "checkpoint/read/load.h"
#include "checkpoint/read/reader_state.h"

#define LOAD_JOB_BYTES ((uint64_t)16 << 20) /* a job of this size is closed */

struct load_tensor {
    const struct manifest_tensor *tensor;
    const struct reader_file *file;
    unsigned wish;
};

/* Tensors [first, first + count) are adjacent in the file, without holes. */
struct load_job {
    const struct reader_file *file;
    unsigned first, count;
    uint64_t begin, end; /* byte range of the file */
    bool direct;         /* rounding to whole blocks of 4 KiB adds almost nothing */
};

struct load_plan {
    struct load_tensor *tensors;
    unsigned tensor_count;
    struct load_job *jobs; /* largest first, so that threads finish together */
    unsigned job_count;
};

/** load_plan_make() - plan the wishes; wishes for an unknown tensor, and empty ones, are left
 * out; -ENOMEM */
int load_plan_make(const struct checkpoint_reader *reader, const struct checkpoint_wish *wishes,
                   unsigned count, struct load_plan *ret_plan) CHECK_RESULT;
void load_plan_done(struct load_plan *plan);
