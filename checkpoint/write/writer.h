/*
 * Writes one worker's share of checkpoints in the background.
 *
 * A dedicated thread owns the I/O. checkpoint_writer_begin() hands it a snapshot whose tensors lie
 * in memory that the trainer will not change until checkpoint_writer_release_wait() returns:
 * staging (copy into the fixed arena, CRC, hash) overlaps the next step's forward and backward, and
 * only then may the optimizer run. When the arena is smaller than the share, staging waits for
 * writes: the arena bounds memory, not the size of a checkpoint.
 *
 * Files of a share: model-<rank + 1>-of-<world>.safetensors and optimizer-<rank +
 * 1>-of-<world>.safetensors (five digits each, the names that Hugging Face uses; none for a share
 * without such tensors) in <folder>/step-<10 digits>.g<generation>.part/, so that a late worker of
 * an older generation can never touch what a newer one writes. Each is written as
 * checkpoint/format/safetensors.h says: space reserved, O_DIRECT data, ftruncate to the exact
 * length, header block last, fdatasync; then the folder is synced. The share's own manifest part is
 * handed back; the coordinator (worker rank 0) merges parts, adds spec and state, seals, and calls
 * checkpoint_commit().
 *
 * The parameters of a frozen unit go into a file of their own, model-frozen-<unit>.safetensors, so
 * that they are written twice and then no more: when the last complete checkpoint but one has a
 * file of that unit with the same tensors (names, places, and XXH3-128 of what memory holds now),
 * the file gets a second name (link(2)) in this checkpoint's folder. Where it does not, or links
 * are refused, it is written like any other. Two checkpoints in a row share nothing, so that a
 * block which rots costs one of them. All of a unit's tensors must be in one share.
 *
 * Any failure gives the whole share up: its files are removed, the reason is kept for poll, and the
 * writer is ready for the next checkpoint. A failed fdatasync is not repeated on the same file.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/io/io.h"

struct checkpoint_home;
struct checkpoint_writer;

struct checkpoint_writer_options {
    const struct io *io; /* from io_probe() */
    size_t arena_bytes;  /* staging; at least 16 MiB; taken at start */
    unsigned depth;      /* writes in flight, at most IO_DEPTH_MAX; 0: default */
    size_t block_bytes;  /* of one write: a multiple of 4 KiB that divides MANIFEST_CHUNK_BYTES; 0:
                            default (4 MiB) */
};

#define CHECKPOINT_ARENA_MIN (16u << 20)
#define CHECKPOINT_WORLD_MAX 99999
#define CHECKPOINT_UNIT_MAX  99999

struct checkpoint_tensor {
    char name[128];
    enum manifest_role role;
    unsigned order; /* canonical position among all tensors of all roles (manifest.h) */
    unsigned rank;  /* dimensions */
    size_t shape[4];
    const float *data; /* host memory, f32, borrowed until release_wait() */
    size_t count;
    bool frozen;   /* will never change again: goes into a file of its unit; a parameter */
    unsigned unit; /* of a frozen one; at most CHECKPOINT_UNIT_MAX */
};

struct checkpoint_share {
    char job[NAME_SIZE];
    uint64_t step, generation;
    char folder[1024]; /* the job's checkpoint folder */
    /* Of the same folder, borrowed until the share is written, and used by the writer's thread
     * alone; NULL: whoever calls knows that the folder may be made. */
    struct checkpoint_home *home;
    unsigned rank,
        world; /* part number; file names say rank + 1 of world (at most CHECKPOINT_WORLD_MAX) */
    const struct checkpoint_tensor *tensors; /* the descriptions are copied, their data is not */
    unsigned tensor_count;
};

/** checkpoint_writer_start() - the arena and a thread; -EINVAL (an option), -ENOMEM, -EAGAIN (no
   thread), or what io->open() says */
int checkpoint_writer_start(const struct checkpoint_writer_options *options,
                            struct checkpoint_writer **ret_writer,
                            struct error *error) CHECK_RESULT;
void checkpoint_writer_stop(
    struct checkpoint_writer *writer); /* abandons what is not done; NULL allowed */

/**
 * checkpoint_writer_begin() - hand over a share; starts staging at once
 *
 * Return: 0; -EBUSY while the previous share is still being written or its result has not been
 * polled (skip this one); -EINVAL (rank, names, shape does not give count), -ENAMETOOLONG, -ENOMEM.
 */
int checkpoint_writer_begin(struct checkpoint_writer *writer,
                            const struct checkpoint_share *share) CHECK_RESULT;
/** checkpoint_writer_release_wait() - until all tensors are staged (or the share has failed, or
   none was begun): then their memory may change; returns the nanoseconds waited */
uint64_t checkpoint_writer_release_wait(struct checkpoint_writer *writer);
/** checkpoint_writer_poll() - 1: the share is durable, *ret_part is its manifest part (caller frees
   with manifest_done); 0: still going, or nothing begun; negative: it failed, @error says file and
   cause; the partial files are removed */
int checkpoint_writer_poll(struct checkpoint_writer *writer, struct manifest *ret_part,
                           struct error *error) CHECK_RESULT;
/** checkpoint_writer_wait() - poll that blocks until @deadline_ns (monotonic); -ETIMEDOUT */
int checkpoint_writer_wait(struct checkpoint_writer *writer, uint64_t deadline_ns,
                           struct manifest *ret_part, struct error *error) CHECK_RESULT;
