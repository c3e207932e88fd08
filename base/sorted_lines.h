/*
 * Bisection in a file of lines in ascending order of a number: a few reads for a file of any
 * length. Metrics and events of a job are such files.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

#define SORTED_LINE_BYTES_MAX ((size_t)256 << 10) /* a longer line is damage */

struct sorted_lines {
    int descriptor; /* borrowed */
    /* Read the number of a line, without its newline. Return: 0; negative: the line is malformed */
    int (*number_of)(const char *line, size_t size_bytes, uint64_t *ret_number);
};

struct sorted_line {
    off_t begin, end; /* newline included */
    uint64_t number;
};

/**
 * sorted_lines_at() - find the first line that begins at @from or later, and before @before
 * @size: size of the file to consider
 *
 * Return: 0; -ENOENT: no line begins there; -EBADMSG: the line is malformed or incomplete; -ENOMEM;
 * errors of pread()
 */
int sorted_lines_at(const struct sorted_lines *lines, off_t from, off_t before, off_t size,
                    struct sorted_line *ret_line) CHECK_RESULT;

/**
 * sorted_lines_find() - find the start of the first line with a number >= @number; *ret_offset is
 * @size when there is none. Errors as of sorted_lines_at()
 */
int sorted_lines_find(const struct sorted_lines *lines, uint64_t number, off_t size,
                      off_t *ret_offset) CHECK_RESULT;

/**
 * sorted_lines_read() - read bytes [@from, @end) of a file
 * @ret_data: zero-terminated, freed by the caller
 *
 * Return: 0; -EIO: the file has become shorter; -ENOMEM; errors of pread()
 */
int sorted_lines_read(int descriptor, off_t from, off_t end, char **ret_data) CHECK_RESULT;
