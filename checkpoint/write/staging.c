#include "checkpoint/write/staging.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Touch every page now: a checkpoint must not run out of memory later, or stall on page faults. */
static uint8_t *map_arena(size_t size_bytes)
{
    void *arena =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED)
        return NULL;
    madvise(arena, size_bytes, MADV_HUGEPAGE);
    memset(arena, 0, size_bytes);
    return arena;
}

static int make_blocks(struct staging *staging)
{
    staging->blocks = calloc(staging->block_count, sizeof(*staging->blocks));
    staging->free_blocks = calloc(staging->block_count, sizeof(*staging->free_blocks));
    staging->pending = calloc(staging->block_count, sizeof(*staging->pending));
    if (!staging->blocks || !staging->free_blocks || !staging->pending)
        return -ENOMEM;
    for (unsigned i = 0; i < staging->block_count; i++) {
        staging->blocks[i].data = staging->arena + i * staging->block_bytes;
        staging->free_blocks[staging->free_count++] = staging->block_count - 1 - i;
    }
    return 0;
}

int staging_init(struct staging *staging, const struct io *io, size_t arena_bytes,
                 size_t block_bytes, unsigned depth, struct error *error)
{
    *staging = (struct staging){.io = io,
                                .arena_bytes = arena_bytes / block_bytes * block_bytes,
                                .block_bytes = block_bytes};
    staging->block_count = (unsigned)(arena_bytes / block_bytes);
    staging->depth = MIN(depth, staging->block_count);
    staging->arena = map_arena(staging->arena_bytes);
    if (!staging->arena || make_blocks(staging) != 0) {
        staging_done(staging);
        return error_set(error, -ENOMEM, "no memory for a checkpoint arena of %zu bytes",
                         arena_bytes);
    }
    int status =
        io->open(staging->depth, staging->arena, staging->arena_bytes, &staging->context, error);
    if (status != 0)
        staging_done(staging);
    return status;
}

void staging_done(struct staging *staging)
{
    if (staging->context)
        staging->io->close(staging->context);
    if (staging->arena)
        munmap(staging->arena, staging->arena_bytes);
    free(staging->blocks);
    free(staging->free_blocks);
    free(staging->pending);
    *staging = (struct staging){0};
}

/* Return 1 if one write is complete and its block free; 0: none (yet); negative: it failed, its
 * block is free too. */
static int reap(struct staging *staging, bool wait)
{
    uint64_t user;
    int status = staging->io->drain(staging->context, wait, &user);
    if (status == 0)
        return 0;
    assert(user < staging->block_count && staging->in_flight > 0);
    staging->in_flight--;
    staging->free_blocks[staging->free_count++] = (unsigned)user;
    if (status < 0)
        staging->failed_file = staging->blocks[user].file;
    return status;
}

static int post_first(struct staging *staging)
{
    unsigned index = staging->pending[staging->pending_first];
    const struct staging_block *block = &staging->blocks[index];
    int status =
        staging->io->write(staging->context, block->descriptor, block->data + block->skip_bytes,
                           block->size_bytes, block->offset + block->skip_bytes, index);
    if (status != 0) {
        staging->failed_file = block->file;
        return status == -EAGAIN ? -EIO : status; /* a full queue is an error here */
    }
    staging->in_flight++;
    staging->pending_first = (staging->pending_first + 1) % staging->block_count;
    staging->pending_count--;
    return 0;
}

/* Free finished blocks and post pending ones, without waiting. */
static int advance(struct staging *staging)
{
    int status;
    do
        status = reap(staging, false);
    while (status > 0);
    while (status == 0 && staging->pending_count > 0 && staging->in_flight < staging->depth)
        status = post_first(staging);
    return status;
}

int staging_acquire(struct staging *staging, struct staging_block **ret_block)
{
    int status = advance(staging);
    while (status == 0 && staging->free_count == 0) {
        status = reap(staging, true);
        if (status > 0)
            status = advance(staging);
    }
    if (status == 0)
        *ret_block = &staging->blocks[staging->free_blocks[--staging->free_count]];
    return status;
}

int staging_submit(struct staging *staging, struct staging_block *block)
{
    unsigned last = (staging->pending_first + staging->pending_count) % staging->block_count;
    assert(staging->pending_count < staging->block_count);
    staging->pending[last] = (unsigned)(block - staging->blocks);
    staging->pending_count++;
    return advance(staging);
}

int staging_return(struct staging *staging, const struct staging_block *block)
{
    staging->free_blocks[staging->free_count++] = (unsigned)(block - staging->blocks);
    return 0;
}

int staging_finish(struct staging *staging)
{
    int status = advance(staging);
    while (status == 0 && (staging->in_flight > 0 || staging->pending_count > 0)) {
        status = reap(staging, true);
        if (status > 0)
            status = advance(staging);
    }
    return status;
}

void staging_abandon(struct staging *staging)
{
    uint64_t user;
    while (staging->in_flight > 0 && staging->io->drain(staging->context, true, &user) != 0)
        staging->in_flight--;
    staging->in_flight = 0;
    staging->pending_first = staging->pending_count = staging->free_count = 0;
    for (unsigned i = 0; i < staging->block_count; i++)
        staging->free_blocks[staging->free_count++] = staging->block_count - 1 - i;
}
