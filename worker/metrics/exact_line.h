/*
 * The members of a metrics line that a replay of its step must repeat.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/error.h"

struct exact {
    uint64_t step;
    char loss_bits[BITS64_TEXT_SIZE], grad_norm_bits[BITS64_TEXT_SIZE];
    unsigned frozen_layers;
    uint64_t generation; /* not compared: the generation that wrote the line */
};

/** exact_line_parse() - parse a line without its newline; -EBADMSG and others: not a metrics line,
 * @error (may be NULL) has the cause; -ENOMEM */
int exact_line_parse(const char *line, size_t size_bytes, struct exact *ret_exact,
                     struct error *error) CHECK_RESULT;

/** exact_line_scan() - as exact_line_parse(), 20 times as fast on a line in this program's own
 * format, because histories have hundreds of thousands of lines; other lines are parsed. The byte
 * after the line must not continue a number: its newline, or a zero */
int exact_line_scan(const char *line, size_t size_bytes, struct exact *ret_exact) CHECK_RESULT;

/** exact_line_same() - return whether two lines of a step have the same bits; generations are not
 * compared */
bool exact_line_same(const struct exact *one, const struct exact *other);
