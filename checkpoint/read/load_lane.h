/*
 * One thread of a load: it takes jobs until none is left, keeps its reads in flight, and verifies
 * the blocks in file order.
 */
#pragma once

#include <stdatomic.h>

#include "checkpoint/read/load_plan.h"

/* State shared by the threads of one load. */
struct load {
    const struct io *io;
    unsigned depth;
    size_t block_bytes;
    const struct checkpoint_wish *wishes;
    struct load_listener listener;
    struct load_plan plan;
    int *direct; /* a descriptor for each of the reader's files; -1: none */
    bool *met;   /* per wish: set by the thread that loads its tensor */
    atomic_uint next_job;
    _Atomic uint64_t read_bytes;
};

/** load_lane_run() - process jobs until none is left; if this thread cannot start, it leaves all
 * jobs to the other threads */
void load_lane_run(struct load *load, const struct reader_file *files);
