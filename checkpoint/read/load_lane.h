/*
 * One thread of a load: takes jobs until none is left, keeps its reads in flight, and verifies the
 * blocks in the order in which they lie in the file.
 */
#pragma once

#include <stdatomic.h>

#include "checkpoint/read/load_plan.h"

/* What the threads of one load share. */
struct load {
    const struct io *io;
    unsigned depth;
    size_t block_bytes;
    const struct checkpoint_wish *wishes;
    struct load_plan plan;
    int *direct; /* a descriptor for each of the reader's files; -1: none */
    bool *met;   /* a wish: written by the thread that has its tensor */
    atomic_uint next_job;
    _Atomic uint64_t read_bytes;
};

/** load_lane_run() - until no job is left; when this thread cannot begin, it leaves them all to the
 * others */
void load_lane_run(struct load *load, const struct reader_file *files);
