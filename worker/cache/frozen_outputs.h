/*
 * Outputs of the frozen layers, kept on the node from one epoch to the next.
 *
 * Problem: frozen layers compute the same output for the same sample in every epoch. With most
 * layers frozen, this is most of the work of a step.
 *
 * Design: a frozen output follows from the sample and the frozen weights alone (model/net/stage.h),
 * so it is kept in a file of this node (worker/cache/output_file.h) whose key is the digest of
 * these weights, the data, the numerics and the version of firn. All workers of the node share the
 * file; a worker that finds a sample there loads it instead of computing. The bits are the same
 * whether an output is loaded or computed: with the file new, full, damaged or gone, and regardless
 * of the worker that wrote it.
 *
 *   - The sample's index is its place. When the budget cannot hold all samples, those with the
 *     lowest indices are kept: an epoch visits every sample once, in a random order, so any fixed
 *     fraction of the samples serves the same fraction of the visits, and eviction gains nothing.
 *   - When more layers freeze, another file begins. An output in the previous file is the input of
 *     the layers that have frozen since: only these are computed. Older files are removed.
 *   - The first outputs of a new file are computed even if they are stored. If loading takes longer
 *     than computing, nothing more is loaded.
 *   - Outputs of the next step's samples that other nodes have kept are fetched in the background
 *     if that takes less time than computing (worker/cache/outputs_fetch.h).
 *   - The kernel's page cache is the memory tier, and it reads the next micro-batch's samples
 *     ahead. Nothing is written when less than a tenth of the file system is free, or when writing
 *     takes more than a millisecond and half the time of computing: a slow disk blocks its writers.
 *
 * A failure ends the use of the file, with one line in the log, and never the training.
 *
 * Growth: a file has one record for each sample, up to the budget. A look-up or a write costs the
 * same for any number of samples, workers and epochs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "checkpoint/remote/remote.h"

struct frozen_outputs;

/* The inputs that determine the outputs of a stage's frozen units. */
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
 * frozen_outputs_new() - create the outputs of one worker; NULL: no memory
 * @folder: of this node, for these files alone; created on demand
 * @numerics: how this worker computes; workers with different numerics never share files
 * @budget_bytes: of all files; 0: nothing is kept
 */
struct frozen_outputs *frozen_outputs_new(const char *folder, const char *numerics,
                                          uint64_t budget_bytes);
void frozen_outputs_free(struct frozen_outputs *outputs); /* NULL allowed; the files stay */

/** frozen_outputs_begin() - switch to the outputs of @part. Return: true if there is a file */
bool frozen_outputs_begin(struct frozen_outputs *outputs, const struct frozen_outputs_part *part);

/** frozen_outputs_reach() - fetch the current outputs from other nodes
 * (worker/cache/outputs_fetch.h) until frozen_outputs_part_company()
 * @others: without this node; none: nothing happens */
void frozen_outputs_reach(struct frozen_outputs *outputs,
                          const struct checkpoint_remote_options *others);
void frozen_outputs_part_company(struct frozen_outputs *outputs); /* NULL allowed */
/** frozen_outputs_begin_step() - forget the samples that were wanted in the step before the last */
void frozen_outputs_begin_step(struct frozen_outputs *outputs);
/** frozen_outputs_want() - fetch the output of sample @index, which the next step loads, if only
 * another node has it */
void frozen_outputs_want(struct frozen_outputs *outputs, uint64_t index);

/* Host buffers for the output of the first @unit_count units. */
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
/** frozen_outputs_expect() - read sample @index ahead: it is loaded soon */
void frozen_outputs_expect(const struct frozen_outputs *outputs, uint64_t index);

/** frozen_outputs_met() - return the number of units whose output was found for most of the recent
 * samples, and the fraction of these samples in *@ret_share; 0: nothing was found */
unsigned frozen_outputs_met(const struct frozen_outputs *outputs, double *ret_share);
/** frozen_outputs_take_counts() - return the counts since the last call */
struct frozen_outputs_counts frozen_outputs_take_counts(struct frozen_outputs *outputs);

/** frozen_outputs_leave() - close the files without removing them: the state goes back to another
 * step. NULL allowed */
void frozen_outputs_leave(struct frozen_outputs *outputs);
/** frozen_outputs_condemn() - invalidate the files for all workers of the node, because this one
 * has computed wrongly and may have written to them. The workers compute until they begin new
 * files */
void frozen_outputs_condemn(struct frozen_outputs *outputs);

/** frozen_outputs_finish() - remove the files: the job is over */
void frozen_outputs_finish(struct frozen_outputs *outputs);
