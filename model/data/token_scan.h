/*
 * Check all tokens of a row against the vocabulary, and hash them, in one pass over its files.
 *
 * A few threads of low priority take turns: each reads the next piece of the row, checks it, and
 * waits until the piece before it is hashed. So reading and checking run in parallel, the digest is
 * that of the tokens in order, and the first of several bad tokens is reported. The files are read
 * with pread(), not through mappings, so a bad sector or a truncated file gives an error with the
 * file's name, not a signal.
 */
#pragma once

#include "model/data/token_row.h"

/* Progress of a scan of several rows, and its listener. */
struct token_scan_progress {
    const struct dataset_listener *listener; /* called by one thread at a time, in order */
    uint64_t done_bytes, total_bytes;
};

/**
 * token_scan_run() - hash the tokens as token_row_hash(), and check those of an unchecked row;
 * @options: the options of token_row_open()
 * @progress: of all rows; only rows that are checked here are reported
 *
 * Return: 0; -ERANGE: a token outside the vocabulary; -EIO: a file became shorter; -ENOMEM; errno
 * of open() or pread()
 */
int token_scan_run(const struct token_row *row, const struct token_row_options *options,
                   struct token_scan_progress *progress, struct hash_stream *stream,
                   struct error *error) CHECK_RESULT;
