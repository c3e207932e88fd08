/*
 * Tokens of many files as one long row, read by position.
 *
 * Below a size limit all tokens are copied into memory: simple, and later changes of the files do
 * not affect the run. Above it the files are mapped; a small file is copied even then, because
 * mappings are pages and their number is limited by the system. A mapped file that is truncated
 * while the job runs raises SIGBUS in the reading worker. This is the price of data larger than
 * memory; the worker's death is handled like any other.
 *
 * Immutable once open: any thread may read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/file_list.h"
#include "base/hash.h"
#include "model/data/dataset.h"

#define TOKEN_ROW_MAP_MIN (1ull << 20) /* least bytes of a file that is mapped */

struct token_row_options {
    enum dataset_format format;
    const struct file_list *files; /* read in their order; borrowed for the call */
    unsigned vocab;
    uint64_t memory_max_bytes, map_min_bytes; /* the limits above; others in tests */
    bool check_later; /* token_scan_run() checks the tokens of a row that is not copied whole */
};

struct token_extent {
    const void *tokens;
    uint64_t first; /* position of its first token */
    void *memory;   /* to be released: a mapping when map_bytes > 0, else from malloc() */
    size_t map_bytes;
};

struct token_row {
    size_t token_bytes; /* 1, 2 or 4, little-endian */
    uint64_t count;
    struct token_extent *extents; /* by position, none empty */
    size_t extent_count;
    uint64_t *file_counts; /* tokens of each file, in their order */
    size_t file_count;
    bool unchecked; /* its tokens may be outside the vocabulary */
};

/** token_row_open() - open the files as one row. Errors as dataset_open(), and -EIO when a file
 * changes while it is read */
int token_row_open(const struct token_row_options *options, struct token_row *ret_row,
                   struct error *error) CHECK_RESULT;
void token_row_done(struct token_row *row);

/** token_row_held_bytes() - add the row's copied and mapped bytes to both numbers */
void token_row_held_bytes(const struct token_row *row, uint64_t *copied, uint64_t *mapped);

/** token_row_read() - read tokens [first, first + count), which must lie in the row; O(log
 * files) */
void token_row_read(const struct token_row *row, uint64_t first, size_t count, int32_t *ret_tokens);

/**
 * token_row_span() - return contiguous tokens, of token_bytes each
 * @first: a position in the row
 * @ret_count: their number, from @first on; at least one
 */
const void *token_row_span(const struct token_row *row, uint64_t first, uint64_t *ret_count);

/** token_row_hash() - add the bytes of all tokens */
void token_row_hash(const struct token_row *row, struct hash_stream *stream);

/** token_row_check() - check that tokens of a file are in the vocabulary
 * @tokens: @count tokens of @token_bytes each
 * @first: the position of the first of them in the file, for the message
 *
 * Return: 0; -ERANGE, and @error names the file, the first bad token and its position */
int token_row_check(const char *path, const void *tokens, size_t token_bytes, uint64_t first,
                    size_t count, unsigned vocab, struct error *error) CHECK_RESULT;

/** token_row_read_file() - read @size_bytes at @offset of a file; -EIO when it is shorter, else
 * errno of pread() */
int token_row_read_file(const char *path, int descriptor, uint64_t offset, void *to,
                        size_t size_bytes, struct error *error) CHECK_RESULT;
