/*
 * The manifest in memory: merge the parts of many workers, sort them into canonical order, compute
 * the digest. The digest is independent of the layout because it covers no file, offset or rank:
 * only names, roles and hashes of tensors in the model's own order.
 */
#include "checkpoint/format/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/format/manifest_digest.h"

void manifest_done(struct manifest *manifest)
{
    manifest_drop_files(manifest, 0);
    free(manifest->files);
    free(manifest->tensors);
    json_decref(manifest->spec);
    json_decref(manifest->state);
    *manifest = (struct manifest){0};
}

const char *manifest_role_name(enum manifest_role role)
{
    static const char *const names[] = {"parameter", "first_moment", "second_moment"};
    assert((size_t)role < ARRAY_COUNT(names));
    return names[role];
}

bool manifest_file_valid(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strnlen(name, MANIFEST_FILE_SIZE);
    return length > 0 && length < MANIFEST_FILE_SIZE && name[0] != '.' &&
           strspn(name, allowed) == length;
}

size_t manifest_chunks(uint64_t size_bytes)
{
    return (size_t)(size_bytes / MANIFEST_CHUNK_BYTES + (size_bytes % MANIFEST_CHUNK_BYTES != 0));
}

void manifest_chunk_crcs(const void *data, size_t size_bytes, uint32_t *ret_crcs)
{
    for (size_t start = 0; start < size_bytes; start += MANIFEST_CHUNK_BYTES)
        *ret_crcs++ = hash_crc32c(0, (const uint8_t *)data + start,
                                  MIN(size_bytes - start, (size_t)MANIFEST_CHUNK_BYTES));
}

const struct manifest_file *manifest_find_file(const struct manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->file_count; i++) {
        if (strcmp(manifest->files[i].name, name) == 0)
            return &manifest->files[i];
    }
    return NULL;
}

int manifest_add_file(struct manifest *manifest, const char *name, const void *data,
                      size_t size_bytes)
{
    size_t chunks = manifest_chunks(size_bytes);
    uint32_t *crcs = calloc(chunks + 1, sizeof(*crcs));
    struct manifest_file *files =
        crcs ? realloc(manifest->files, (manifest->file_count + 1) * sizeof(*files)) : NULL;
    assert(manifest_file_valid(name));
    if (!files) {
        free(crcs);
        return -ENOMEM;
    }
    manifest_chunk_crcs(data, size_bytes, crcs);
    manifest->files = files;
    struct manifest_file *file = &files[manifest->file_count++];
    *file =
        (struct manifest_file){.size_bytes = size_bytes, .chunk_crcs = crcs, .chunk_count = chunks};
    memcpy(file->name, name, strlen(name) + 1);
    return 0;
}

void manifest_drop_files(struct manifest *manifest, size_t count)
{
    assert(count <= manifest->file_count);
    while (manifest->file_count > count) {
        struct manifest_file *file = &manifest->files[--manifest->file_count];
        free(file->chunk_crcs);
        free(file->nodes);
    }
}

int manifest_check_file(const struct manifest *manifest, const char *name,
                        const struct bytes *content, const char *path, struct error *error)
{
    const struct manifest_file *file = manifest_find_file(manifest, name);
    AUTO_FREE uint32_t *crcs = calloc(manifest_chunks(content->size_bytes) + 1, sizeof(*crcs));
    if (!crcs)
        return error_set(error, -ENOMEM, "no memory to check %s", path);
    manifest_chunk_crcs(content->data, content->size_bytes, crcs);
    if (!file || content->size_bytes != file->size_bytes ||
        memcmp(crcs, file->chunk_crcs, file->chunk_count * sizeof(*crcs)) != 0)
        return error_set(error, -EBADMSG, "%s is damaged: it is not what the manifest lists", path);
    return 0;
}

int manifest_name_nodes(struct manifest_file *file, const char (*nodes)[NAME_SIZE],
                        unsigned node_count)
{
    char(*copy)[NAME_SIZE] = calloc((size_t)node_count + 1, NAME_SIZE);
    assert(node_count <= MANIFEST_NODES_MAX);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, nodes, (size_t)node_count * NAME_SIZE);
    free(file->nodes);
    file->nodes = copy;
    file->node_count = node_count;
    return 0;
}

bool manifest_file_on(const struct manifest_file *file, const char *node)
{
    for (unsigned i = 0; i < file->node_count; i++) {
        if (strcmp(file->nodes[i], node) == 0)
            return true;
    }
    return file->node_count == 0;
}

bool manifest_is_sealed(const struct manifest *manifest)
{
    return manifest->state_digest.high != 0 || manifest->state_digest.low != 0;
}

static int check_mergeable(const struct manifest *into, const struct manifest *part,
                           struct error *error)
{
    if (into->job[0] != '\0' && (strcmp(into->job, part->job) != 0 || into->step != part->step ||
                                 into->generation != part->generation))
        return error_set(error, -EINVAL,
                         "a part of job %s step %" PRIu64 " generation %" PRIu64
                         " does not belong to job %s step %" PRIu64 " generation %" PRIu64,
                         part->job, part->step, part->generation, into->job, into->step,
                         into->generation);
    if (into->tensor_count + part->tensor_count > MANIFEST_TENSORS_MAX ||
        into->file_count + part->file_count > MANIFEST_FILES_MAX)
        return error_set(error, -EINVAL, "more than %d tensors or %d files", MANIFEST_TENSORS_MAX,
                         MANIFEST_FILES_MAX);
    for (size_t i = 0; i < part->file_count; i++) {
        for (size_t j = 0; j < into->file_count; j++) {
            if (strcmp(part->files[i].name, into->files[j].name) == 0)
                return error_set(error, -EINVAL, "two parts claim the file %s",
                                 part->files[i].name);
        }
    }
    return 0;
}

static int append_tensors(struct manifest *into, const struct manifest *part)
{
    size_t count = into->tensor_count + part->tensor_count;
    struct manifest_tensor *tensors = realloc(into->tensors, (count + 1) * sizeof(*tensors));
    if (!tensors)
        return -ENOMEM;
    into->tensors = tensors;
    if (part->tensor_count > 0)
        memcpy(tensors + into->tensor_count, part->tensors, part->tensor_count * sizeof(*tensors));
    into->tensor_count = count;
    return 0;
}

static int append_files(struct manifest *into, const struct manifest *part)
{
    size_t count = into->file_count + part->file_count;
    struct manifest_file *files = realloc(into->files, (count + 1) * sizeof(*files));
    if (!files)
        return -ENOMEM;
    into->files = files;
    size_t before = into->file_count;
    for (size_t i = 0; i < part->file_count; i++) {
        struct manifest_file *file = &files[into->file_count];
        size_t crc_bytes = part->files[i].chunk_count * sizeof(uint32_t);
        *file = part->files[i];
        file->nodes = NULL; /* set when all parts are known */
        file->node_count = 0;
        file->chunk_crcs = malloc(crc_bytes + 1);
        if (!file->chunk_crcs) {
            while (into->file_count > before)
                free(files[--into->file_count].chunk_crcs);
            return -ENOMEM;
        }
        memcpy(file->chunk_crcs, part->files[i].chunk_crcs, crc_bytes);
        into->file_count++;
    }
    return 0;
}

int manifest_merge(struct manifest *into, const struct manifest *part, struct error *error)
{
    int status = check_mergeable(into, part, error);
    if (status != 0)
        return status;
    size_t tensors_before = into->tensor_count;
    status = append_tensors(into, part);
    if (status == 0)
        status = append_files(into, part);
    if (status != 0) {
        into->tensor_count = tensors_before;
        return error_set(error, status, "no memory to merge the parts of a checkpoint");
    }
    if (into->job[0] == '\0') {
        memcpy(into->job, part->job, sizeof(into->job));
        into->step = part->step;
        into->generation = part->generation;
    }
    return 0;
}

static int compare_orders(const void *left, const void *right)
{
    const struct manifest_tensor *a = left, *b = right;
    return (a->order > b->order) - (a->order < b->order);
}

static int compare_files(const void *left, const void *right)
{
    const struct manifest_file *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static int check_orders(const struct manifest *manifest, size_t expected, struct error *error)
{
    for (size_t i = 0; i < manifest->tensor_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (tensor->order < i)
            return error_set(error, -EINVAL, "tensor %s (%s) has position %u, which is taken",
                             tensor->name, manifest_role_name(tensor->role), tensor->order);
        if (tensor->order > i)
            return error_set(error, -EINVAL, "the tensor at position %zu is in no part", i);
    }
    if (manifest->tensor_count != expected)
        return error_set(error, -EINVAL, "%zu tensors, but %zu were expected",
                         manifest->tensor_count, expected);
    return 0;
}

int manifest_seal(struct manifest *manifest, size_t tensor_count_expected, struct error *error)
{
    if (manifest->tensor_count > 1)
        qsort(manifest->tensors, manifest->tensor_count, sizeof(manifest->tensors[0]),
              compare_orders);
    if (manifest->file_count > 1)
        qsort(manifest->files, manifest->file_count, sizeof(manifest->files[0]), compare_files);
    int status = check_orders(manifest, tensor_count_expected, error);
    if (status == 0 && manifest_digest(manifest, &manifest->state_digest) != 0)
        status = error_set(error, -ENOMEM, "no memory to seal a manifest");
    return status;
}

int manifest_digest(const struct manifest *manifest, struct hash128 *ret_digest)
{
    const json_t *freeze = json_object_get(manifest->state, "freeze");
    AUTO_FREE char *text = NULL;
    if (freeze) {
        text = json_text_sorted(freeze);
        if (!text)
            return -ENOMEM;
    }
    struct hash_stream *stream = hash_stream_new();
    if (!stream)
        return -ENOMEM;
    for (size_t i = 0; i < manifest->tensor_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        uint8_t fixed[17];
        fixed[0] = (uint8_t)tensor->role;
        bytes_put_u64(fixed + 1, tensor->hash.low);
        bytes_put_u64(fixed + 9, tensor->hash.high);
        hash_stream_add(stream, tensor->name, strlen(tensor->name) + 1);
        hash_stream_add(stream, fixed, sizeof(fixed));
    }
    if (text)
        hash_stream_add(stream, text, strlen(text));
    *ret_digest = hash_stream_result(stream);
    hash_stream_free(stream);
    return 0;
}
