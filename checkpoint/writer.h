/*
 * Writes one worker's share of checkpoints in the background.
 *
 * A dedicated thread owns the I/O. checkpoint_writer_begin() hands it a snapshot whose tensors lie in
 * memory that the trainer will not change until checkpoint_writer_release_wait() returns: staging
 * (copy into the fixed arena, CRC, hash) overlaps the next step's forward and backward, and only then
 * may the optimizer run. When the arena is smaller than the share, staging waits for writes: the arena
 * bounds memory, not the size of a checkpoint.
 *
 * Files of a share: model-<rank>.safetensors and optimizer-<rank>.safetensors in
 * <folder>/step-<10 digits>.part/, each written as checkpoint/safetensors.h says: O_DIRECT data,
 * ftruncate to the exact length, header block last, fdatasync. Then the share's own manifest part is
 * handed back; the coordinator (worker rank 0) merges parts and calls checkpoint_commit().
 */
#pragma once

#include "checkpoint/io.h"
#include "checkpoint/manifest.h"

struct checkpoint_writer;

struct checkpoint_writer_options {
    const struct io *io; /* from io_probe() */
    size_t arena_bytes;  /* staging; at least 16 MiB; taken at start */
    unsigned depth;      /* writes in flight; 0: default */
};

struct checkpoint_tensor {
    char name[128];
    enum manifest_role role;
    unsigned order;
    unsigned rank;
    size_t shape[4];
    const float *data; /* host memory, f32, borrowed until release_wait() */
    size_t count;
};

struct checkpoint_share {
    char job[NAME_SIZE];
    uint64_t step, generation;
    char folder[1024]; /* the job's checkpoint folder */
    unsigned rank, world; /* part number; file names say rank + 1 of world */
    const struct checkpoint_tensor *tensors; /* copied */
    unsigned tensor_count;
};

int checkpoint_writer_start(const struct checkpoint_writer_options *options, struct checkpoint_writer **ret_writer,
                            struct error *error) CHECK_RESULT;
void checkpoint_writer_stop(struct checkpoint_writer *writer); /* abandons what is not done; NULL allowed */

/** checkpoint_writer_begin() - -EBUSY while the previous share is still being written (skip this one) */
int checkpoint_writer_begin(struct checkpoint_writer *writer, const struct checkpoint_share *share) CHECK_RESULT;
/** checkpoint_writer_release_wait() - until all tensors are staged; returns the nanoseconds waited */
uint64_t checkpoint_writer_release_wait(struct checkpoint_writer *writer);
/** checkpoint_writer_poll() - 1: the share is durable, *ret_part is its manifest part (caller frees with manifest_done);
    0: still going, or nothing begun; negative: it failed, @error says file and cause; the partial files are removed */
int checkpoint_writer_poll(struct checkpoint_writer *writer, struct manifest *ret_part, struct error *error) CHECK_RESULT;
/** checkpoint_writer_wait() - poll that blocks until @deadline_ns (monotonic); -ETIMEDOUT */
int checkpoint_writer_wait(struct checkpoint_writer *writer, uint64_t deadline_ns, struct manifest *ret_part,
                           struct error *error) CHECK_RESULT;

/**
 * checkpoint_commit() - make a complete checkpoint out of its parts' folder
 * @manifest: sealed
 *
 * Writes model.safetensors.index.json, config.json (@config, Hugging Face's) and manifest.json (file
 * fsync each), fsyncs the folder, renames step-N.part to step-N, fsyncs the parent. Afterwards only the
 * etcd record is missing. -EEXIST when step-N is there already.
 */
int checkpoint_commit(const struct io *io, const char *folder, const struct manifest *manifest,
                      const json_t *config, char ret_path[1024], char ret_sha256[65], struct error *error) CHECK_RESULT;

/** checkpoint_retain() - remove all but the newest @keep complete checkpoints and abandoned .part folders
    older than the newest complete one; never the newest whose manifest loads */
int checkpoint_retain(const char *folder, unsigned keep, struct error *error) CHECK_RESULT;
