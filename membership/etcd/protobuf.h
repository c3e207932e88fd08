/*
 * Protocol Buffers' wire format, as far as etcd's messages need it: fields of variable-length
 * integers, bytes and nested messages (protobuf.dev, "Encoding").
 *
 * Writing appends to a buffer; as in proto3, zeros and empty bytes are left out unless they are put
 * as a message. Reading iterates over the fields of one message in place, checks every bound, and
 * skips unknown fields.
 */
#pragma once

#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"

/* All of these return 0 or -ENOMEM. */
int protobuf_put_int(struct bytes *bytes, unsigned field, int64_t value) CHECK_RESULT;
int protobuf_put_bytes(struct bytes *bytes, unsigned field, const void *data,
                       size_t size_bytes) CHECK_RESULT;
int protobuf_put_text(struct bytes *bytes, unsigned field, const char *text) CHECK_RESULT;
/** protobuf_begin() - begin a message in @field: all fields put until protobuf_end() with the same
 * mark belong to it */
int protobuf_begin(struct bytes *bytes, unsigned field, size_t *ret_mark) CHECK_RESULT;
int protobuf_end(struct bytes *bytes, size_t mark) CHECK_RESULT;

struct protobuf_reader {
    const uint8_t *at;
    size_t left_bytes;
};

struct protobuf_field {
    unsigned number;
    enum {
        PROTOBUF_INT,
        PROTOBUF_BYTES,
        PROTOBUF_FIXED
    } type;              /* FIXED: of 4 or 8 bytes, in `data` */
    int64_t value;       /* PROTOBUF_INT */
    const uint8_t *data; /* else: inside the message */
    size_t size_bytes;
};

/** protobuf_next() - read the next field. Return: 1; 0 at the end; -EPROTO (not a message) */
int protobuf_next(struct protobuf_reader *reader, struct protobuf_field *ret_field) CHECK_RESULT;
/** protobuf_reader_of() - begin to read the message inside a field of bytes */
struct protobuf_reader protobuf_reader_of(const struct protobuf_field *field);
