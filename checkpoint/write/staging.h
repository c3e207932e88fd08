/*
 * The arena of a writer: blocks that travel free -> being filled -> pending -> in flight -> free.
 *
 * Filling never waits while a block is free: writes beyond the depth queue up as pending and are
 * posted as earlier ones finish. Only when all blocks are taken does staging_acquire() wait for the
 * disk.
 */
#pragma once

#include "checkpoint/io/io.h"

struct staging_block {
    uint8_t *data; /* block_bytes, 4 KiB-aligned, inside the arena */
    int descriptor;
    unsigned file;                 /* whose it is, for the message when its write fails */
    size_t skip_bytes, size_bytes; /* what of it is written, both whole 4 KiB */
    uint64_t offset;               /* of data[0] in the file */
};

struct staging {
    const struct io *io;
    struct io_context *context;
    uint8_t *arena;
    size_t arena_bytes, block_bytes;
    unsigned depth, in_flight;
    struct staging_block *blocks;
    unsigned block_count;
    unsigned *free_blocks, free_count;               /* a stack */
    unsigned *pending, pending_first, pending_count; /* a ring of block_count */
    unsigned failed_file; /* of the write whose error was returned last */
};

/**
 * staging_init() - take the arena, whole blocks of @arena_bytes, and open @io over it
 * @block_bytes: of one write at most, a multiple of 4 KiB
 * @depth: writes in flight, at most as many as there are blocks
 * Return: 0; -ENOMEM, or what @io's open() says; *staging is as after staging_done() then
 */
int staging_init(struct staging *staging, const struct io *io, size_t arena_bytes,
                 size_t block_bytes, unsigned depth, struct error *error) CHECK_RESULT;
void staging_done(struct staging *staging); /* nothing may be in flight */

/** staging_acquire() - a free block to fill; negative: a write failed (failed_file says whose) */
int staging_acquire(struct staging *staging, struct staging_block **ret_block) CHECK_RESULT;
/** staging_submit() - the filled block is to be written */
int staging_submit(struct staging *staging, struct staging_block *block) CHECK_RESULT;
/** staging_return() - the block is not needed after all; 0 */
int staging_return(struct staging *staging, const struct staging_block *block) CHECK_RESULT;
/** staging_finish() - until everything submitted is written */
int staging_finish(struct staging *staging) CHECK_RESULT;
/** staging_abandon() - forget what is pending, wait out what is in flight; all blocks are free
 * after it */
void staging_abandon(struct staging *staging);
