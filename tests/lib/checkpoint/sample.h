/*
 * A small checkpoint whose values all follow from a seed. Tests write, damage and compare it. Its
 * sizes hit the edges: whole blocks, odd lengths, a scalar, an empty tensor.
 *
 * Every shape is a unit. The first sample_frozen units are frozen: no moments, and the same
 * parameters at every step.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/folder_commit.h"
#include "checkpoint/write/writer.h"

#define SAMPLE_SHAPES  7
#define SAMPLE_TENSORS (SAMPLE_SHAPES * 3)

extern unsigned sample_frozen; /* for all samples from now on */

struct sample {
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    float *values[SAMPLE_TENSORS];
    unsigned count;
};

/** sample_remove() - remove a folder with its files */
void sample_remove(const char *path);

/* Make a folder, in memory if there is a memory file system: these tests fsync thousands of times.
 */
void sample_folder(char ret_path[64]);

/** sample_value() - return element @i of @tensor */
float sample_value(uint64_t seed, unsigned tensor, size_t i);

/** sample_init() - make the tensors of @seed */
void sample_init(struct sample *sample, uint64_t seed);

/** sample_done() - free the tensors */
void sample_done(struct sample *sample);

/* Return @rank's share of @world: the tensors of every world-th unit. @tensors has room for all. */
struct checkpoint_share sample_share(const struct sample *sample, const char *folder, uint64_t step,
                                     unsigned rank, unsigned world,
                                     struct checkpoint_tensor *tensors);

/** sample_commit() - complete @manifest and commit the folder */
int sample_commit(const struct io *io, const char *folder, unsigned tensor_count,
                  struct manifest *manifest, struct error *error);

/* Save the whole checkpoint through an existing writer. */
int sample_save_values(struct checkpoint_writer *writer, const struct io *io, const char *folder,
                       uint64_t step, unsigned world, const struct sample *sample,
                       struct error *error);

/** sample_save() - save a checkpoint of the sample with the seed @step, as @world ranks */
int sample_save(struct checkpoint_writer *writer, const struct io *io, const char *folder,
                uint64_t step, unsigned world, struct error *error);

/** sample_writer() - make a writer */
struct checkpoint_writer *sample_writer(const struct io *io, size_t block_bytes);

/* Write a checkpoint of @step in @folder with the machine's own backend. */
void sample_write(const char *folder, uint64_t step, unsigned world);

/* Compute the digest of the manifest of the checkpoint in the folder @path. */
void sample_manifest_sha256(const char *path, char ret_sha256[65]);

#define SAMPLE_METRICS "metrics-0000000003.jsonl"
/** sample_make_metrics() - let config.json of the checkpoint in the folder @path pass for metrics
 */
void sample_make_metrics(const char *path);

/* Read everything back and compare each bit; 0, or negative with @error. */
int sample_compare(struct checkpoint_reader *reader, uint64_t step, struct error *error);

/* Open, scrub and compare the checkpoint of @step in @folder. */
int sample_check(const char *folder, uint64_t step, struct error *error);
