/*
 * The samples of a job. The data is one long row of tokens (files in sorted order, one after
 * another); sample i is tokens [i*T, i*T + T] (T inputs and their T targets, shifted by one). The
 * last `validation` share of the samples is held out. A masked token (model/data/loss_mask.h) is
 * read but does not count in the loss: as a target it is -1.
 *
 * Order: epoch e visits every training sample once, in the order of philox_permute() keyed by
 * (seed, e). The samples of a micro-batch are a function of its global sample index alone.
 *
 * base/file_list.h defines the files of paths and globs: sorted by path over all of @paths, without
 * duplicates. Up to DATASET_MEMORY_MAX the tokens are copied when the data set is opened. Above it,
 * files are mapped: they must not shrink while the job runs (model/data/token_row.h) or change
 * while they are read, and a node reads them only once (model/data/data_digests.h).
 *
 * A share above 0 holds out at least one sample, and training keeps at least one. Once open, a data
 * set never changes: any thread may read it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/hash.h"

#define DATASET_MEMORY_MAX (512ull << 20) /* bytes of files that are copied whole */

enum dataset_format {
    DATASET_BYTES, /* any file, one token per byte: vocabulary 256 */
    /* llm.c's .bin: a header of 256 int32 (magic, version, count), then uint16 (magic 20240520,
       version 1: GPT-2's tokens) or uint32 (20240801, 7: Llama 3's) */
    DATASET_LLMC,
    DATASET_UINT16, /* nanoGPT's raw uint16 */
    DATASET_UINT32, /* the same for vocabularies of more than 65,536 */
};

/* Progress callbacks while large data is read, which takes minutes. */
struct dataset_listener {
    /* every few MiB: @done_bytes of @total_bytes; @total_bytes 0: waiting for another process of
     * this node that reads the same data */
    void (*reading)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
};

struct dataset_options {
    enum dataset_format format;
    const char *const
        *paths; /* files, folders (all regular files below, sorted) or globs; ** crosses folders */
    unsigned path_count;
    const char *validation_path; /* NULL, or separate data (file, folder or glob): then the share is
                                    ignored */
    double validation_share;     /* 0 <= share < 1 */
    const char *const *mask_paths;    /* one byte per token of @paths; 1: the token counts */
    unsigned mask_path_count;         /* 0: all tokens count */
    const char *validation_mask_path; /* the same for @validation_path; NULL: all tokens count */
    unsigned context, vocab;
    uint64_t seed;
    const char *memo_folder;          /* NULL, or the node's folder of digests of large data
                                       * (model/data/data_digests.h) */
    struct dataset_listener listener; /* reading may be NULL */
    const struct clock *clock;        /* for the ages of files; NULL: the real clock */
    uint64_t memory_max_bytes;        /* 0: DATASET_MEMORY_MAX, or another limit for tests */
};

struct dataset;

/**
 * dataset_open() - open the data of a job
 *
 * Return: 0; -ENOENT (nothing matches), -EACCES, -ENODATA (fewer tokens than one sample, or no
 * token of a training sample counts), -ERANGE (a token >= vocab; @error has the file, the token and
 * the position), -EINVAL (bad header, or a mask that does not fit its tokens), -EIO (a file changed
 * while it was read), -E2BIG (over FILE_LIST_MAX files), -ENOMEM. Unreadable entries below a folder
 * are an error, not skipped. Binary files are data like others.
 */
int dataset_open(const struct dataset_options *options, struct dataset **ret_dataset,
                 struct error *error) CHECK_RESULT;
void dataset_close(struct dataset *dataset);

/** dataset_digest() - return the digest of format, all tokens and masks, in order, independent of
 * the division into files: nodes with different digests have different data */
struct hash128 dataset_digest(const struct dataset *dataset);
/** dataset_was_known() - return whether the tokens were not read because another worker of this
 * node has stored the digest */
bool dataset_was_known(const struct dataset *dataset);
/** dataset_memory_max() - return the memory limit of @options */
static inline uint64_t dataset_memory_max(const struct dataset_options *options)
{
    return options->memory_max_bytes > 0 ? options->memory_max_bytes : DATASET_MEMORY_MAX;
}
/** dataset_held_bytes() - return the bytes of files in memory: copied and mapped; mapped pages are
 * loaded when read, and the kernel drops them when memory is short */
void dataset_held_bytes(const struct dataset *dataset, uint64_t *ret_copied, uint64_t *ret_mapped);
uint64_t dataset_token_count(const struct dataset *dataset);
uint64_t dataset_train_count(const struct dataset *dataset);      /* samples, >= 1 */
uint64_t dataset_validation_count(const struct dataset *dataset); /* samples, may be 0 */

/** dataset_train_sample() - return the number (below the train count) of the sample at @position;
 * its epoch is position / train count */
uint64_t dataset_train_sample(const struct dataset *dataset, uint64_t position);

/**
 * dataset_train_batch() - read the micro-batch that begins at global sample @first_sample
 * @first_sample: counts samples since the job's first; epoch = first_sample / train count
 * @ret_tokens, @ret_targets: (batch, T) i32; a target that does not count is -1
 *
 * Return: 0; -ERANGE: a mapped file has a token outside the vocabulary that was not there when the
 * file was checked. @error has the file, the token and the position; the kept digest is removed, so
 * that the next start reads all data
 */
int dataset_train_batch(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                        int32_t *ret_tokens, int32_t *ret_targets,
                        struct error *error) CHECK_RESULT;
/** dataset_validation_batch() - read samples [first_sample, +batch), unshuffled; samples after the
 * last one have no target that counts. Errors as dataset_train_batch() */
int dataset_validation_batch(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                             int32_t *ret_tokens, int32_t *ret_targets,
                             struct error *error) CHECK_RESULT;

/** dataset_train_counted(), dataset_validation_counted() - return the number of targets of samples
 * [first_sample, +count) that count in the loss: the divisor of the loss sum */
uint64_t dataset_train_counted(const struct dataset *dataset, uint64_t first_sample,
                               uint64_t count);
uint64_t dataset_validation_counted(const struct dataset *dataset, uint64_t first_sample,
                                    uint64_t count);
