/* Metrics lines as workers write them, for the tests that read them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct line_values {
    uint64_t step, generation, unix_ns;
    double loss;
    unsigned stages, replicas, frozen_layers;
    double val_loss;   /* 0: not evaluated */
    double final_loss; /* the same */
};

/** metrics_line() - write a line with its newline into @text (at least 600 bytes); return its
 * length
 */
size_t metrics_line(const struct line_values *values, char *text);
