/*
 * The members of struct metrics, for the files that change it.
 */
#pragma once

#include "worker/metrics/exact_steps.h"
#include "worker/metrics/line_file.h"
#include "worker/metrics/metrics.h"

#define METRICS_UNWRITTEN_MAX METRICS_HISTORY_MAX /* bytes of lines that the disk refuses */
#define METRICS_UNWRITTEN_FEW ((size_t)1 << 20)   /* up to this size, retried with each line */

struct metrics {
    struct line_file file;
    off_t file_bytes_max;      /* at this size a new file begins */
    struct exact_steps newest; /* the last lines; older ones are found in the file */
    struct bytes unwritten;    /* lines that a full disk refused */
    size_t unwritten_count;    /* number of those lines; all are among `newest` */
    uint64_t refused_ns;       /* time of the last refusal by the disk; monotonic */
    struct error refused;      /* the reason */
};

/** metrics_load() - load and check the last lines of the file; truncate it before the first invalid
 * line */
int metrics_load(struct metrics *metrics, struct error *error) CHECK_RESULT;

/** metrics_read_from() - read the file from @offset on, and the lines that are not on disk yet */
int metrics_read_from(const struct metrics *metrics, off_t offset, struct bytes *ret_text,
                      struct error *error) CHECK_RESULT;

/** metrics_bound_memory() - drop lines from memory when there are many, so that memory does not
 * grow with the run; lines that are not on disk yet stay */
void metrics_bound_memory(struct metrics *metrics);
