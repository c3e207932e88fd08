/*
 * Many tensors out of a checkpoint at once, at the speed of the disk: what a restore does.
 *
 * Wanted ranges that lie one behind the other are read in large blocks, several in flight, past the
 * page cache, by a few threads that each verify what they have read while the next blocks are on
 * their way. Each byte is copied once, from the block to where it is wanted, and checked there.
 *
 * Whatever goes wrong on this way (an error of the disk, a tensor that does not have its hash, no
 * memory for blocks) leaves the tensor to checkpoint_read(), which tries with care and finds the
 * words when it fails too.
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

struct checkpoint_load_options {
    const struct io *io;   /* from io_probe() */
    unsigned thread_count; /* 0: default: the processors, at most LOAD_THREADS_MAX */
    unsigned depth;        /* reads in flight of each thread; 0: default */
    size_t block_bytes;    /* of one read: a power of two from 4 KiB to MANIFEST_CHUNK_BYTES; 0:
                              default */
};

#define LOAD_THREADS_MAX 4

struct checkpoint_load_result {
    uint64_t wanted_bytes, read_bytes; /* of files, headers left out */
    unsigned careful;                  /* tensors that were left to checkpoint_read() */
};

/**
 * checkpoint_load() - all of @wishes
 * @ret_result: NULL, or what it took
 *
 * Return: what checkpoint_read() returns for the first wish that could not be met.
 */
int checkpoint_load(struct checkpoint_reader *reader, const struct checkpoint_load_options *options,
                    const struct checkpoint_wish *wishes, unsigned count,
                    struct checkpoint_load_result *ret_result, struct error *error) CHECK_RESULT;
