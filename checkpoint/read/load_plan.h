/*
 * What a load reads, and in which pieces: wishes, sorted by file and place, cut into jobs of
 * neighbours that one thread reads from end to end. Plain arithmetic, no I/O.
 */
#pragma once

#include "checkpoint/read/load.h"
#include "checkpoint/read/reader_state.h"

#define LOAD_JOB_BYTES ((uint64_t)16 << 20) /* a job is closed when it has as much */

struct load_tensor {
    const struct manifest_tensor *tensor;
    const struct reader_file *file;
    unsigned wish;
};

/* Tensors [first, first + count) lie one behind the other in the file, without holes. */
struct load_job {
    const struct reader_file *file;
    unsigned first, count;
    uint64_t begin, end; /* bytes of the file */
    bool direct;         /* whole blocks of 4 KiB cost next to nothing on top */
};

struct load_plan {
    struct load_tensor *tensors;
    unsigned tensor_count;
    struct load_job *jobs; /* the largest first, so that threads end together */
    unsigned job_count;
};

/** load_plan_make() - wishes that no tensor of the checkpoint meets are left out, and empty ones;
 * -ENOMEM */
int load_plan_make(const struct checkpoint_reader *reader, const struct checkpoint_wish *wishes,
                   unsigned count, struct load_plan *ret_plan) CHECK_RESULT;
void load_plan_done(struct load_plan *plan);
