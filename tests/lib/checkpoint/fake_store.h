/*
 * An object store in memory that fails on demand, and checks at every operation that a checkpoint
 * with a manifest is complete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/object/object.h"

#define FAKE_OBJECTS_MAX 128
#define FAKE_PARTS_MAX   16
#define FAKE_NEVER       UINT64_MAX

struct fake_object {
    char key[256];
    uint8_t *data;
    size_t size;
};

struct fake_upload {
    char key[256], name[32];
    struct fake_object parts[FAKE_PARTS_MAX];
};

enum fake_fault {
    FAKE_REFUSED,     /* the operation has no effect */
    FAKE_ANSWER_LOST, /* takes effect, but the answer is lost */
};

struct fake {
    struct fake_object objects[FAKE_OBJECTS_MAX];
    struct fake_upload uploads[FAKE_OBJECTS_MAX];
    uint64_t operations;
    uint64_t fail_from, fail_count; /* these operations fail ... */
    enum fake_fault fault;          /* ... like this */
    int status;                     /* ... with that */
    uint64_t sent_bytes, got_bytes, copies;
    unsigned names;
    bool checksums;
    /* NULL, or called before and after the store's own work, which is not under test. @left: the
     * result of begins() */
    long (*begins)(void);
    void (*ends)(long left);
};

extern struct fake fake_objects;

/** fake_store_reset() - forget all objects, uploads and faults */
void fake_store_reset(void);

/** fake_store_find() - return the object of @key, or NULL */
struct fake_object *fake_store_find(const char *key);

/** fake_store_check() - check every checkpoint that has a manifest. Return: their number */
unsigned fake_store_check(void);

/** fake_store_drop_upload() - forget an upload and its parts */
void fake_store_drop_upload(struct fake_upload *upload);

extern const struct object_store fake_store;
