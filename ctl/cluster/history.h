/*
 * Merge a job's metrics from all nodes into one history: each committed step once, in order.
 *
 * Every node that took part has a copy, and copies may have gaps (a node was away). The exact
 * values (losses, norms, frozen layers) must be equal in all copies. The first difference is kept
 * as the history's conflict, because it breaks the guarantee of exactness. If copies differ in
 * other values, the copy of the lowest generation is kept, which committed the step first.
 *
 * A history of months does not fit in memory, and need not: steps that every node has passed are
 * handed out and forgotten.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"

#define HISTORY_EXACT_SIZE 160

struct history_step {
    uint64_t step, generation, tokens, unix_ns;
    double loss, grad_norm, lr, step_ms; /* NaN where JSON says null */
    unsigned frozen_layers, stages, replicas, workers;
    uint64_t frozen_loaded, frozen_computed; /* samples of one replica; both 0: not known */
    bool evaluated;
    double val_loss;
    char loss_bits[BITS64_TEXT_SIZE], grad_norm_bits[BITS64_TEXT_SIZE];
    char val_loss_bits[BITS64_TEXT_SIZE]; /* "" unless evaluated */
    bool final_evaluated;                 /* last step: the model after it was evaluated, too */
    double final_loss;
    char final_bits[BITS64_TEXT_SIZE];
    char node[NAME_SIZE]; /* node that the line is from */
    char *line;           /* as the node wrote it, without the newline */
};

struct history {
    struct history_step *steps; /* ascending, each step once */
    size_t count, capacity;
    uint64_t next;         /* steps below were handed out: other copies of them are ignored */
    struct error conflict; /* code -EILSEQ once two nodes disagree */
};

void history_done(struct history *history);

/**
 * history_add() - add JSON Lines of @node; an incomplete last line is skipped
 * @ret_last_step: may be NULL; the highest step in @text, 0 for none
 *
 * Return: 0 (a disagreement is in history->conflict); -EBADMSG (a line is not a metrics line; the
 * lines before it are taken); -ENOMEM.
 */
int history_add(struct history *history, const char *node, const char *text, size_t size_bytes,
                uint64_t *ret_last_step, struct error *error) CHECK_RESULT;

/** history_find() - return the index of the first step >= @step; the count if there is none */
size_t history_find(const struct history *history, uint64_t step);

/**
 * history_hand_out() - call @take with each step below @end, in order, and forget them
 * @take: the step is valid until it returns; a result other than 0 ends the call and is returned
 */
int history_hand_out(struct history *history, uint64_t end,
                     int (*take)(void *context, const struct history_step *step),
                     void *context) CHECK_RESULT;

/** history_exact() - format "step loss_bits grad_norm_bits frozen_layers" */
const char *history_exact(const struct history_step *step, char text[HISTORY_EXACT_SIZE]);
/** history_exact_json() - format the same four as an object: integers as numbers, bits as texts */
const char *history_exact_json(const struct history_step *step, char text[HISTORY_EXACT_SIZE]);
