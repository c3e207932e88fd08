/*
 * A text of metrics lines in the order of their steps, of which the last may be cut off. No file is
 * involved.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/** metrics_text_cut() - return the number of bytes of @text with lines up to and including @step;
 * scans from the end */
size_t metrics_text_cut(const void *text, size_t size_bytes, uint64_t step);

/** metrics_text_newest() - return the step of the last whole line of @text; 0: there is none */
uint64_t metrics_text_newest(const void *text, size_t size_bytes);

/** metrics_text_next() - return the whole line at *@at, newline included, and advance *@at past it;
 * false: no whole line is left
 * @ret_line: borrows from @text */
bool metrics_text_next(const struct bytes *text, size_t *at, struct bytes *ret_line);
