/*
 * One line of metrics: the numbers of a committed step, written as JSON.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "elastic/plan/straggler.h"
#include "worker/metrics/exact_line.h"

struct metrics_line {
    const char *job;
    uint64_t step;
    double loss, grad_norm, lr;
    unsigned frozen_layers;
    uint64_t generation;
    unsigned stages, replicas, workers;
    uint64_t tokens;  /* since the job began */
    bool masked;      /* not all tokens count in the loss: the line has `counted` */
    uint64_t counted; /* of this step's tokens */
    double step_ms;
    uint64_t unix_ns;
    bool evaluated;
    double val_loss;
    double plasticity;    /* of the lowest trained layer; 0: not measured */
    bool final_evaluated; /* the last step, with the validation loss of the model after it: */
    double final_loss;
    /* Samples of the writer's replica whose frozen output was loaded, and those for which frozen
     * layers were computed; both 0: no outputs are kept. */
    uint64_t frozen_loaded, frozen_computed;
    const struct plan *plan;               /* of the step */
    const struct straggler_stage *slowest; /* of each of its stages; NULL: not known */
};

/** metrics_line_exact() - return the members of @line that a replay of its step must repeat */
struct exact metrics_line_exact(const struct metrics_line *line);

/** metrics_line_format() - append @line, with its newline, to @into; -ENOMEM: @into is unchanged */
int metrics_line_format(const struct metrics_line *line, struct bytes *into) CHECK_RESULT;
