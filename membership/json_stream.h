/*
 * Finds the objects in a stream of JSON objects that arrives in pieces: newline-delimited or simply
 * concatenated. It only counts braces outside strings; what is inside is the parser's business.
 * Bounded: an object larger than its limit is an error, and so is anything between objects that is
 * not white space.
 */
#pragma once

#include <stdbool.h>

#include "base/bytes.h"
#include "base/compiler.h"

struct json_stream {
    struct bytes pending; /* from the start of the object that is not complete */
    size_t scanned_bytes; /* of pending */
    size_t depth;
    bool in_string, escaped;
    size_t object_bytes_max;
};

void json_stream_init(struct json_stream *stream, size_t object_bytes_max);
void json_stream_done(struct json_stream *stream);

/** json_stream_feed() - Return: 0 or -ENOMEM */
int json_stream_feed(struct json_stream *stream, const void *data, size_t size_bytes) CHECK_RESULT;

/**
 * json_stream_next() - the next complete object
 * @ret_object: malloc'ed, zero-terminated, the caller's
 *
 * Return: 1 with an object; 0 when more must be fed; -EPROTO (not a stream of objects), -EFBIG,
 * -ENOMEM.
 */
int json_stream_next(struct json_stream *stream, char **ret_object,
                     size_t *ret_size_bytes) CHECK_RESULT;
