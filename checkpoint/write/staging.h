/*
 * The arena of a writer. The states of a block: free -> being filled -> pending -> in flight ->
 * free.
 *
 * Filling never waits while a block is free: writes beyond the depth are queued as pending and
 * posted as earlier ones finish. Only if no block is free does staging_acquire() wait for the disk.
 */
#pragma once

#include "checkpoint/io/io.h"

struct staging_block {
    uint8_t *data; /* block_bytes, 4 KiB-aligned, inside the arena */
    int descriptor;
    unsigned file;                 /* file of the block, for the message when its write fails */
    size_t skip_bytes, size_bytes; /* range to write, both whole 4 KiB */
    uint64_t offset;               /* offset of data[0] in the file */
};

struct staging {
    const struct io *io;
    struct io_context *context;
    uint8_t *arena;
    size_t arena_bytes, block_bytes;
    unsigned depth, in_flight;
    struct staging_block *blocks;
    unsigned block_count;
    unsigned *free_blocks, free_count;               /* stack */
    unsigned *pending, pending_first, pending_count; /* ring of block_count */
    unsigned failed_file; /* file of the write whose error was returned last */
};

/**
 * staging_init() - allocate the arena, whole blocks of @arena_bytes, and open @io over it
 * @block_bytes: maximum of one write, a multiple of 4 KiB
 * @depth: writes in flight, at most the number of blocks
 * Return: 0; -ENOMEM, or the error of @io's open(); *staging is as after staging_done() then
 */
int staging_init(struct staging *staging, const struct io *io, size_t arena_bytes,
                 size_t block_bytes, unsigned depth, struct error *error) CHECK_RESULT;
void staging_done(struct staging *staging); /* nothing may be in flight */

/** staging_acquire() - return a free block to fill; negative: a write failed (failed_file is its
 * file) */
int staging_acquire(struct staging *staging, struct staging_block **ret_block) CHECK_RESULT;
/** staging_submit() - queue the filled block for writing */
int staging_submit(struct staging *staging, struct staging_block *block) CHECK_RESULT;
/** staging_return() - free the block without a write; 0 */
int staging_return(struct staging *staging, const struct staging_block *block) CHECK_RESULT;
/** staging_finish() - wait until everything submitted is written */
int staging_finish(struct staging *staging) CHECK_RESULT;
/** staging_abandon() - drop pending blocks, wait for those in flight; all blocks are free
 * afterwards */
void staging_abandon(struct staging *staging);
