/*
 * Finding a place in a file of lines that are in ascending order of a number, by bisection: a few
 * reads, however long the file is. Metrics and events of a job are such files.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

#define SORTED_LINE_BYTES_MAX ((size_t)256 << 10) /* a longer one is damage */

struct sorted_lines {
    int descriptor; /* borrowed */
    /* The number of a line, which has no newline at its end; 0 or an error: it is no line */
    int (*number_of)(const char *line, size_t size_bytes, uint64_t *ret_number);
};

struct sorted_line {
    off_t begin, end; /* its newline included */
    uint64_t number;
};

/**
 * sorted_lines_at() - the first line that begins at @from or later, and before @before
 * @size: of the file, as far as it counts
 *
 * Return: 0; -ENOENT: none begins there; -EBADMSG: it is no line, or not whole; -ENOMEM; errors of
 * pread()
 */
int sorted_lines_at(const struct sorted_lines *lines, off_t from, off_t before, off_t size,
                    struct sorted_line *ret_line) CHECK_RESULT;

/** sorted_lines_find() - where the first line of @number or more begins; @size: none does. Errors
 * as of sorted_lines_at() */
int sorted_lines_find(const struct sorted_lines *lines, uint64_t number, off_t size,
                      off_t *ret_offset) CHECK_RESULT;

/** sorted_lines_read() - bytes [@from, @end) of a file: 0; -EIO: it has become shorter; -ENOMEM;
 * errors of pread(). @ret_data: to be freed, closed by a zero */
int sorted_lines_read(int descriptor, off_t from, off_t end, char **ret_data) CHECK_RESULT;
