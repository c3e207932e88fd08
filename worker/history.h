/*
 * The metrics of a run, kept in its checkpoints: a node that alone ran a job does not take the
 * history with it, and a job that begins from a copied folder has all of its lines.
 */
#pragma once

#include "checkpoint/manifest.h"
#include "worker/metrics.h"

#define HISTORY_NAME      "metrics.jsonl"
#define HISTORY_BYTES_MAX ((size_t)64 << 20) /* more is left out */

/**
 * history_save() - the lines of @metrics_path up to and with @step, into <part>/metrics.jsonl
 * @part: the folder of a checkpoint that is about to be committed
 * @manifest: lists the file afterwards; not sealed yet
 *
 * May run while the scribe appends to the file. The file is durable before this returns.
 * Return: 0, also when there is nothing to keep; negative: @manifest is unchanged, and a checkpoint
 * without it is as good as one with it.
 */
int history_save(const char *metrics_path, uint64_t step, const char *part,
                 struct manifest *manifest, struct error *error) CHECK_RESULT;

/**
 * history_take() - lines that the checkpoint in folder @path has and @metrics has not
 * @manifest: of that checkpoint
 *
 * Return: 0, also when @manifest lists none; -ENOENT; -EBADMSG: damaged, and none is taken; what
 * metrics_adopt() returns.
 */
int history_take(const char *path, const struct manifest *manifest, struct metrics *metrics,
                 struct error *error) CHECK_RESULT;
