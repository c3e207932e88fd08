/*
 * The metrics of a job on this node: JSON Lines, one line a committed step, written by the node's
 * scribe (its worker of lowest rank).
 *
 * The file is the history: it is opened with what earlier generations wrote (a line cut off by a
 * crash is dropped), a step that is replayed after a rollback is compared with its first line
 * instead of written again, and a node that joins late gets the lines it missed from another one. A
 * scribe that dies leaves out what it did not come to write: the next one on the node, which knows
 * its own last commit, writes that, and what is missing further back comes from other nodes.
 *
 * A generation that begins does not read the file: lines are in the order of their steps, so its
 * end is checked, and an older line is found by bisection. Nothing here but what a node that learns
 * from another one rewrites grows with the length of the run, neither time nor memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "elastic/messages/straggler.h"

struct metrics;

struct metrics_line {
    const char *job;
    uint64_t step;
    double loss, grad_norm, lr;
    unsigned frozen_layers;
    uint64_t generation;
    unsigned stages, replicas, workers;
    uint64_t tokens;  /* since the job began */
    bool masked;      /* not all tokens count in the loss: then the line says how many do */
    uint64_t counted; /* of this step's tokens */
    double step_ms;
    uint64_t unix_ns;
    bool evaluated;
    double val_loss;
    bool final_evaluated; /* the last step, with the validation loss of the model after it: */
    double final_loss;
    const struct plan *plan;               /* of the step */
    const struct straggler_stage *slowest; /* of each of its stages; NULL: not known */
};

#define METRICS_HISTORY_MAX ((size_t)64 << 20) /* bytes of lines that travel to another node */

/** metrics_open() - the file at @path, made where there is none; among its last 256 KiB cut off
 * before the first line that is none or out of order; the errors of open(), read() and ftruncate(),
 * -ENOMEM */
int metrics_open(const char *path, struct metrics **ret_metrics, struct error *error) CHECK_RESULT;
void metrics_close(struct metrics *metrics);
/** metrics_last_step() - 0 when empty; a node that was away for a while has gaps before it */
uint64_t metrics_last_step(const struct metrics *metrics);

/**
 * metrics_append() - write the line of a new step, or check a replayed one
 * Return: 0; -EILSEQ (a replayed step came out with other bits: exactness is broken, @error says
 * how); -ENOSPC, -EIO ... (the line is kept and written with the next)
 */
int metrics_append(struct metrics *metrics, const struct metrics_line *line,
                   struct error *error) CHECK_RESULT;

/** metrics_history() - the newest lines up to and with @step, METRICS_HISTORY_MAX bytes of them, of
 * those that wait for the disk too */
int metrics_history(const struct metrics *metrics, uint64_t step, struct bytes *ret_text,
                    struct error *error) CHECK_RESULT;
/** metrics_rewind() - forget what comes after @step: it was computed from a state that was wrong,
 * and its replay may come out different; what it cannot do leaves the file as it was */
int metrics_rewind(struct metrics *metrics, uint64_t step, struct error *error) CHECK_RESULT;
/** metrics_cut() - how many bytes of a metrics file's @text are lines up to and with @step; looks
 * at it from its end, where a line may be cut off */
size_t metrics_cut(const void *text, size_t size_bytes, uint64_t step);
/** metrics_newest() - the step of the last whole line of such a text; 0: there is none */
uint64_t metrics_newest(const void *text, size_t size_bytes);
/** metrics_adopt() - take those lines of @data whose steps are not in the file, each at its place;
 * -EBADMSG when it does not parse (the file is as it was) */
int metrics_adopt(struct metrics *metrics, const void *data, size_t size_bytes,
                  struct error *error) CHECK_RESULT;
