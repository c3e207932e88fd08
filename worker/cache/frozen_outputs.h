/*
 * Outputs of the frozen layers, kept on the node from one epoch to the next.
 *
 * Problem: frozen layers compute the same output for the same sample in every epoch. With most
 * layers frozen that is most of the work of a step.
 *
 * Design: a frozen output follows from the sample and the frozen weights alone (model/net/stage.h),
 * so it is kept in a file of this node (worker/cache/output_file.h) whose key is the digest of
 * these weights, the data, the numerics and the version of firn. All workers of the node share the
 * file; a worker that finds a sample there loads it instead of computing. The bits are the same
 * whether an output is loaded or computed: with the file new, full, damaged or gone, and whichever
 * worker wrote it.
 *
 *   - The sample's index is its place. Where not all samples have room, those with the lowest
 *     indices have it: an epoch visits every sample once, in a random order, so any fixed choice of
 *     a share s of the samples is met with a share s of the visits, and evicting gains nothing.
 *   - When more layers freeze another file begins. An output in the one before is the input of the
 *     layers that have frozen since: only these are computed. Older files are removed.
 *   - The first outputs after a beginning are computed even if they are there. Where loading takes
 *     longer than computing, nothing is loaded any more.
 *   - Outputs of the next step's samples that other nodes have kept are fetched meanwhile, where
 *     that takes less time than computing (worker/cache/outputs_fetch.h).
 *   - The kernel's page cache is the memory tier, and it reads the next micro-batch's samples
 * ahead. Nothing is written when less than a tenth of the file system is free, or when writing
 * takes more than a millisecond and half the time of computing: a slow disk makes its writers wait.
 *
 * What fails ends the use of the file, with one line in the log, and never the training.
 *
 * What grows: a file has a record for each sample, as far as the budget goes; a look or a write is
 * one system call for any number of samples, workers and epochs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "checkpoint/remote/remote.h"

struct frozen_outputs;

/* What the outputs of a stage's frozen units depend on. */
struct frozen_outputs_part {
    uint64_t last_dispute;  /* of the plan: outputs from before may be of wrong weights */
    struct hash128 weights; /* of the frozen units */
    struct hash128 data;
    unsigned unit_count; /* frozen units, from the first one of the model on */
    uint64_t sample_count;
    size_t sample_bytes; /* of the output of one sample */
};

struct frozen_outputs_counts {
    uint64_t loaded, continued, computed; /* samples: found, found with fewer layers, not found */
};

/**
 * frozen_outputs_new() - NULL: no memory
 * @folder: of this node, for these files alone; made when it is needed
 * @numerics: how this worker computes: of workers that differ in it none uses the other's files
 * @budget_bytes: of all files; 0: nothing is kept
 */
struct frozen_outputs *frozen_outputs_new(const char *folder, const char *numerics,
                                          uint64_t budget_bytes);
void frozen_outputs_free(struct frozen_outputs *outputs); /* NULL allowed; the files stay */

/** frozen_outputs_begin() - go over to the outputs of @part. Return: whether there is a file */
bool frozen_outputs_begin(struct frozen_outputs *outputs, const struct frozen_outputs_part *part);

/** frozen_outputs_reach() - fetch from now on the outputs that other nodes have kept of those that
 * are gone over to (worker/cache/outputs_fetch.h), until frozen_outputs_part_company()
 * @others: without this node; none: nothing happens */
void frozen_outputs_reach(struct frozen_outputs *outputs,
                          const struct checkpoint_remote_options *others);
void frozen_outputs_part_company(struct frozen_outputs *outputs); /* NULL allowed */
/** frozen_outputs_begin_step() - forget the samples that were wanted in the step before the last */
void frozen_outputs_begin_step(struct frozen_outputs *outputs);
/** frozen_outputs_want() - sample @index is loaded in the next step: fetch its output if it is
 * elsewhere */
void frozen_outputs_want(struct frozen_outputs *outputs, uint64_t index);

/* A buffer of host memory for the output of the first so many units. */
struct frozen_outputs_target {
    void *(*at)(void *context, unsigned unit_count);
    void *context;
};

/**
 * frozen_outputs_load() - load the output of sample @index
 * @target: returns where the output of that many units goes
 *
 * Return: the number of units that need not be computed; 0: nothing was found
 */
unsigned frozen_outputs_load(struct frozen_outputs *outputs, uint64_t index,
                             const struct frozen_outputs_target *target);
/** frozen_outputs_keeps() - return whether the output of sample @index would be kept */
bool frozen_outputs_keeps(const struct frozen_outputs *outputs, uint64_t index);
/** frozen_outputs_is_active() - return whether any output is loaded or kept */
bool frozen_outputs_is_active(const struct frozen_outputs *outputs);
/** frozen_outputs_pass() - count an output, computed in @took_ns (0: not known) from unit @from on,
 * that is not kept */
void frozen_outputs_pass(struct frozen_outputs *outputs, unsigned from, uint64_t took_ns);
/** frozen_outputs_keep() - keep the output of all units, computed in @took_ns from unit @from on,
 * of a sample for which frozen_outputs_keeps(); NULL: it did not arrive from the device */
void frozen_outputs_keep(struct frozen_outputs *outputs, uint64_t index, const void *output,
                         unsigned from, uint64_t took_ns);
/** frozen_outputs_expect() - sample @index is loaded soon */
void frozen_outputs_expect(const struct frozen_outputs *outputs, uint64_t index);

/** frozen_outputs_met() - return the number of units whose output was found for the most of the
 * last samples, and their share in *@ret_share; 0: nothing was found */
unsigned frozen_outputs_met(const struct frozen_outputs *outputs, double *ret_share);
/** frozen_outputs_take_counts() - return the counts since the last call */
struct frozen_outputs_counts frozen_outputs_take_counts(struct frozen_outputs *outputs);

/** frozen_outputs_leave() - close the files, which stay: the state goes back to another step. NULL
 * allowed */
void frozen_outputs_leave(struct frozen_outputs *outputs);
/** frozen_outputs_condemn() - take the files from all workers of the node, because this one has
 * computed wrongly and may have written to them. They compute until they begin anew */
void frozen_outputs_condemn(struct frozen_outputs *outputs);

/** frozen_outputs_finish() - remove the files: the job is over */
void frozen_outputs_finish(struct frozen_outputs *outputs);
