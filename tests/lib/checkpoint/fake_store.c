#include "lib/checkpoint/fake_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "checkpoint/format/manifest.h"

struct fake fake_objects;

void fake_store_reset(void)
{
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++) {
        free(fake_objects.objects[i].data);
        for (unsigned p = 0; p < FAKE_PARTS_MAX; p++)
            free(fake_objects.uploads[i].parts[p].data);
    }
    fake_objects = (struct fake){.fail_from = FAKE_NEVER, .status = -EAGAIN, .checksums = true};
}

struct fake_object *fake_store_find(const char *key)
{
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
        if (strcmp(fake_objects.objects[i].key, key) == 0)
            return &fake_objects.objects[i];
    return NULL;
}

static void fake_set(const char *key, const void *data, size_t size)
{
    struct fake_object *object = fake_store_find(key);
    if (!object)
        object = fake_store_find("");
    assert(object && strlen(key) < sizeof(object->key));
    free(object->data);
    strcpy(object->key, key);
    object->data = malloc(size + 1);
    if (size > 0)
        memcpy(object->data, data, size);
    object->size = size;
}

static void fake_remove(const char *key)
{
    struct fake_object *object = fake_store_find(key);
    if (!object)
        return;
    free(object->data);
    *object = (struct fake_object){0};
}

/* Check that every file that a manifest in the store lists is there and whole. */
static void fake_check_manifest(const struct fake_object *object)
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
        const struct fake_object *found = fake_store_find(key);
        assert(found && found->size == file->size_bytes);
        for (size_t c = 0; c < file->chunk_count; c++) {
            size_t at = c * MANIFEST_CHUNK_BYTES;
            size_t size = MIN(found->size - at, (size_t)MANIFEST_CHUNK_BYTES);
            assert(hash_crc32c(0, found->data + at, size) == file->chunk_crcs[c]);
        }
    }
    manifest_done(&manifest);
}

unsigned fake_store_check(void)
{
    unsigned complete = 0;
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
        if (strstr(fake_objects.objects[i].key, "/" MANIFEST_NAME)) {
            fake_check_manifest(&fake_objects.objects[i]);
            complete++;
        }
    return complete;
}

/* Count an operation and return whether it is to fail. */
static bool fake_fails(void)
{
    uint64_t number = fake_objects.operations++;
    return number >= fake_objects.fail_from &&
           number - fake_objects.fail_from < fake_objects.fail_count;
}

static int fake_say(const char *what, struct error *error)
{
    return error_set(error, fake_objects.status, "%s: the fake store was told to fail", what);
}

/* Fail before the effect of an operation (FAKE_REFUSED) or after it (FAKE_ANSWER_LOST). */
#define FAKE_OPERATION(what, effect)                                                               \
    do {                                                                                           \
        bool fails_ = fake_fails();                                                                \
        if (fails_ && fake_objects.fault == FAKE_REFUSED)                                          \
            return fake_say(what, error);                                                          \
        long left_ = fake_objects.begins ? fake_objects.begins() : 0;                              \
        int r_ = (effect);                                                                         \
        if (fake_objects.ends)                                                                     \
            fake_objects.ends(left_);                                                              \
        return fails_ && r_ == 0 ? fake_say(what, error) : r_;                                     \
    } while (0)

static int fake_compare(const void *left, const void *right)
{
    return strcmp(((const struct object_item *)left)->key,
                  ((const struct object_item *)right)->key);
}

static int fake_do_list(const char *prefix, struct object_list *list)
{
    *list = (struct object_list){0};
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++) {
        struct fake_object *object = &fake_objects.objects[i];
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

static int fake_list(void *context, const char *prefix, struct object_list *ret_list,
                     struct error *error)
{
    (void)context;
    if (fake_fails())
        return fake_say("list", error);
    return fake_do_list(prefix, ret_list);
}

static int fake_list_uploads(void *context, const char *prefix, struct object_list *ret_list,
                             struct error *error)
{
    (void)context;
    if (fake_fails())
        return fake_say("list_uploads", error);
    *ret_list = (struct object_list){0};
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++) {
        struct fake_upload *upload = &fake_objects.uploads[i];
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

static struct fake_upload *fake_upload(const char *name)
{
    for (unsigned i = 0; i < FAKE_OBJECTS_MAX; i++)
        if (strcmp(fake_objects.uploads[i].name, name) == 0)
            return &fake_objects.uploads[i];
    return NULL;
}

static int fake_list_parts(void *context, const char *key, const char *name,
                           struct object_list *ret_list, struct error *error)
{
    (void)context;
    if (fake_fails())
        return fake_say("list_parts", error);
    const struct fake_upload *upload = fake_upload(name);
    if (!upload || strcmp(upload->key, key) != 0)
        return error_set(error, -ENOENT, "no such upload");
    *ret_list = (struct object_list){.checksums = fake_objects.checksums};
    for (unsigned p = 0; p < FAKE_PARTS_MAX; p++) {
        if (!upload->parts[p].data)
            continue;
        const struct object_item item = {
            .tag = (char[]){"e"},
            .number = p + 1,
            .size_bytes = upload->parts[p].size,
            .has_crc = fake_objects.checksums,
            .crc32c = hash_crc32c(0, upload->parts[p].data, upload->parts[p].size)};
        int status = object_list_add(ret_list, &item);
        if (status != 0) {
            object_list_done(ret_list);
            return status;
        }
    }
    return 0;
}

static int fake_get(void *context, const char *key, uint64_t offset, void *data, size_t size_bytes,
                    struct error *error)
{
    (void)context;
    if (fake_fails())
        return fake_say("get", error);
    const struct fake_object *object = fake_store_find(key);
    if (!object)
        return error_set(error, -ENOENT, "%s: no such key", key);
    if (offset + size_bytes > object->size)
        return error_set(error, -EBADMSG, "%s: too short", key);
    memcpy(data, object->data + offset, size_bytes);
    fake_objects.got_bytes += size_bytes;
    return 0;
}

static int fake_do_put(const char *key, const void *data, size_t size_bytes, uint32_t crc32c)
{
    assert(hash_crc32c(0, data, size_bytes) == crc32c);
    fake_set(key, data, size_bytes);
    fake_objects.sent_bytes += size_bytes;
    fake_store_check();
    return 0;
}

static int fake_put(void *context, const char *key, const void *data, size_t size_bytes,
                    uint32_t crc32c, struct error *error)
{
    (void)context;
    FAKE_OPERATION("put", fake_do_put(key, data, size_bytes, crc32c));
}

static int fake_do_copy(const char *from, const char *to)
{
    const struct fake_object *object = fake_store_find(from);
    if (!object)
        return -ENOENT;
    fake_set(to, object->data, object->size);
    fake_objects.copies++;
    return 0;
}

static int fake_copy(void *context, const char *from, const char *to, struct error *error)
{
    (void)context;
    FAKE_OPERATION("copy", fake_do_copy(from, to));
}

static int fake_do_begin(const char *key, struct object_upload *ret_upload)
{
    struct fake_upload *upload = fake_upload("");
    assert(upload);
    strcpy(upload->key, key);
    snprintf(upload->name, sizeof(upload->name), "upload-%u", ++fake_objects.names);
    strcpy(ret_upload->name, upload->name);
    ret_upload->checksums = fake_objects.checksums;
    return 0;
}

static int fake_begin(void *context, const char *key, struct object_upload *ret_upload,
                      struct error *error)
{
    (void)context;
    FAKE_OPERATION("begin", fake_do_begin(key, ret_upload));
}

static int fake_do_part(const struct object_upload *named, unsigned number, const void *data,
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
    fake_objects.sent_bytes += size_bytes;
    strcpy(ret_tag, "e");
    return 0;
}

static int fake_put_part(void *context, const char *key, const struct object_upload *upload,
                         unsigned number, const void *data, size_t size_bytes, uint32_t crc32c,
                         char ret_tag[OBJECT_TAG_SIZE], struct error *error)
{
    (void)context;
    (void)key;
    FAKE_OPERATION("put_part", fake_do_part(upload, number, data, size_bytes, crc32c, ret_tag));
}

void fake_store_drop_upload(struct fake_upload *upload)
{
    for (unsigned p = 0; p < FAKE_PARTS_MAX; p++)
        free(upload->parts[p].data);
    *upload = (struct fake_upload){0};
}

static int fake_do_finish(const char *key, const struct object_upload *named,
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
    fake_store_drop_upload(upload);
    return 0;
}

static int fake_finish(void *context, const char *key, const struct object_upload *upload,
                       const struct object_list *parts, struct error *error)
{
    (void)context;
    FAKE_OPERATION("finish", fake_do_finish(key, upload, parts));
}

static int fake_do_give_up(const char *name)
{
    struct fake_upload *upload = fake_upload(name);
    if (upload)
        fake_store_drop_upload(upload);
    return 0;
}

static int fake_give_up(void *context, const char *key, const char *upload, struct error *error)
{
    (void)context;
    (void)key;
    FAKE_OPERATION("give_up", fake_do_give_up(upload));
}

static int fake_do_remove(const char *key)
{
    fake_remove(key);
    fake_store_check();
    return 0;
}

static int fake_remove_operation(void *context, const char *key, struct error *error)
{
    (void)context;
    FAKE_OPERATION("remove", fake_do_remove(key));
}

const struct object_store fake_store = {
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
