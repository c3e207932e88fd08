/*
 * Lay out a safetensors file and build its header.
 *
 * The format allows no holes between tensors, so the order provides the alignment: data starts on a
 * 4 KiB boundary (the header is padded with spaces), tensors of whole blocks come first and stay
 * aligned, all others follow. Offsets in the JSON count from the start of the data, so they do not
 * depend on the header's length.
 */
#include "checkpoint/format/safetensors.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/json.h"

static const struct {
    const char *name;
    unsigned bytes;
} dtypes[] = {
    [SAFETENSORS_F32] = {"F32", 4}, [SAFETENSORS_BF16] = {"BF16", 2},
    [SAFETENSORS_F16] = {"F16", 2}, [SAFETENSORS_I64] = {"I64", 8},
    [SAFETENSORS_U8] = {"U8", 1},
};

unsigned safetensors_dtype_bytes(enum safetensors_dtype dtype)
{
    assert((size_t)dtype < ARRAY_COUNT(dtypes));
    return dtypes[dtype].bytes;
}

const char *safetensors_dtype_name(enum safetensors_dtype dtype)
{
    assert((size_t)dtype < ARRAY_COUNT(dtypes));
    return dtypes[dtype].name;
}

void safetensors_index_done(struct safetensors_index *index)
{
    free(index->entries);
    *index = (struct safetensors_index){0};
}

/* Accept visible ASCII only, so that no reader has trouble with encodings. */
static bool name_is_plain(const char *name)
{
    size_t length = strnlen(name, SAFETENSORS_NAME_SIZE);
    if (length == 0 || length == SAFETENSORS_NAME_SIZE || strcmp(name, "__metadata__") == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct safetensors_index *index)
{
    AUTO_FREE const char **names = calloc(index->count + 1, sizeof(*names));
    if (!names)
        return -ENOMEM;
    for (size_t i = 0; i < index->count; i++) {
        names[i] = index->entries[i].name;
        if (!name_is_plain(names[i]))
            return -EINVAL;
    }
    qsort(names, index->count, sizeof(*names), compare_names);
    for (size_t i = 1; i < index->count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            return -EINVAL;
    }
    return 0;
}

static int size_entry(struct safetensors_entry *entry)
{
    if (entry->rank > SAFETENSORS_RANK_MAX || (size_t)entry->dtype >= ARRAY_COUNT(dtypes))
        return -EINVAL;
    size_t size = safetensors_dtype_bytes(entry->dtype);
    for (unsigned i = 0; i < entry->rank; i++) {
        if (checked_multiply(size, entry->shape[i], &size))
            return -EINVAL;
    }
    entry->size_bytes = size;
    return 0;
}

/* Return the class of an entry. Class 0: whole blocks. The others by element size, wide elements
 * first, so that each stays naturally aligned. */
static unsigned order_class(const struct safetensors_entry *entry)
{
    return entry->size_bytes % SAFETENSORS_ALIGN == 0 ? 0
                                                      : 16 - safetensors_dtype_bytes(entry->dtype);
}

static int order_entries(struct safetensors_index *index)
{
    AUTO_FREE struct safetensors_entry *from = calloc(index->count + 1, sizeof(*from));
    if (!from)
        return -ENOMEM;
    memcpy(from, index->entries, index->count * sizeof(*from));
    size_t placed = 0;
    for (unsigned class = 0; class <= 16; class ++) {
        for (size_t i = 0; i < index->count; i++) {
            if (order_class(&from[i]) == class)
                index->entries[placed++] = from[i];
        }
    }
    assert(placed == index->count);
    return 0;
}

/* Offsets are relative to the data until the header's length is known. */
static int place_entries(struct safetensors_index *index, uint64_t *ret_data_bytes)
{
    size_t end = 0;
    for (size_t i = 0; i < index->count; i++) {
        index->entries[i].offset = end;
        if (checked_add(end, index->entries[i].size_bytes, &end) || end > INT64_MAX / 2)
            return -EINVAL;
    }
    *ret_data_bytes = end;
    return 0;
}

static json_t *describe_entry(const struct safetensors_entry *entry)
{
    AUTO_JSON json_t *shape = json_array();
    for (unsigned i = 0; i < entry->rank; i++) {
        if (json_array_append_new(shape, json_integer((json_int_t)entry->shape[i])) != 0)
            return NULL;
    }
    return json_pack("{s:s, s:O, s:[I, I]}", "dtype", safetensors_dtype_name(entry->dtype), "shape",
                     shape, "data_offsets", (json_int_t)entry->offset,
                     (json_int_t)(entry->offset + entry->size_bytes));
}

static char *header_text(const struct safetensors_index *index)
{
    /* transformers refuses a file whose metadata does not name a framework */
    AUTO_JSON json_t *tree = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    for (size_t i = 0; tree && i < index->count; i++) {
        if (json_object_set_new(tree, index->entries[i].name, describe_entry(&index->entries[i])) !=
            0)
            return NULL;
    }
    return tree ? json_text(tree) : NULL;
}

static int pad_header(const char *text, struct bytes *ret_header)
{
    size_t length = strlen(text);
    size_t total = (8 + length + SAFETENSORS_ALIGN - 1) / SAFETENSORS_ALIGN * SAFETENSORS_ALIGN;
    if (total - 8 > SAFETENSORS_HEADER_MAX)
        return -EFBIG;
    AUTO_FREE uint8_t *header = malloc(total);
    if (!header)
        return -ENOMEM;
    memset(header, ' ', total);
    bytes_put_u64(header, total - 8);
    memcpy(header + 8, text, length);
    *ret_header = (struct bytes){0};
    return bytes_append(ret_header, header, total);
}

int safetensors_layout(struct safetensors_index *index, struct bytes *ret_header)
{
    int status = check_names(index);
    for (size_t i = 0; status == 0 && i < index->count; i++)
        status = size_entry(&index->entries[i]);
    if (status == 0)
        status = order_entries(index);
    uint64_t data_bytes = 0;
    if (status == 0)
        status = place_entries(index, &data_bytes);
    if (status != 0)
        return status;
    AUTO_FREE char *text = header_text(index);
    if (!text)
        return -ENOMEM;
    status = pad_header(text, ret_header);
    if (status != 0)
        return status;
    index->header_bytes = ret_header->size_bytes;
    index->file_bytes = index->header_bytes + data_bytes;
    for (size_t i = 0; i < index->count; i++)
        index->entries[i].offset += index->header_bytes;
    return 0;
}
