/*
 * Write one worker's share of checkpoints in the background.
 *
 * A dedicated thread owns the I/O. checkpoint_writer_begin() hands it a snapshot whose tensors are
 * in memory that the trainer does not change until checkpoint_writer_release_wait() returns.
 * Staging (copy into the fixed arena, CRC, hash) overlaps the next step's forward and backward;
 * only then may the optimizer run. If the arena is smaller than the share, staging waits for
 * writes: the arena limits memory, not the size of a checkpoint.
 *
 * Files of a share: model-<rank + 1>-of-<world>.safetensors and optimizer-<rank +
 * 1>-of-<world>.safetensors (five digits each, the names that Hugging Face uses; none for a share
 * without such tensors) in <folder>/step-<10 digits>.g<generation>.part/, so that a late worker of
 * an older generation can never touch the files of a newer one. Each file is written as
 * checkpoint/format/safetensors.h says: space reserved, O_DIRECT data, ftruncate to the exact
 * length, header block last, fdatasync; then the folder is synced. The share's own manifest part is
 * returned; the coordinator (worker rank 0) merges parts, adds spec and state, seals, and calls
 * checkpoint_commit().
 *
 * The parameters of a frozen unit go into a separate file, model-frozen-<unit>.safetensors, which
 * is written twice at most: if the last complete checkpoint but one has a file of that unit with
 * the same tensors (names, places, and XXH3-128 of the contents of memory), the file gets a second
 * name (link(2)) in this checkpoint's folder. Otherwise, or if links are refused, the file is
 * written. Two consecutive checkpoints share nothing, so that a block that rots damages only one of
 * them. All of a unit's tensors must be in one share.
 *
 * Any failure abandons the whole share: its files are removed, the reason is kept for poll, and the
 * writer is ready for the next checkpoint. A failed fdatasync is not repeated on the same file.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/io/io.h"

struct checkpoint_home;
struct checkpoint_writer;

struct checkpoint_writer_options {
    const struct io *io; /* from io_probe() */
    size_t arena_bytes;  /* staging; at least 16 MiB; allocated at start */
    unsigned depth;      /* writes in flight, at most IO_DEPTH_MAX; 0: default */
    /* per write: a multiple of 4 KiB that divides MANIFEST_CHUNK_BYTES; 0: default (4 MiB) */
    size_t block_bytes;
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
    /* a parameter that is not trained now: goes into its unit's file */
    bool frozen;
    unsigned unit; /* of a frozen parameter; at most CHECKPOINT_UNIT_MAX */
};

struct checkpoint_share {
    char job[NAME_SIZE];
    uint64_t step, generation;
    char folder[1024]; /* the job's checkpoint folder */
    /* State of the same folder, borrowed until the share is written, and used only by the
     * writer's thread. NULL: the caller ensures that the folder may be created. */
    struct checkpoint_home *home;
    /* Part number; file names have rank + 1 of world (at most CHECKPOINT_WORLD_MAX). */
    unsigned rank, world;
    const struct checkpoint_tensor *tensors; /* the descriptions are copied, the data is not */
    unsigned tensor_count;
};

/** checkpoint_writer_start() - allocate the arena and start a thread; -EINVAL (an option),
 * -ENOMEM, -EAGAIN (no thread), or the error of io->open() */
int checkpoint_writer_start(const struct checkpoint_writer_options *options,
                            struct checkpoint_writer **ret_writer,
                            struct error *error) CHECK_RESULT;
void checkpoint_writer_stop(
    struct checkpoint_writer *writer); /* abandons a share in flight; NULL allowed */

/**
 * checkpoint_writer_begin() - hand over a share; starts staging at once
 *
 * Return: 0; -EBUSY while the previous share is still being written or its result has not been
 * polled (skip this one); -EINVAL (rank, names, shape does not give count), -ENAMETOOLONG, -ENOMEM.
 */
int checkpoint_writer_begin(struct checkpoint_writer *writer,
                            const struct checkpoint_share *share) CHECK_RESULT;
/** checkpoint_writer_release_wait() - wait until all tensors are staged (or the share has
 * failed, or none was begun): then their memory may change. Return: the nanoseconds waited */
uint64_t checkpoint_writer_release_wait(struct checkpoint_writer *writer);
/** checkpoint_writer_release_until() - wait at most until @deadline_ns (monotonic). Return: whether
 * their memory may change */
bool checkpoint_writer_release_until(struct checkpoint_writer *writer, uint64_t deadline_ns);
/** checkpoint_writer_give_up() - make the share in flight fail with -ECANCELED before its next
 * block is staged; no effect once all blocks are staged */
void checkpoint_writer_give_up(struct checkpoint_writer *writer);
/** checkpoint_writer_poll() - check the share in flight. Return: 1: the share is durable,
 * *ret_part is its manifest part (caller frees with manifest_done); 0: in progress, or nothing
 * begun; negative: it failed, @error names file and cause; the partial files are removed */
int checkpoint_writer_poll(struct checkpoint_writer *writer, struct manifest *ret_part,
                           struct error *error) CHECK_RESULT;
/** checkpoint_writer_wait() - poll as checkpoint_writer_poll(), but block until @deadline_ns
 * (monotonic); -ETIMEDOUT */
int checkpoint_writer_wait(struct checkpoint_writer *writer, uint64_t deadline_ns,
                           struct manifest *ret_part, struct error *error) CHECK_RESULT;
