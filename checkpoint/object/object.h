/*
 * An object store behind one table: S3 (object_s3.h) and, in tests, one in memory that fails on
 * demand.
 *
 * Every call blocks, for seconds where the store is slow, so it is made on a thread of its own
 * (object_task.h). One thread at a time uses a context.
 *
 * Errors mean the same everywhere, and the text names bucket, key, HTTP code and cause:
 *   -EAGAIN     may pass by itself: no connection, 5xx, throttled, damaged on the way
 *   -ENOENT     no such object or upload
 *   -EACCES     refused: the key, its permissions, this machine's clock, or there is no such bucket
 *   -EBADMSG    the answer is not one of an object store, or not what was asked for
 *   -ECANCELED  told to stop
 *   -EINVAL, -EPROTO (TLS), -ENOMEM, -EFBIG
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define OBJECT_KEY_SIZE  1025         /* of a key, with the zero: what S3 allows */
#define OBJECT_TAG_SIZE  1025         /* of an ETag or the name of an upload */
#define OBJECT_ITEMS_MAX 1000000      /* of one listing */
#define OBJECT_PARTS_MAX 10000        /* of one upload: what S3 allows */
#define OBJECT_COPY_MAX  (5ull << 30) /* bytes that a store copies in one call */

struct object_item {
    char *key; /* NULL: of a part */
    char *tag; /* ETag; of an unfinished upload its name */
    uint64_t size_bytes;
    unsigned number; /* of a part, from 1 */
    uint32_t crc32c; /* of a part, where the store keeps it */
    bool has_crc;
};

struct object_list {
    struct object_item *items;
    size_t count;
    bool checksums; /* of parts: the upload was begun with checksums */
};

struct object_upload {
    char name[OBJECT_TAG_SIZE];
    bool checksums; /* the store checks the CRC32C of every part */
};

struct object_store {
    void *context;
    const char *where; /* "s3://bucket", for messages */
    /* All keys that begin with @prefix, sorted as bytes */
    int (*list)(void *context, const char *prefix, struct object_list *ret_list,
                struct error *error) CHECK_RESULT;
    /* Uploads of parts that were begun and neither finished nor given up */
    int (*list_uploads)(void *context, const char *prefix, struct object_list *ret_list,
                        struct error *error) CHECK_RESULT;
    int (*list_parts)(void *context, const char *key, const char *upload,
                      struct object_list *ret_list, struct error *error) CHECK_RESULT;
    /* Exactly @size_bytes from @offset; -EBADMSG when the object ends before */
    int (*get)(void *context, const char *key, uint64_t offset, void *data, size_t size_bytes,
               struct error *error) CHECK_RESULT;
    /* There whole or not at all, over what was there */
    int (*put)(void *context, const char *key, const void *data, size_t size_bytes, uint32_t crc32c,
               struct error *error) CHECK_RESULT;
    /* Inside the store, without our line */
    int (*copy)(void *context, const char *from, const char *to, struct error *error) CHECK_RESULT;
    int (*begin)(void *context, const char *key, struct object_upload *ret_upload,
                 struct error *error) CHECK_RESULT;
    /* Parts but the last have at least 5 MiB; one that is sent again replaces its earlier self */
    int (*put_part)(void *context, const char *key, const struct object_upload *upload,
                    unsigned number, const void *data, size_t size_bytes, uint32_t crc32c,
                    char ret_tag[OBJECT_TAG_SIZE], struct error *error) CHECK_RESULT;
    /* @parts: all of them, in order, with their tags and CRCs */
    int (*finish)(void *context, const char *key, const struct object_upload *upload,
                  const struct object_list *parts, struct error *error) CHECK_RESULT;
    int (*give_up)(void *context, const char *key, const char *upload,
                   struct error *error) CHECK_RESULT;
    /* 0 also when it was not there */
    int (*remove)(void *context, const char *key, struct error *error) CHECK_RESULT;
};

void object_list_done(struct object_list *list);
/** object_list_add() - @item's texts are copied. 0, -ENOMEM, -EFBIG (OBJECT_ITEMS_MAX) */
int object_list_add(struct object_list *list, const struct object_item *item) CHECK_RESULT;
