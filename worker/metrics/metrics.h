/*
 * The metrics of a job on this node: JSON Lines, one line per committed step, written by the node's
 * metrics writer (its worker of lowest rank).
 *
 * The file is the history: it is opened with the lines of earlier generations (a line cut off by a
 * crash is dropped), a step that is replayed after a rollback is compared with its first line
 * instead of written again, and a node that joins late gets the missing lines from another node. A
 * metrics writer that dies may leave the line of its last commit unwritten: the next writer on the
 * node has that commit and writes the line; older missing lines come from other nodes.
 *
 * The file is not read when a generation begins: lines are in the order of their steps, so only its
 * end is checked, and an older line is found by bisection. Neither time nor memory grows with the
 * length of the run, except for a node that rewrites its file with lines of another node.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "worker/metrics/metrics_line.h"

struct metrics;

#define METRICS_HISTORY_MAX ((size_t)64 << 20) /* bytes of lines sent to another node */
/* Bytes of the file; then its older lines are in metrics.jsonl.1 alone (base/line_rotation.h). */
#define METRICS_FILE_MAX ((off_t)4 << 30)

/** metrics_open() - open or create the file at @path; check the last 32 KiB, and truncate the file
 * before the first invalid or out-of-order line there; the errors of open(), read() and
 * ftruncate(), -ENOMEM */
int metrics_open(const char *path, struct metrics **ret_metrics, struct error *error) CHECK_RESULT;
void metrics_close(struct metrics *metrics);
/** metrics_last_step() - return the step of the last line, 0 when empty; a node that was away has
 * gaps before it */
uint64_t metrics_last_step(const struct metrics *metrics);

/**
 * metrics_append() - write the line of a new step, or check a replayed one
 *
 * Return: 0; -EILSEQ (a replayed step came out with other bits: exactness is broken, @error names
 * the difference); -ENOSPC, -EIO ... (the line is kept and written with the next)
 */
int metrics_append(struct metrics *metrics, const struct metrics_line *line,
                   struct error *error) CHECK_RESULT;

/** metrics_history() - return the newest lines up to and including @step, METRICS_HISTORY_MAX bytes
 * of them, including lines that are not on disk yet */
int metrics_history(const struct metrics *metrics, uint64_t step, struct bytes *ret_text,
                    struct error *error) CHECK_RESULT;
/** metrics_rewind() - forget the lines after @step: they were computed from a wrong state, and
 * their replay may differ; on an error the file is unchanged */
int metrics_rewind(struct metrics *metrics, uint64_t step, struct error *error) CHECK_RESULT;
/** metrics_adopt() - insert the lines of @data whose steps are not in the file; -EBADMSG when @data
 * does not parse (the file is unchanged) */
int metrics_adopt(struct metrics *metrics, const void *data, size_t size_bytes,
                  struct error *error) CHECK_RESULT;
