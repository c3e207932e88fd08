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

#define CHECKPOINT_ARENA_MIN  (16u << 20)
#define CHECKPOINT_FOLDER_MAX 900 /* bytes of a job's checkpoint folder */
#define CHECKPOINT_WORLD_MAX  99999
#define CHECKPOINT_UNIT_MAX   99999

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

/** checkpoint_part_path() - <folder>/step-<10 digits>.g<generation>.part, where the shares of a
   checkpoint lie until it is committed; @folder has at most CHECKPOINT_FOLDER_MAX bytes */
void checkpoint_part_path(const char *folder, uint64_t step, uint64_t generation,
                          char ret_path[1024]);

/**
 * checkpoint_commit() - make a complete checkpoint out of its parts' folder
 * @manifest: sealed
 *
 * Checks that every file of the manifest is there with its size (a part folder that is not shared
 * by all nodes shows here), writes model.safetensors.index.json, config.json (@config, Hugging
 * Face's) and manifest.json, which also lists the other two (each fdatasync'ed), fsyncs the folder,
 * renames it to step-N, fsyncs the parent. Afterwards only the etcd record is missing.
 *
 * Return: 0; -EEXIST when step-N is there already; -ENOENT or -EBADMSG for a missing or short file;
 * -ENOSPC, -EIO ... with file and cause. A failure before the rename removes the files of all
 * parts. When only the last fsync fails, step-N is there, complete and valid, but may not survive a
 * power cut.
 */
int checkpoint_commit(const struct io *io, const char *folder, const struct manifest *manifest,
                      const json_t *config, char ret_path[1024], char ret_sha256[65],
                      struct error *error) CHECK_RESULT;

enum { CHECKPOINT_ABSENT = 0, CHECKPOINT_STANDS = 1 };

/**
 * checkpoint_find_equal() - before a commit: is what is to be committed there already?
 * @manifest: sealed
 *
 * A run that went back to an older checkpoint writes the later ones again, with the same bits. One
 * that is there and holds the same state stands for the new one, once every byte of it has been
 * verified. One that turns out damaged, which may be why the run went back, is moved out of the
 * way: renamed to .damaged, durably (an older .damaged of the same step is removed).
 *
 * Return: CHECKPOINT_STANDS: *ret_path, *ret_sha256 are what to record; CHECKPOINT_ABSENT: commit;
 * -EEXIST: another state is there; others: it could not be read, and nothing is known against it.
 */
int checkpoint_find_equal(const char *folder, const struct manifest *manifest, char ret_path[1024],
                          char ret_sha256[65], struct error *error) CHECK_RESULT;

/**
 * checkpoint_retain() - what may go, now that @step is committed
 *
 * Of the complete checkpoints up to @step the newest @keep (at least one) stay, and all pinned ones
 * and the newest that is verified on top of them (folder_marks.h), and @spared (0: none), whose
 * record stays: what was verified since it was decided is another one. Those after @step are of an
 * earlier life of the job, which went back: they stay until it has come so far again. .damaged
 * folders go with the last checkpoint as old as they are, .part folders of steps up to @step are
 * removed: whoever still writes them is too late. What is removed is renamed to .gone first,
 * durably, so a crash never leaves half a checkpoint; leftovers of such a crash are swept too. A
 * step folder whose manifest does not load is left for a person to look at.
 */
int checkpoint_retain(const char *folder, unsigned keep, uint64_t step, uint64_t spared,
                      struct error *error) CHECK_RESULT;

struct checkpoint_sweep {
    const char *folder;    /* the job's, of one node */
    const uint64_t *steps; /* those that are recorded */
    size_t step_count;
    uint64_t step;       /* of the record written last */
    uint64_t generation; /* the oldest whose workers may still be writing */
};

/**
 * checkpoint_sweep() - the same for a node that has its own part of checkpoints with copies, by the
 * records in etcd
 *
 * Complete checkpoints before @step go when they are not among @steps, and are not pinned by hand;
 * parts go when a generation before @generation has left them. Without a record nothing goes.
 */
int checkpoint_sweep(const struct checkpoint_sweep *sweep, struct error *error) CHECK_RESULT;

/** checkpoint_abandon() - remove what all parts of @step and @generation have written: the
   coordinator's duty when one part failed and the step will not be committed, lest a full disk
   stays full. 0 when nothing is there */
int checkpoint_abandon(const char *folder, uint64_t step, uint64_t generation,
                       struct error *error) CHECK_RESULT;
