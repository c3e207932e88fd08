#include "membership/json_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void json_stream_init(struct json_stream *stream, size_t object_bytes_max)
{
    *stream = (struct json_stream){.object_bytes_max = object_bytes_max};
}

void json_stream_done(struct json_stream *stream)
{
    bytes_done(&stream->pending);
}

int json_stream_feed(struct json_stream *stream, const void *data, size_t size_bytes)
{
    return bytes_append(&stream->pending, data, size_bytes);
}

static void skip_space(struct json_stream *stream)
{
    size_t blank = 0;
    while (blank < stream->pending.size_bytes && strchr(" \t\r\n", stream->pending.data[blank]) &&
           stream->pending.data[blank] != '\0')
        blank++;
    bytes_consume(&stream->pending, blank);
}

/* One byte of an object. Returns true when it closes the object. */
static bool scan(struct json_stream *stream, char c)
{
    if (stream->in_string) {
        if (stream->escaped)
            stream->escaped = false;
        else if (c == '\\')
            stream->escaped = true;
        else if (c == '"')
            stream->in_string = false;
        return false;
    }
    if (c == '"')
        stream->in_string = true;
    else if (c == '{' || c == '[')
        stream->depth++;
    else if (c == '}' || c == ']')
        return --stream->depth == 0;
    return false;
}

static int take(struct json_stream *stream, char **ret_object, size_t *ret_size_bytes)
{
    size_t size_bytes = stream->scanned_bytes;
    char *object = strndup((const char *)stream->pending.data, size_bytes);
    if (object == NULL)
        return -ENOMEM;
    bytes_consume(&stream->pending, size_bytes);
    stream->scanned_bytes = 0;
    *ret_object = object;
    *ret_size_bytes = size_bytes;
    return 1;
}

int json_stream_next(struct json_stream *stream, char **ret_object, size_t *ret_size_bytes)
{
    if (stream->depth == 0)
        skip_space(stream);
    struct bytes *pending = &stream->pending;
    if (stream->depth == 0 && pending->size_bytes > 0 && pending->data[0] != '{')
        return -EPROTO;
    while (stream->scanned_bytes < pending->size_bytes) {
        if (stream->scanned_bytes >= stream->object_bytes_max)
            return -EFBIG;
        char c = (char)pending->data[stream->scanned_bytes++];
        if (c == '\0')
            return -EPROTO;
        if (scan(stream, c))
            return take(stream, ret_object, ret_size_bytes);
    }
    return 0;
}
