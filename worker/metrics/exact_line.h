/*
 * What a line of metrics says that must come out the same when its step is replayed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/error.h"

struct exact {
    uint64_t step;
    char loss_bits[BITS64_TEXT_SIZE], grad_norm_bits[BITS64_TEXT_SIZE];
    unsigned frozen_layers;
    uint64_t generation; /* but for this one, which wrote the line */
};

/** exact_line_parse() - of a line without its newline; -EBADMSG and others: it is none, @error (may
 * be NULL) says why; -ENOMEM */
int exact_line_parse(const char *line, size_t size_bytes, struct exact *ret_exact,
                     struct error *error) CHECK_RESULT;

/** exact_line_scan() - the same of a line as this program writes it, a twentieth of the time, for
 * histories have hundreds of thousands of them; others are parsed. Something behind the line must
 * end a number: its newline, or a zero */
int exact_line_scan(const char *line, size_t size_bytes, struct exact *ret_exact) CHECK_RESULT;
