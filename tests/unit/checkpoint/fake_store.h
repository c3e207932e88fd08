/*
 * An object store in memory that fails on demand, and checks at every operation that a checkpoint
 * with a manifest is complete.
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "checkpoint/format/manifest.h"
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

static struct fake fake;

static inline void fake_reset(void)
{
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++) {
        free(fake.objects[i].data);
        for (unsigned p = 0; p < FAKE_PARTS_MAX; p++)
            free(fake.uploads[i].parts[p].data);
    }
    fake = (struct fake){.fail_from = FAKE_NEVER, .status = -EAGAIN, .checksums = true};
}

static inline struct fake_object *fake_find(const char *key)
{
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
        if (strcmp(fake.objects[i].key, key) == 0)
            return &fake.objects[i];
    return NULL;
}

static inline void fake_set(const char *key, const void *data, size_t size)
{
    struct fake_object *object = fake_find(key);
    if (!object)
        object = fake_find("");
    assert(object && strlen(key) < sizeof(object->key));
    free(object->data);
    strcpy(object->key, key);
    object->data = malloc(size + 1);
    if (size > 0)
        memcpy(object->data, data, size);
    object->size = size;
}

static inline void fake_remove(const char *key)
{
    struct fake_object *object = fake_find(key);
    if (!object)
        return;
    free(object->data);
    *object = (struct fake_object){0};
}

/* Check that every file that a manifest in the store lists is there and whole. */
static inline void fake_check_manifest(const struct fake_object *object)
{
    struct manifest manifest;
    char folder[256], key[512];
    snprintf(folder, sizeof(folder), "%.*s", (int)(strlen(object->key) - strlen(MANIFEST_NAME)),
             object->key);
    int status =
        manifest_parse((const char *)object->data, object->size, object->key, &manifest, NULL);
    assert(status == 0);
    for (size_t i = 0; i < manifest.file_count; i++) {
        const struct manifest_file *file = &manifest.files[i];
        snprintf(key, sizeof(key), "%s%s", folder, file->name);
        const struct fake_object *found = fake_find(key);
        assert(found && found->size == file->size_bytes);
        for (size_t c = 0; c < file->chunk_count; c++) {
            size_t at = c * MANIFEST_CHUNK_BYTES;
            size_t size = MIN(found->size - at, (size_t)MANIFEST_CHUNK_BYTES);
            assert(hash_crc32c(0, found->data + at, size) == file->chunk_crcs[c]);
        }
    }
    manifest_done(&manifest);
}

static inline unsigned fake_check(void)
{
    unsigned complete = 0;
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
        if (strstr(fake.objects[i].key, "/" MANIFEST_NAME)) {
            fake_check_manifest(&fake.objects[i]);
            complete++;
        }
    return complete;
}

/* Count an operation and return whether it is to fail. */
static inline bool fake_fails(void)
{
    uint64_t number = fake.operations++;
    return number >= fake.fail_from && number - fake.fail_from < fake.fail_count;
}

static inline int fake_say(const char *what, struct error *error)
{
    return error_set(error, fake.status, "%s: the fake store was told to fail", what);
}

/* Around the effect of an operation: FAKE_REFUSED before it, FAKE_ANSWER_LOST behind it. */
#define FAKE_OPERATION(what, effect)                                                               \
    do {                                                                                           \
        bool fails_ = fake_fails();                                                                \
        if (fails_ && fake.fault == FAKE_REFUSED)                                                  \
            return fake_say(what, error);                                                          \
        long left_ = fake.begins ? fake.begins() : 0;                                              \
        int r_ = (effect);                                                                         \
        if (fake.ends)                                                                             \
            fake.ends(left_);                                                                      \
        return fails_ && r_ == 0 ? fake_say(what, error) : r_;                                     \
    } while (0)

static inline int fake_compare(const void *left, const void *right)
{
    return strcmp(((const struct object_item *)left)->key,
                  ((const struct object_item *)right)->key);
}

static inline int fake_do_list(const char *prefix, struct object_list *list)
{
    *list = (struct object_list){0};
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++) {
        struct fake_object *object = &fake.objects[i];
        if (object->key[0] != '\0' && strncmp(object->key, prefix, strlen(prefix)) == 0) {
            const struct object_item item = {
                .key = object->key, .tag = (char[]){"e"}, .size_bytes = object->size};
            int status = object_list_add(list, &item);
            if (status != 0) {
                object_list_done(list);
                return status;
            }
        }
    }
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(*list->items), fake_compare);
    return 0;
}

static inline int fake_list(void *context, const char *prefix, struct object_list *ret_list,
                            struct error *error)
{
    (void)context;
    if (fake_fails())
        return fake_say("list", error);
    return fake_do_list(prefix, ret_list);
}

static inline int fake_list_uploads(void *context, const char *prefix, struct object_list *ret_list,
                                    struct error *error)
{
    (void)context;
    if (fake_fails())
        return fake_say("list_uploads", error);
    *ret_list = (struct object_list){0};
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++) {
        struct fake_upload *upload = &fake.uploads[i];
        if (upload->name[0] != '\0' && strncmp(upload->key, prefix, strlen(prefix)) == 0) {
            const struct object_item item = {.key = upload->key, .tag = upload->name};
            int status = object_list_add(ret_list, &item);
            if (status != 0) {
                object_list_done(ret_list);
                return status;
            }
        }
    }
    return 0;
}

static inline struct fake_upload *fake_upload(const char *name)
{
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
        if (strcmp(fake.uploads[i].name, name) == 0)
            return &fake.uploads[i];
    return NULL;
}

static inline int fake_list_parts(void *context, const char *key, const char *name,
                                  struct object_list *ret_list, struct error *error)
{
    (void)context;
    if (fake_fails())
        return fake_say("list_parts", error);
    const struct fake_upload *upload = fake_upload(name);
    if (!upload || strcmp(upload->key, key) != 0)
        return error_set(error, -ENOENT, "no such upload");
    *ret_list = (struct object_list){.checksums = fake.checksums};
    for (unsigned p = 0; p < FAKE_PARTS_MAX; p++) {
        if (!upload->parts[p].data)
            continue;
        const struct object_item item = {
            .tag = (char[]){"e"},
            .number = p + 1,
            .size_bytes = upload->parts[p].size,
            .has_crc = fake.checksums,
            .crc32c = hash_crc32c(0, upload->parts[p].data, upload->parts[p].size)};
        int status = object_list_add(ret_list, &item);
        if (status != 0) {
            object_list_done(ret_list);
            return status;
        }
    }
    return 0;
}

static inline int fake_get(void *context, const char *key, uint64_t offset, void *data,
                           size_t size_bytes, struct error *error)
{
    (void)context;
    if (fake_fails())
        return fake_say("get", error);
    const struct fake_object *object = fake_find(key);
    if (!object)
        return error_set(error, -ENOENT, "%s: no such key", key);
    if (offset + size_bytes > object->size)
        return error_set(error, -EBADMSG, "%s: too short", key);
    memcpy(data, object->data + offset, size_bytes);
    fake.got_bytes += size_bytes;
    return 0;
}

static inline int fake_do_put(const char *key, const void *data, size_t size_bytes, uint32_t crc32c)
{
    assert(hash_crc32c(0, data, size_bytes) == crc32c);
    fake_set(key, data, size_bytes);
    fake.sent_bytes += size_bytes;
    fake_check();
    return 0;
}

static inline int fake_put(void *context, const char *key, const void *data, size_t size_bytes,
                           uint32_t crc32c, struct error *error)
{
    (void)context;
    FAKE_OPERATION("put", fake_do_put(key, data, size_bytes, crc32c));
}

static inline int fake_do_copy(const char *from, const char *to)
{
    const struct fake_object *object = fake_find(from);
    if (!object)
        return -ENOENT;
    fake_set(to, object->data, object->size);
    fake.copies++;
    return 0;
}

static inline int fake_copy(void *context, const char *from, const char *to, struct error *error)
{
    (void)context;
    FAKE_OPERATION("copy", fake_do_copy(from, to));
}

static inline int fake_do_begin(const char *key, struct object_upload *ret_upload)
{
    struct fake_upload *upload = fake_upload("");
    assert(upload);
    strcpy(upload->key, key);
    snprintf(upload->name, sizeof(upload->name), "upload-%u", ++fake.names);
    strcpy(ret_upload->name, upload->name);
    ret_upload->checksums = fake.checksums;
    return 0;
}

static inline int fake_begin(void *context, const char *key, struct object_upload *ret_upload,
                             struct error *error)
{
    (void)context;
    FAKE_OPERATION("begin", fake_do_begin(key, ret_upload));
}

static inline int fake_do_part(const struct object_upload *named, unsigned number, const void *data,
                               size_t size_bytes, uint32_t crc32c, char *ret_tag)
{
    struct fake_upload *upload = fake_upload(named->name);
    assert(hash_crc32c(0, data, size_bytes) == crc32c);
    assert(number >= 1 && number <= FAKE_PARTS_MAX);
    if (!upload)
        return -ENOENT;
    struct fake_object *part = &upload->parts[number - 1];
    free(part->data);
    part->data = malloc(size_bytes + 1);
    memcpy(part->data, data, size_bytes);
    part->size = size_bytes;
    fake.sent_bytes += size_bytes;
    strcpy(ret_tag, "e");
    return 0;
}

static inline int fake_put_part(void *context, const char *key, const struct object_upload *upload,
                                unsigned number, const void *data, size_t size_bytes,
                                uint32_t crc32c, char ret_tag[OBJECT_TAG_SIZE], struct error *error)
{
    (void)context;
    (void)key;
    FAKE_OPERATION("put_part", fake_do_part(upload, number, data, size_bytes, crc32c, ret_tag));
}

static inline void fake_drop(struct fake_upload *upload)
{
    for (unsigned p = 0; p < FAKE_PARTS_MAX; p++)
        free(upload->parts[p].data);
    *upload = (struct fake_upload){0};
}

static inline int fake_do_finish(const char *key, const struct object_upload *named,
                                 const struct object_list *parts)
{
    struct fake_upload *upload = fake_upload(named->name);
    struct bytes whole = {0};
    if (!upload)
        return -ENOENT;
    for (size_t i = 0; i < parts->count; i++) {
        const struct fake_object *part = &upload->parts[parts->items[i].number - 1];
        assert(parts->items[i].number == i + 1 && part->data);
        assert(!named->checksums ||
               parts->items[i].crc32c == hash_crc32c(0, part->data, part->size));
        int status = bytes_append(&whole, part->data, part->size);
        assert(status == 0);
    }
    fake_set(key, whole.data, whole.size_bytes);
    bytes_done(&whole);
    fake_drop(upload);
    return 0;
}

static inline int fake_finish(void *context, const char *key, const struct object_upload *upload,
                              const struct object_list *parts, struct error *error)
{
    (void)context;
    FAKE_OPERATION("finish", fake_do_finish(key, upload, parts));
}

static inline int fake_do_give_up(const char *name)
{
    struct fake_upload *upload = fake_upload(name);
    if (upload)
        fake_drop(upload);
    return 0;
}

static inline int fake_give_up(void *context, const char *key, const char *upload,
                               struct error *error)
{
    (void)context;
    (void)key;
    FAKE_OPERATION("give_up", fake_do_give_up(upload));
}

static inline int fake_do_remove(const char *key)
{
    fake_remove(key);
    fake_check();
    return 0;
}

static inline int fake_remove_operation(void *context, const char *key, struct error *error)
{
    (void)context;
    FAKE_OPERATION("remove", fake_do_remove(key));
}

static const struct object_store fake_store = {
    .where = "fake://bucket",
    .list = fake_list,
    .list_uploads = fake_list_uploads,
    .list_parts = fake_list_parts,
    .get = fake_get,
    .put = fake_put,
    .copy = fake_copy,
    .begin = fake_begin,
    .put_part = fake_put_part,
    .finish = fake_finish,
    .give_up = fake_give_up,
    .remove = fake_remove_operation,
};
