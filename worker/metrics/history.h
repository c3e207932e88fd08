/*
 * The metrics of a run, kept in its checkpoints: the history survives when the only node of a job
 * leaves, and a job that begins from a copied folder has all of its lines.
 *
 * The lines are in segments, metrics-<step of the last line>.jsonl, each in step order. A
 * checkpoint writes the lines since the last checkpoint but one, and links the segments of that
 * checkpoint (link(2)). Small segments are merged to keep their number low. Older programs wrote
 * all lines into metrics.jsonl.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "worker/metrics/metrics.h"

#define HISTORY_NAME      "metrics.jsonl"
#define HISTORY_SEGMENT   "metrics-%010llu.jsonl"
#define HISTORY_BYTES_MAX ((size_t)64 << 20) /* the newest lines; older ones are left out */

/* The sources of the lines. */
struct history_source {
    const char *metrics_path;        /* of this node */
    const char *before;              /* the folder of the last checkpoint but one; borrowed */
    const struct manifest *manifest; /* of `before`; NULL: there is none */
};

/** history_is_part() - return whether a checkpoint's file of this name has metrics lines */
bool history_is_part(const char *name);

/**
 * history_save() - write the lines of @source up to and including @step as segments into folder
 * @part
 * @part: the folder of a checkpoint that is about to be committed
 * @manifest: lists the segments afterwards; not sealed yet
 *
 * May run while the metrics writer appends to the file. The files are durable before this returns.
 *
 * Return: 0, also when there are no lines; negative: the checkpoint is restorable without metrics
 */
int history_save(const struct history_source *source, uint64_t step, const char *part,
                 struct manifest *manifest, struct error *error) CHECK_RESULT;

/**
 * history_take() - add the lines of the checkpoint in folder @path that @metrics lacks
 * @manifest: of that checkpoint
 *
 * Return: 0, also when @manifest lists none; -ENOENT; -EBADMSG: damaged, and no line of that file
 * is taken; the errors of metrics_adopt().
 */
int history_take(const char *path, const struct manifest *manifest, struct metrics *metrics,
                 struct error *error) CHECK_RESULT;
