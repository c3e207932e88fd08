#include "membership/etcd/protobuf.h"

#include <errno.h>
#include <string.h>

#define VARINT_BYTES_MAX 10
#define FIELD_MAX        ((1u << 29) - 1)

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* Write seven bits per byte, the lowest first; all bytes but the last have the top bit set. */
static size_t write_varint(uint64_t value, uint8_t at[VARINT_BYTES_MAX])
{
    size_t size_bytes = 0;
    for (; value >= 0x80; value >>= 7)
        at[size_bytes++] = (uint8_t)(value | 0x80);
    at[size_bytes++] = (uint8_t)value;
    return size_bytes;
}

/* Write the key of a field, and an integer: its value or the number of bytes that follow. */
static int put_head(struct bytes *bytes, unsigned field, enum wire_type type, uint64_t value)
{
    uint8_t head[2 * VARINT_BYTES_MAX];
    size_t size_bytes = write_varint((uint64_t)field << 3 | type, head);
    size_bytes += write_varint(value, head + size_bytes);
    return bytes_append(bytes, head, size_bytes);
}

int protobuf_put_int(struct bytes *bytes, unsigned field, int64_t value)
{
    return value == 0 ? 0 : put_head(bytes, field, WIRE_VARINT, (uint64_t)value);
}

int protobuf_put_bytes(struct bytes *bytes, unsigned field, const void *data, size_t size_bytes)
{
    if (size_bytes == 0)
        return 0;
    int status = put_head(bytes, field, WIRE_BYTES, size_bytes);
    return status < 0 ? status : bytes_append(bytes, data, size_bytes);
}

int protobuf_put_text(struct bytes *bytes, unsigned field, const char *text)
{
    return protobuf_put_bytes(bytes, field, text, strlen(text));
}

int protobuf_begin(struct bytes *bytes, unsigned field, size_t *ret_mark)
{
    int status = put_head(bytes, field, WIRE_BYTES, 0);
    if (status == 0)
        *ret_mark = bytes->size_bytes;
    return status;
}

/* Fill in the length: protobuf_begin() left one byte for it; a longer length moves the message. */
int protobuf_end(struct bytes *bytes, size_t mark)
{
    uint8_t length[VARINT_BYTES_MAX];
    size_t message_bytes = bytes->size_bytes - mark;
    size_t length_bytes = write_varint(message_bytes, length);
    int status = bytes_append(bytes, length, length_bytes - 1);
    if (status < 0)
        return status;
    memmove(bytes->data + mark - 1 + length_bytes, bytes->data + mark, message_bytes);
    memcpy(bytes->data + mark - 1, length, length_bytes);
    return 0;
}

static int read_varint(struct protobuf_reader *reader, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX && i < reader->left_bytes; i++) {
        uint8_t byte = reader->at[i];
        if (i == VARINT_BYTES_MAX - 1 && byte > 1)
            return -EPROTO; /* more than 64 bits */
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            reader->at += i + 1;
            reader->left_bytes -= i + 1;
            *ret_value = value;
            return 0;
        }
    }
    return -EPROTO;
}

static int read_data(struct protobuf_reader *reader, uint64_t size_bytes,
                     struct protobuf_field *field)
{
    if (size_bytes > reader->left_bytes)
        return -EPROTO;
    field->data = reader->at;
    field->size_bytes = size_bytes;
    reader->at += size_bytes;
    reader->left_bytes -= size_bytes;
    return 0;
}

int protobuf_next(struct protobuf_reader *reader, struct protobuf_field *ret_field)
{
    uint64_t key, value;
    struct protobuf_field field = {0};
    if (reader->left_bytes == 0)
        return 0;
    int status = read_varint(reader, &key);
    if (status < 0 || key >> 3 == 0 || key >> 3 > FIELD_MAX)
        return -EPROTO;
    field.number = (unsigned)(key >> 3);
    switch (key & 7) {
    case WIRE_VARINT:
        status = read_varint(reader, &value);
        field.type = PROTOBUF_INT;
        field.value = status == 0 ? (int64_t)value : 0;
        break;
    case WIRE_BYTES:
        status = read_varint(reader, &value);
        field.type = PROTOBUF_BYTES;
        if (status == 0)
            status = read_data(reader, value, &field);
        break;
    case WIRE_FIXED32:
    case WIRE_FIXED64:
        field.type = PROTOBUF_FIXED;
        status = read_data(reader, (key & 7) == WIRE_FIXED32 ? 4 : 8, &field);
        break;
    default: /* groups, which proto3 does not have */
        status = -EPROTO;
        break;
    }
    if (status < 0)
        return status;
    *ret_field = field;
    return 1;
}

struct protobuf_reader protobuf_reader_of(const struct protobuf_field *field)
{
    return (struct protobuf_reader){.at = field->data, .left_bytes = field->size_bytes};
}
