/*
 * The exact members of metrics lines, in memory, in the order of their steps.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "worker/metrics/exact_line.h"

struct exact_steps {
    struct exact *lines; /* ascending by step; a node that was away has gaps */
    size_t count, capacity;
};

void exact_steps_done(struct exact_steps *steps);

/** exact_steps_add() - add a line, whose step comes after those in @steps; -ENOMEM: unchanged */
int exact_steps_add(struct exact_steps *steps, const struct exact *exact) CHECK_RESULT;

/**
 * exact_steps_read() - add the lines of @text, up to the first that is cut off, malformed or out
 * of order
 * @strict: parse each line; else scan those in this program's own format, which is faster
 * @ret_valid_bytes: of @text, up to the end of the last line added
 *
 * Return: 0; -ENOMEM (@ret_valid_bytes counts the lines added so far)
 */
int exact_steps_read(struct exact_steps *steps, const struct bytes *text, bool strict,
                     size_t *ret_valid_bytes, struct error *error) CHECK_RESULT;

/** exact_steps_forget() - drop the @count oldest lines */
void exact_steps_forget(struct exact_steps *steps, size_t count);

/** exact_steps_last() - return the step of the last line; 0: there is none */
uint64_t exact_steps_last(const struct exact_steps *steps);

/** exact_steps_find() - return the line of @step; NULL: there is none */
const struct exact *exact_steps_find(const struct exact_steps *steps, uint64_t step);
