/*
 * The manifest as JSON. A worker's part is sent to the coordinator without spec, state and digest.
 * A sealed manifest has all three, and its digest must match its tensors.
 *
 * Decoding trusts no input: every count is bounded, every tensor must lie inside a listed file,
 * every name must stay inside the folder.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/manifest_digest.h"

#define FORMAT_NAME    "firn-checkpoint"
#define FORMAT_VERSION 1

static json_t *encode_tensor(const struct manifest_tensor *tensor)
{
    char hash[HASH128_TEXT_SIZE];
    hash128_text(tensor->hash, hash);
    return json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:s}", "name", tensor->name, "role",
                     manifest_role_name(tensor->role), "order", (json_int_t)tensor->order, "file",
                     tensor->file, "offset", (json_int_t)tensor->offset, "size_bytes",
                     (json_int_t)tensor->size_bytes, "xxh3_128", hash);
}

static json_t *encode_file(const struct manifest_file *file)
{
    AUTO_JSON json_t *crcs = json_array();
    for (size_t i = 0; i < file->chunk_count; i++) {
        char text[9];
        snprintf(text, sizeof(text), "%08" PRIx32, file->chunk_crcs[i]);
        if (json_array_append_new(crcs, json_string(text)) != 0)
            return NULL;
    }
    AUTO_JSON json_t *nodes = file->node_count > 0 ? json_array() : NULL;
    for (unsigned i = 0; i < file->node_count; i++) {
        if (json_array_append_new(nodes, json_string(file->nodes[i])) != 0)
            return NULL;
    }
    return json_pack("{s:s, s:I, s:O, s:O*}", "name", file->name, "size_bytes",
                     (json_int_t)file->size_bytes, "crc32c", crcs, "nodes", nodes);
}

/* Encode an array of objects. A NULL element (no memory) makes the append fail. */
static json_t *encode_tensors(const struct manifest *manifest)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < manifest->tensor_count; i++) {
        if (json_array_append_new(array, encode_tensor(&manifest->tensors[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *encode_files(const struct manifest *manifest)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < manifest->file_count; i++) {
        if (json_array_append_new(array, encode_file(&manifest->files[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static int encode_sealed(json_t *tree, const struct manifest *manifest)
{
    char digest[HASH128_TEXT_SIZE];
    hash128_text(manifest->state_digest, digest);
    if (json_object_set_new(tree, "state_digest", json_string(digest)) != 0 ||
        json_object_set_new(tree, "spec",
                            manifest->spec ? json_incref(manifest->spec) : json_object()) != 0 ||
        json_object_set_new(tree, "state",
                            manifest->state ? json_incref(manifest->state) : json_object()) != 0)
        return -ENOMEM;
    return 0;
}

json_t *manifest_encode(const struct manifest *manifest)
{
    json_t *tree = json_pack(
        "{s:s, s:i, s:s, s:I, s:I, s:i}", "format", FORMAT_NAME, "version", FORMAT_VERSION, "job",
        manifest->job, "step", (json_int_t)manifest->step, "generation",
        (json_int_t)manifest->generation, "chunk_bytes", (int)MANIFEST_CHUNK_BYTES);
    if (!tree || (manifest_is_sealed(manifest) && encode_sealed(tree, manifest) != 0) ||
        json_object_set_new(tree, "files", encode_files(manifest)) != 0 ||
        json_object_set_new(tree, "tensors", encode_tensors(manifest)) != 0) {
        json_decref(tree);
        return NULL;
    }
    return tree;
}

/* Accept exactly eight lower-case digits: one text per value, so every flipped bit is detected. */
static bool parse_crc(const json_t *value, uint32_t *ret_crc)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8)
        return false;
    *ret_crc = (uint32_t)strtoul(text, NULL, 16);
    return true;
}

static int decode_nodes(const json_t *tree, struct manifest_file *file, struct error *error)
{
    char nodes[MANIFEST_NODES_MAX][NAME_SIZE];
    json_t *array;
    int status = json_get_array(tree, "nodes", MANIFEST_NODES_MAX, &array, error);
    if (status != 0)
        return status;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *name = json_string_value(json_array_get(array, i));
        if (!name || !name_valid(name))
            return error_set(error, -EINVAL, "%s: \"nodes\" has something else than a node",
                             file->name);
        memcpy(nodes[i], name, strlen(name) + 1);
    }
    if (manifest_name_nodes(file, (const char(*)[NAME_SIZE])nodes,
                            (unsigned)json_array_size(array)) != 0)
        return error_set(error, -ENOMEM, "out of memory");
    return 0;
}

static int decode_file(const json_t *tree, struct manifest_file *file, struct error *error)
{
    json_t *crcs;
    int status = json_get_text(tree, "name", file->name, sizeof(file->name), error);
    if (status == 0)
        status = json_get_u64(tree, "size_bytes", INT64_MAX, &file->size_bytes, error);
    if (status == 0)
        status = json_get_array(tree, "crc32c", SIZE_MAX, &crcs, error);
    if (status != 0)
        return status;
    if (!manifest_file_valid(file->name))
        return error_set(error, -EINVAL, "\"%s\" is not a file name", file->name);
    size_t count = json_array_size(crcs);
    if (count != manifest_chunks(file->size_bytes))
        return error_set(error, -EINVAL, "%s: %zu checksums for %" PRIu64 " bytes", file->name,
                         count, file->size_bytes);
    file->chunk_crcs = calloc(count + 1, sizeof(*file->chunk_crcs));
    if (!file->chunk_crcs)
        return error_set(error, -ENOMEM, "out of memory");
    file->chunk_count = count;
    for (size_t i = 0; i < count; i++) {
        if (!parse_crc(json_array_get(crcs, i), &file->chunk_crcs[i]))
            return error_set(error, -EINVAL, "%s: checksum %zu is malformed", file->name, i);
    }
    return json_has(tree, "nodes") ? decode_nodes(tree, file, error) : 0;
}

static bool parse_role(const char *text, enum manifest_role *ret_role)
{
    for (int i = MANIFEST_PARAMETER; i <= MANIFEST_SECOND_MOMENT; i++) {
        if (strcmp(text, manifest_role_name((enum manifest_role)i)) == 0) {
            *ret_role = (enum manifest_role)i;
            return true;
        }
    }
    return false;
}

/* ---- files by name: sorted once, because each of many tensors looks up its file ---- */

static int compare_named(const void *left, const void *right)
{
    const struct manifest_file *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static int compare_name(const void *name, const void *file)
{
    const struct manifest_file *const *entry = file;
    return strcmp(name, (*entry)->name);
}

/* @ret_named: all files, sorted by name, freed by the caller. A repeated name is an error. */
static int sort_files(const struct manifest *manifest, const struct manifest_file ***ret_named,
                      struct error *error)
{
    AUTO_FREE const struct manifest_file **named =
        calloc(manifest->file_count + 1, sizeof(*named)); /* NOLINT(bugprone-sizeof-expression) */
    if (!named)
        return error_set(error, -ENOMEM, "out of memory");
    for (size_t i = 0; i < manifest->file_count; i++)
        named[i] = &manifest->files[i];
    if (manifest->file_count > 1)
        qsort(named, manifest->file_count, sizeof(named[0]), compare_named);
    for (size_t i = 1; i < manifest->file_count; i++) {
        if (strcmp(named[i - 1]->name, named[i]->name) == 0)
            return error_set(error, -EINVAL, "the file %s is listed twice", named[i]->name);
    }
    *ret_named = named;
    named = NULL;
    return 0;
}

static int check_range(const struct manifest_file *const *named, size_t file_count,
                       const struct manifest_tensor *tensor, struct error *error)
{
    const struct manifest_file *const *found =
        bsearch(tensor->file, named, file_count, sizeof(named[0]), compare_name);
    const struct manifest_file *file = found ? *found : NULL;
    if (!file)
        return error_set(error, -EINVAL, "tensor %s lies in %s, which is not listed", tensor->name,
                         tensor->file);
    if (tensor->offset > file->size_bytes || tensor->size_bytes > file->size_bytes - tensor->offset)
        return error_set(error, -EINVAL, "tensor %s ends behind the end of %s", tensor->name,
                         tensor->file);
    if (tensor->size_bytes % sizeof(float) != 0)
        return error_set(error, -EINVAL, "tensor %s has %" PRIu64 " bytes, not a multiple of 4",
                         tensor->name, tensor->size_bytes);
    return 0;
}

static int decode_tensor(const json_t *tree, struct manifest_tensor *tensor, struct error *error)
{
    char role[32], hash[HASH128_TEXT_SIZE];
    int status = json_get_text(tree, "name", tensor->name, sizeof(tensor->name), error);
    if (status == 0)
        status = json_get_text(tree, "role", role, sizeof(role), error);
    if (status == 0)
        status = json_get_unsigned(tree, "order", MANIFEST_TENSORS_MAX - 1, &tensor->order, error);
    if (status == 0)
        status = json_get_text(tree, "file", tensor->file, sizeof(tensor->file), error);
    if (status == 0)
        status = json_get_u64(tree, "offset", INT64_MAX, &tensor->offset, error);
    if (status == 0)
        status = json_get_u64(tree, "size_bytes", INT64_MAX, &tensor->size_bytes, error);
    if (status == 0)
        status = json_get_text(tree, "xxh3_128", hash, sizeof(hash), error);
    if (status != 0)
        return status;
    if (tensor->name[0] == '\0' || !parse_role(role, &tensor->role) ||
        !hash128_parse(hash, &tensor->hash))
        return error_set(error, -EINVAL, "tensor %s: name, role or hash is malformed",
                         tensor->name);
    return 0;
}

static int decode_files(const json_t *tree, struct manifest *manifest, struct error *error)
{
    json_t *files;
    int status = json_get_array(tree, "files", MANIFEST_FILES_MAX, &files, error);
    if (status != 0)
        return status;
    manifest->files = calloc(json_array_size(files) + 1, sizeof(*manifest->files));
    if (!manifest->files)
        return error_set(error, -ENOMEM, "out of memory");
    for (size_t i = 0; status == 0 && i < json_array_size(files); i++) {
        struct manifest_file *file = &manifest->files[manifest->file_count++];
        status = decode_file(json_array_get(files, i), file, error);
    }
    return status;
}

static int decode_tensors(const json_t *tree, struct manifest *manifest, struct error *error)
{
    json_t *tensors;
    AUTO_FREE const struct manifest_file **named = NULL;
    int status = json_get_array(tree, "tensors", MANIFEST_TENSORS_MAX, &tensors, error);
    if (status == 0)
        status = sort_files(manifest, &named, error);
    if (status != 0)
        return status;
    manifest->tensors = calloc(json_array_size(tensors) + 1, sizeof(*manifest->tensors));
    if (!manifest->tensors)
        return error_set(error, -ENOMEM, "out of memory");
    for (size_t i = 0; status == 0 && i < json_array_size(tensors); i++) {
        struct manifest_tensor *tensor = &manifest->tensors[manifest->tensor_count++];
        status = decode_tensor(json_array_get(tensors, i), tensor, error);
        if (status == 0)
            status = check_range(named, manifest->file_count, tensor, error);
    }
    return status;
}

static int decode_head(const json_t *tree, struct manifest *manifest, struct error *error)
{
    char format[32];
    uint64_t version, chunk_bytes;
    int status = json_get_text(tree, "format", format, sizeof(format), error);
    if (status == 0)
        status = json_get_u64(tree, "version", INT64_MAX, &version, error);
    if (status != 0)
        return status;
    if (strcmp(format, FORMAT_NAME) != 0 || version != FORMAT_VERSION)
        return error_set(error, -EINVAL, "format \"%s\" version %" PRIu64 " is not %s version %d",
                         format, version, FORMAT_NAME, FORMAT_VERSION);
    status = json_get_text(tree, "job", manifest->job, sizeof(manifest->job), error);
    if (status == 0)
        status = json_get_u64(tree, "step", INT64_MAX, &manifest->step, error);
    if (status == 0)
        status = json_get_u64(tree, "generation", INT64_MAX, &manifest->generation, error);
    if (status == 0)
        status = json_get_u64(tree, "chunk_bytes", INT64_MAX, &chunk_bytes, error);
    if (status == 0 && !name_valid(manifest->job))
        status = error_set(error, -EINVAL, "\"%s\" is not a job's name", manifest->job);
    if (status == 0 && chunk_bytes != MANIFEST_CHUNK_BYTES)
        status = error_set(error, -EINVAL, "chunks of %" PRIu64 " bytes; %u are known", chunk_bytes,
                           MANIFEST_CHUNK_BYTES);
    return status;
}

/* Decode the members that only a sealed manifest has, and check the digest against the rest. */
static int decode_sealed(const json_t *tree, struct manifest *manifest, struct error *error)
{
    char text[HASH128_TEXT_SIZE];
    struct hash128 computed;
    int status = json_get_text(tree, "state_digest", text, sizeof(text), error);
    if (status == 0)
        status = json_get_object(tree, "spec", &manifest->spec, error);
    json_incref(manifest->spec);
    if (status == 0)
        status = json_get_object(tree, "state", &manifest->state, error);
    json_incref(manifest->state);
    if (status != 0)
        return status;
    if (!hash128_parse(text, &manifest->state_digest))
        return error_set(error, -EINVAL, "state_digest is malformed");
    for (size_t i = 0; i < manifest->tensor_count; i++) {
        if (manifest->tensors[i].order != i)
            return error_set(error, -EINVAL, "tensor %s is out of order",
                             manifest->tensors[i].name);
    }
    if (manifest_digest(manifest, &computed) != 0)
        return error_set(error, -ENOMEM, "out of memory");
    if (!hash128_equal(computed, manifest->state_digest))
        return error_set(error, -EINVAL, "state_digest does not follow from the tensors");
    return 0;
}

int manifest_decode(const json_t *tree, const char *where, struct manifest *ret_manifest,
                    struct error *error)
{
    struct manifest manifest = {0};
    int status = decode_head(tree, &manifest, error);
    if (status == 0)
        status = decode_files(tree, &manifest, error);
    if (status == 0)
        status = decode_tensors(tree, &manifest, error);
    if (status == 0 && json_has(tree, "state_digest"))
        status = decode_sealed(tree, &manifest, error);
    if (status == 0) {
        *ret_manifest = manifest;
        return 0;
    }
    manifest_done(&manifest);
    error_prefix(error, "%s: ", where);
    if (status == -EINVAL)
        status = -EBADMSG;
    if (error)
        error->code = status;
    return status;
}
