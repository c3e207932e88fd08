/*
 * A message of 64-bit words, written and read field by field in one order. Errors are kept until
 * the end: a codec checks `status` once.
 */
#pragma once

#include <errno.h>

#include "base/bytes.h"

struct words_writer {
    struct bytes *bytes; /* the words are appended, little-endian */
    int status;          /* 0; -ENOMEM */
};

struct words_reader {
    const uint8_t *at; /* borrowed */
    size_t count;      /* words that are left */
    int status;        /* 0; -EBADMSG: a word was missing or out of range */
};

void words_put(struct words_writer *writer, uint64_t word);

/** words_take() - return the next word; 0 after an error */
uint64_t words_take(struct words_reader *reader);
/** words_take_below() - return the next word, which must be below @limit; 0 after an error */
uint64_t words_take_below(struct words_reader *reader, uint64_t limit);
