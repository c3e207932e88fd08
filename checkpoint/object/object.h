/*
 * The interface of object stores: S3 (object_s3.h) and, in tests, a store in memory that fails on
 * demand.
 *
 * Every call blocks, for seconds with a slow store, so calls are made on a dedicated thread
 * (object_task.h). Only one thread at a time may use a context.
 *
 * All stores return the same errors. The text names bucket, key, HTTP code and cause:
 *   -EAGAIN     transient: no connection, 5xx, throttled, damaged in transit
 *   -ENOENT     no such object or upload
 *   -EACCES     refused: the key, its permissions, this machine's clock, or a missing bucket
 *   -EBADMSG    the response is not from an object store, or does not match the request
 *   -ECANCELED  cancelled by the caller
 *   -EINVAL, -EPROTO (TLS), -ENOMEM, -EFBIG
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define OBJECT_KEY_SIZE  1025         /* of a key, with the zero: limit of S3 */
#define OBJECT_TAG_SIZE  1025         /* of an ETag or the name of an upload */
#define OBJECT_ITEMS_MAX 1000000      /* of one listing */
#define OBJECT_PARTS_MAX 10000        /* of one upload: limit of S3 */
#define OBJECT_COPY_MAX  (5ull << 30) /* bytes that a store copies in one call */

struct object_item {
    char *key; /* NULL for a part */
    char *tag; /* ETag; for an unfinished upload its name */
    uint64_t size_bytes;
    unsigned number; /* for a part, from 1 */
    uint32_t crc32c; /* for a part, if the store keeps it */
    bool has_crc;
};

struct object_list {
    struct object_item *items;
    size_t count;
    bool checksums; /* for parts: the upload was started with checksums */
};

struct object_upload {
    char name[OBJECT_TAG_SIZE];
    bool checksums; /* the store checks the CRC32C of every part */
};

struct object_store {
    void *context;
    const char *where; /* "s3://bucket", for messages */
    /* List all keys that begin with @prefix, sorted bytewise */
    int (*list)(void *context, const char *prefix, struct object_list *ret_list,
                struct error *error) CHECK_RESULT;
    /* List multipart uploads that are neither finished nor aborted */
    int (*list_uploads)(void *context, const char *prefix, struct object_list *ret_list,
                        struct error *error) CHECK_RESULT;
    int (*list_parts)(void *context, const char *key, const char *upload,
                      struct object_list *ret_list, struct error *error) CHECK_RESULT;
    /* Read exactly @size_bytes from @offset; -EBADMSG when the object is shorter */
    int (*get)(void *context, const char *key, uint64_t offset, void *data, size_t size_bytes,
               struct error *error) CHECK_RESULT;
    /* Store an object atomically, replacing an existing one */
    int (*put)(void *context, const char *key, const void *data, size_t size_bytes, uint32_t crc32c,
               struct error *error) CHECK_RESULT;
    /* Copy inside the store, without a transfer to this node */
    int (*copy)(void *context, const char *from, const char *to, struct error *error) CHECK_RESULT;
    int (*begin)(void *context, const char *key, struct object_upload *ret_upload,
                 struct error *error) CHECK_RESULT;
    /* Store a part of at least 5 MiB (the last may be smaller); a repeated part replaces the
     * earlier one */
    int (*put_part)(void *context, const char *key, const struct object_upload *upload,
                    unsigned number, const void *data, size_t size_bytes, uint32_t crc32c,
                    char ret_tag[OBJECT_TAG_SIZE], struct error *error) CHECK_RESULT;
    /* @parts: all parts, in order, with their tags and CRCs */
    int (*finish)(void *context, const char *key, const struct object_upload *upload,
                  const struct object_list *parts, struct error *error) CHECK_RESULT;
    int (*give_up)(void *context, const char *key, const char *upload,
                   struct error *error) CHECK_RESULT;
    /* Remove an object; 0 also when it does not exist */
    int (*remove)(void *context, const char *key, struct error *error) CHECK_RESULT;
};

void object_list_done(struct object_list *list);
/** object_list_add() - append @item and copy its texts; 0, -ENOMEM, -EFBIG (OBJECT_ITEMS_MAX) */
int object_list_add(struct object_list *list, const struct object_item *item) CHECK_RESULT;
