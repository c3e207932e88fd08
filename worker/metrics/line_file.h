/*
 * A file of metrics lines in the order of their steps. It is read by ranges: a line is found by
 * bisection in a file of any length.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "worker/metrics/exact_line.h"

struct line_file {
    char *path;     /* owned */
    int descriptor; /* -1: not open; size 0 then */
};

/** line_file_open() - open or create the file by its name, so that a file that has replaced the old
 * one is used from now on; the errors of open() (the file is not open) */
int line_file_open(struct line_file *file, struct error *error) CHECK_RESULT;

/** line_file_ensure_open() - as line_file_open(), unless the file is open */
int line_file_ensure_open(struct line_file *file, struct error *error) CHECK_RESULT;

static inline bool line_file_is_open(const struct line_file *file)
{
    return file->descriptor >= 0;
}

int line_file_size(const struct line_file *file, off_t *ret_size, struct error *error) CHECK_RESULT;

/** line_file_read() - read bytes [@from, @end); -EIO: the file has become shorter; -ENOMEM; the
 * errors of pread() */
int line_file_read(const struct line_file *file, off_t from, off_t end, struct bytes *ret_text,
                   struct error *error) CHECK_RESULT;

/** line_file_find() - find the offset of the first line of @step or later, or the size of the file
 * if there is none; -EBADMSG: bisection met a malformed line */
int line_file_find(const struct line_file *file, uint64_t step, off_t *ret_offset,
                   struct error *error) CHECK_RESULT;

/** line_file_begin_after() - find the offset of the first line that begins at @from or later;
 * the errors of sorted_lines_at() */
int line_file_begin_after(const struct line_file *file, off_t from, off_t *ret_begin) CHECK_RESULT;

/** line_file_get() - read the line of @step; false: there is none, or it cannot be read */
bool line_file_get(const struct line_file *file, uint64_t step, struct exact *ret_exact);

/** line_file_cut() - drop the bytes from @size on; negative errno of ftruncate() */
int line_file_cut(const struct line_file *file, off_t size) CHECK_RESULT;

/** line_file_write() - append the whole @text, and make it durable; negative errno (a part of @text
 * may be in the file) */
int line_file_write(const struct line_file *file, const struct bytes *text) CHECK_RESULT;

/** line_file_replace() - replace the bytes [@offset, @end) by @text, durably, in a new file of the
 * same name, which is not opened yet; on errors the file is unchanged */
int line_file_replace(const struct line_file *file, off_t offset, off_t end,
                      const struct bytes *text, struct error *error) CHECK_RESULT;
