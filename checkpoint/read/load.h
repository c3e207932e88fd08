/*
 * Load many tensors of a checkpoint at the speed of the disk, for a restore.
 *
 * Adjacent ranges are read in large blocks, several in flight, bypassing the page cache. A few
 * threads each verify one block while the next blocks are in flight. Each byte is copied once, from
 * the block to its destination, and verified there.
 *
 * If anything fails (a disk error, a hash mismatch, no memory for blocks), the tensor is left to
 * checkpoint_read(), which retries carefully and reports the exact error.
 */
#pragma once

#include "checkpoint/io/io.h"
#include "checkpoint/read/reader.h"

struct checkpoint_wish {
    const char *name; /* borrowed */
    enum manifest_role role;
    float *data; /* host memory, count f32; undefined after a failure */
    size_t count;
};

/* Progress of a load, reported from any of its threads. */
struct load_listener {
    void (*loaded)(void *context,
                   uint64_t size_bytes); /* this many more bytes are loaded; NULL: no listener */
    void *context;
};

struct checkpoint_load_options {
    const struct io *io;   /* from io_probe() */
    unsigned thread_count; /* 0: number of processors, at most LOAD_THREADS_MAX */
    unsigned depth;        /* reads in flight per thread; 0: default */
    /* per read: a power of two from 4 KiB to MANIFEST_CHUNK_BYTES; 0: default */
    size_t block_bytes;
    struct load_listener listener; /* after each block, or each tensor that is read carefully */
};

#define LOAD_THREADS_MAX 4

struct checkpoint_load_result {
    uint64_t wanted_bytes, read_bytes; /* bytes of files, without headers */
    unsigned careful;                  /* tensors read by checkpoint_read() */
};

/**
 * checkpoint_load() - load all of @wishes
 * @ret_result: statistics, or NULL
 *
 * Return: the result of checkpoint_read() for the first wish that failed; 0: none failed.
 */
int checkpoint_load(struct checkpoint_reader *reader, const struct checkpoint_load_options *options,
                    const struct checkpoint_wish *wishes, unsigned count,
                    struct checkpoint_load_result *ret_result, struct error *error) CHECK_RESULT;
