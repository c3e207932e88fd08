/*
 * Parse a safetensors header from an untrusted source.
 *
 * The length is bounded before memory is allocated. Every shape is multiplied with overflow checks
 * and must match its byte range. The ranges must tile the data exactly, as the reference
 * implementation requires: no overlap, no hole, nothing after the last range.
 */
#include "checkpoint/format/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/json.h"

static bool parse_dtype(const char *name, enum safetensors_dtype *ret_dtype)
{
    for (int i = SAFETENSORS_F32; i <= SAFETENSORS_U8; i++) {
        if (strcmp(name, safetensors_dtype_name((enum safetensors_dtype)i)) == 0) {
            *ret_dtype = (enum safetensors_dtype)i;
            return true;
        }
    }
    return false;
}

static int parse_shape(const json_t *shape, struct safetensors_entry *entry, struct error *error)
{
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_RANK_MAX)
        return error_set(error, -EBADMSG, "tensor %s: shape is not a list of at most %d numbers",
                         entry->name, SAFETENSORS_RANK_MAX);
    size_t size = safetensors_dtype_bytes(entry->dtype);
    entry->rank = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < entry->rank; i++) {
        const json_t *value = json_array_get(shape, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return error_set(error, -EBADMSG, "tensor %s: dimension %u is not a count", entry->name,
                             i);
        entry->shape[i] = (size_t)json_integer_value(value);
        if (checked_multiply(size, entry->shape[i], &size))
            return error_set(error, -EBADMSG, "tensor %s: shape overflows", entry->name);
    }
    entry->size_bytes = size;
    return 0;
}

/* Offsets are relative to the data; the caller adds the header's length. */
static int parse_offsets(const json_t *offsets, uint64_t data_bytes,
                         struct safetensors_entry *entry, struct error *error)
{
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return error_set(error, -EBADMSG, "tensor %s: data_offsets is not a pair of numbers",
                         entry->name);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || (uint64_t)end > data_bytes)
        return error_set(error, -EBADMSG,
                         "tensor %s: bytes %" PRId64 " to %" PRId64 " lie outside the %" PRIu64
                         " bytes of data: the file is cut off or damaged, copy it again",
                         entry->name, (int64_t)begin, (int64_t)end, data_bytes);
    if ((uint64_t)(end - begin) != entry->size_bytes)
        return error_set(error, -EBADMSG,
                         "tensor %s: shape needs %" PRIu64 " bytes, the file has %" PRId64,
                         entry->name, entry->size_bytes, (int64_t)(end - begin));
    entry->offset = (uint64_t)begin;
    return 0;
}

static int parse_entry(const char *name, const json_t *tree, uint64_t data_bytes,
                       struct safetensors_entry *entry, struct error *error)
{
    size_t length = strlen(name);
    if (length == 0 || length >= SAFETENSORS_NAME_SIZE)
        return error_set(error, -EBADMSG, "a tensor's name has %zu bytes (1 to %d are allowed)",
                         length, SAFETENSORS_NAME_SIZE - 1);
    memcpy(entry->name, name, length + 1);
    const json_t *dtype = json_object_get(tree, "dtype");
    if (!json_is_string(dtype))
        return error_set(error, -EBADMSG, "tensor %s: no dtype", name);
    if (!parse_dtype(json_string_value(dtype), &entry->dtype))
        return error_set(error, -EBADMSG, "tensor %s: dtype %.16s is not one that firn reads", name,
                         json_string_value(dtype));
    int status = parse_shape(json_object_get(tree, "shape"), entry, error);
    if (status != 0)
        return status;
    return parse_offsets(json_object_get(tree, "data_offsets"), data_bytes, entry, error);
}

static int check_metadata(json_t *metadata, struct error *error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return error_set(error, -EBADMSG, "__metadata__ is not an object");
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return error_set(error, -EBADMSG, "__metadata__ has a value that is not a string");
    }
    return 0;
}

static int compare_offsets(const void *left, const void *right)
{
    const struct safetensors_entry *a = left, *b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->size_bytes != b->size_bytes)
        return a->size_bytes < b->size_bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The ranges must tile [0, data_bytes). */
static int check_tiling(const struct safetensors_index *index, uint64_t data_bytes,
                        struct error *error)
{
    uint64_t end = 0;
    for (size_t i = 0; i < index->count; i++) {
        const struct safetensors_entry *entry = &index->entries[i];
        if (entry->offset != end)
            return error_set(error, -EBADMSG, "tensor %s %s", entry->name,
                             entry->offset < end ? "overlaps the one before it"
                                                 : "leaves a hole before it");
        end += entry->size_bytes;
    }
    if (end != data_bytes)
        return error_set(error, -EBADMSG, "%" PRIu64 " bytes follow the last tensor",
                         data_bytes - end);
    return 0;
}

static int parse_entries(json_t *tree, struct safetensors_index *index, struct error *error)
{
    uint64_t data_bytes = index->file_bytes - index->header_bytes;
    const char *name;
    json_t *value;
    json_object_foreach(tree, name, value)
    {
        int status =
            strcmp(name, "__metadata__") == 0
                ? check_metadata(value, error)
                : parse_entry(name, value, data_bytes, &index->entries[index->count++], error);
        if (status != 0)
            return status;
    }
    if (index->count > 1)
        qsort(index->entries, index->count, sizeof(index->entries[0]), compare_offsets);
    int status = check_tiling(index, data_bytes, error);
    for (size_t i = 0; i < index->count; i++)
        index->entries[i].offset += index->header_bytes;
    return status;
}

int safetensors_header_size(const uint8_t data[8], uint64_t file_bytes, uint64_t *ret_bytes,
                            struct error *error)
{
    uint64_t length = bytes_get_u64(data);
    if (length < 2 || length > SAFETENSORS_HEADER_MAX)
        return error_set(error, -EBADMSG,
                         "not a safetensors file: its header would have %" PRIu64
                         " bytes (2 to %u are allowed)",
                         length, SAFETENSORS_HEADER_MAX);
    if (length > file_bytes || 8 + length > file_bytes)
        return error_set(error, -EBADMSG,
                         "truncated: a header of %" PRIu64 " bytes in a file of %" PRIu64, length,
                         file_bytes);
    *ret_bytes = 8 + length;
    return 0;
}

int safetensors_parse(const uint8_t *data, size_t size_bytes, uint64_t file_bytes,
                      struct safetensors_index *ret_index, struct error *error)
{
    struct safetensors_index index = {.file_bytes = file_bytes};
    if (size_bytes < 8 || file_bytes < 8)
        return error_set(error, -EBADMSG, "not a safetensors file: shorter than 8 bytes");
    int status = safetensors_header_size(data, file_bytes, &index.header_bytes, error);
    if (status != 0)
        return status;
    if (size_bytes < index.header_bytes)
        return error_set(error, -EBADMSG, "truncated inside the header");
    if (data[8] != '{')
        return error_set(error, -EBADMSG, "not a safetensors file: its header is not an object");
    AUTO_JSON json_t *tree = NULL;
    status = json_parse((const char *)data + 8, (size_t)index.header_bytes - 8,
                        "safetensors header", &tree, error);
    if (status == -ENOMEM)
        return status;
    if (status != 0 || !json_is_object(tree)) {
        if (error)
            error->code = -EBADMSG;
        return -EBADMSG;
    }
    index.entries = calloc(json_object_size(tree) + 1, sizeof(*index.entries));
    if (!index.entries)
        return error_set(error, -ENOMEM, "no memory for %zu tensors", json_object_size(tree));
    status = parse_entries(tree, &index, error);
    if (status != 0)
        safetensors_index_done(&index);
    else
        *ret_index = index;
    return status;
}

static int read_header(int descriptor, uint64_t file_bytes, struct safetensors_index *ret_index,
                       struct error *error)
{
    uint8_t first[8];
    uint64_t header_bytes;
    if (file_bytes < 8 || pread(descriptor, first, 8, 0) != 8)
        return error_set(error, -EBADMSG, "not a safetensors file: shorter than 8 bytes");
    int status = safetensors_header_size(first, file_bytes, &header_bytes, error);
    if (status != 0)
        return status;
    AUTO_FREE uint8_t *header = malloc(header_bytes);
    if (!header)
        return error_set(error, -ENOMEM, "no memory for a header of %" PRIu64 " bytes",
                         header_bytes);
    for (size_t have = 0; have < header_bytes;) {
        ssize_t n = pread(descriptor, header + have, header_bytes - have, (off_t)have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set(error, n < 0 ? -errno : -EBADMSG, "reading the header: %s",
                             n < 0 ? strerror(errno) : "the file ends early");
        have += (size_t)n;
    }
    return safetensors_parse(header, header_bytes, file_bytes, ret_index, error);
}

int safetensors_open(const char *path, struct safetensors_index *ret_index, struct error *error)
{
    struct stat found;
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &found) != 0) {
        int code = -errno;
        return error_set(error, code, "%s: %s", path, strerror(-code));
    }
    if (!S_ISREG(found.st_mode))
        return error_set(error, -EBADMSG, "%s: not a regular file", path);
    int status = read_header(descriptor, (uint64_t)found.st_size, ret_index, error);
    if (status != 0 && error)
        error_prefix(error, "%s: ", path);
    return status;
}
