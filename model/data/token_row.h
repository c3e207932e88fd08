/*
 * Tokens of many files as one long row, read by position.
 *
 * Below a size limit all tokens are copied into memory: simple, and nothing that happens to the
 * files later can hurt a run. Above it the files are mapped; a small file is copied even then,
 * because mappings are pages and their number is limited by the system. A mapped file that is
 * truncated while the job runs raises SIGBUS in whoever reads it: that is the price of data larger
 * than memory, and the worker's death is handled like any other.
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

#define TOKEN_ROW_MEMORY_MAX (512ull << 20) /* bytes of files that are copied whole */
#define TOKEN_ROW_MAP_MIN    (1ull << 20)   /* above that: bytes of a file worth a mapping */

struct token_row_options {
    enum dataset_format format;
    const struct file_list *files; /* read in their order; borrowed for the call */
    unsigned vocab;
    uint64_t memory_max_bytes, map_min_bytes; /* the limits above, but for tests */
    bool check_later; /* token_row_scan() looks at the tokens of a row that is not copied whole */
};

struct token_extent {
    const void *tokens;
    uint64_t first; /* position of its first token */
    void *memory;   /* what to give back: a mapping when map_bytes > 0, else from malloc() */
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

/** token_row_open() - errors as dataset_open(), and -EIO when a file changes while it is read */
int token_row_open(const struct token_row_options *options, struct token_row *ret_row,
                   struct error *error) CHECK_RESULT;
void token_row_done(struct token_row *row);

/** token_row_held_bytes() - what it has copied and what it has mapped, added to both numbers */
void token_row_held_bytes(const struct token_row *row, uint64_t *copied, uint64_t *mapped);

/** token_row_read() - tokens [first, first + count), which must lie in the row; O(log files) */
void token_row_read(const struct token_row *row, uint64_t first, size_t count, int32_t *ret_tokens);

/**
 * token_row_span() - tokens that lie together, of token_bytes each
 * @first: a position in the row
 * @ret_count: how many, from @first on; at least one
 */
const void *token_row_span(const struct token_row *row, uint64_t first, uint64_t *ret_count);

/** token_row_hash() - add the bytes of all tokens */
void token_row_hash(const struct token_row *row, struct hash_stream *stream);

/* How far a scan of several rows is, and to whom that is told. */
struct token_row_progress {
    const struct dataset_listener *listener;
    uint64_t done_bytes, total_bytes;
};

/** token_row_scan() - token_row_hash(), and in the same pass the check that was put off
 * @options: as it was opened with
 * @progress: of all rows; only what is checked here is told of. Return: 0; -ERANGE: a token outside
 * the vocabulary */
int token_row_scan(const struct token_row *row, const struct token_row_options *options,
                   struct token_row_progress *progress, struct hash_stream *stream,
                   struct error *error) CHECK_RESULT;
