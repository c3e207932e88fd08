/*
 * Check a checkpoint before a single tensor is read: each file exists, is a plain file, and has the
 * size in the manifest; the chunks with its header are intact; header and manifest describe the
 * same tensors at the same places. A foreign or swapped file fails here, with its name.
 */
#include "checkpoint/read/reader_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/format/tensor_name.h"

static int open_file(struct reader_file *file, struct error *error)
{
    struct stat status;
    file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC);
    if (file->descriptor < 0 || fstat(file->descriptor, &status) != 0) {
        int code = -errno;
        return error_set(error, code, "%s: %s", file->path, strerror(-code));
    }
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EBADMSG, "%s: not a regular file", file->path);
    if ((uint64_t)status.st_size != file->entry->size_bytes)
        return error_set(
            error, -EBADMSG, "%s: %s: %" PRIu64 " bytes, the manifest says %" PRIu64, file->path,
            (uint64_t)status.st_size < file->entry->size_bytes ? "truncated" : "too long",
            (uint64_t)status.st_size, file->entry->size_bytes);
    return 0;
}

int reader_look_at(const char *folder, const struct manifest_file *entry, struct error *error)
{
    struct reader_file file = {.entry = entry, .descriptor = -1};
    folder_file_path(folder, entry->name, file.path);
    int status = open_file(&file, error);
    close_descriptor(&file.descriptor);
    return status;
}

static bool is_safetensors(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t length = strlen(name);
    return length >= sizeof(suffix) - 1 &&
           strcmp(name + length - (sizeof(suffix) - 1), suffix) == 0;
}

/* Read and check the chunks that hold the file's first @header_bytes, into @ret_header. */
static int read_header_chunks(const struct checkpoint_reader *reader,
                              const struct reader_file *file, const struct reader_place *place,
                              uint64_t header_bytes, uint8_t **ret_header, struct error *error)
{
    size_t chunks = manifest_chunks(header_bytes);
    uint8_t *header = malloc(chunks * MANIFEST_CHUNK_BYTES);
    int status =
        header ? 0
               : error_set(error, -ENOMEM, "%s: no memory for its header of %" PRIu64 " bytes",
                           file->path, header_bytes);
    for (size_t i = 0; status == 0 && i < chunks; i++) {
        uint8_t *chunk = header + i * MANIFEST_CHUNK_BYTES;
        size_t size = reader_chunk_bytes(file, i);
        status = reader_take(reader, file, place, chunk, size, (uint64_t)i * MANIFEST_CHUNK_BYTES,
                             error);
        uint32_t found = status == 0 ? hash_crc32c(0, chunk, size) : 0;
        if (status == 0 && found != file->entry->chunk_crcs[i])
            status = reader_chunk_error(file, i, found, error);
    }
    if (status != 0)
        free(header);
    else
        *ret_header = header;
    return status;
}

static int load_index_at(const struct checkpoint_reader *reader, const struct reader_file *file,
                         const struct reader_place *place, struct safetensors_index *ret_index,
                         struct error *error)
{
    uint8_t first[8];
    uint64_t header_bytes;
    AUTO_FREE uint8_t *header = NULL;
    if (file->entry->size_bytes < sizeof(first))
        return error_set(error, -EBADMSG, "%s: shorter than 8 bytes", file->path);
    int status = reader_take(reader, file, place, first, sizeof(first), 0, error);
    if (status != 0)
        return status;
    status = safetensors_header_size(first, file->entry->size_bytes, &header_bytes, error);
    if (status != 0) {
        error_prefix(error, "%s: ", file->path);
        return status;
    }
    status = read_header_chunks(reader, file, place, header_bytes, &header, error);
    if (status != 0)
        return status;
    status = safetensors_parse(header, header_bytes, file->entry->size_bytes, ret_index, error);
    if (status != 0)
        error_prefix(error, "%s: ", file->path);
    return status;
}

int reader_load_index(const struct checkpoint_reader *reader, const struct reader_file *file,
                      struct safetensors_index *ret_index, struct error *error)
{
    struct reader_place place;
    struct error why = {0};
    int worst = 0;
    for (unsigned i = 0; reader_place(reader, file, i, &place); i++) {
        int status = load_index_at(reader, file, &place, ret_index, &why);
        if (status == 0 || status == -ENOMEM || status == -ECANCELED || !reader->remote)
            return status == 0 ? 0 : error_set(error, status, "%s", why.text);
        worst = reader_worse(worst, status);
    }
    return error_set(error, worst != 0 ? worst : -EHOSTUNREACH,
                     "no good copy of %s is to be had: %s", file->entry->name, why.text);
}

struct named_entry {
    char name[SAFETENSORS_NAME_SIZE];
    const struct manifest_tensor *tensor;
};

static int compare_entries(const void *left, const void *right)
{
    const struct named_entry *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* List the manifest's tensors of @file under the names in its header. */
static size_t expected_entries(const struct manifest *manifest, const char *file,
                               struct named_entry *entries)
{
    size_t count = 0;
    for (size_t i = 0; i < manifest->tensor_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (strcmp(tensor->file, file) != 0)
            continue;
        entries[count].tensor = tensor;
        tensor_name_in_file(tensor->name, tensor->role, entries[count].name);
        count++;
    }
    if (count > 1)
        qsort(entries, count, sizeof(*entries), compare_entries);
    return count;
}

static int compare_index(const struct checkpoint_reader *reader, const struct reader_file *file,
                         const struct safetensors_index *index, struct error *error)
{
    AUTO_FREE struct named_entry *expected =
        calloc(reader->manifest.tensor_count + 1, sizeof(*expected));
    if (!expected)
        return error_set(error, -ENOMEM, "%s: no memory to check it", file->path);
    size_t count = expected_entries(&reader->manifest, file->entry->name, expected);
    if (index->count != count)
        return error_set(error, -EBADMSG, "%s: %zu tensors, the manifest says %zu", file->path,
                         index->count, count);
    for (size_t i = 0; i < index->count; i++) {
        const struct safetensors_entry *entry = &index->entries[i];
        struct named_entry key;
        memcpy(key.name, entry->name, sizeof(key.name));
        const struct named_entry *found =
            bsearch(&key, expected, count, sizeof(key), compare_entries);
        if (!found || entry->dtype != SAFETENSORS_F32 || entry->offset != found->tensor->offset ||
            entry->size_bytes != found->tensor->size_bytes)
            return error_set(error, -EBADMSG, "%s: tensor %s is not the one that the manifest says",
                             file->path, entry->name);
    }
    return 0;
}

/* Check the index and config.json completely: they are small, and no other check covers them
 * before they are used. */
static int check_all_chunks(const struct reader_file *file, struct error *error)
{
    AUTO_FREE uint8_t *buffer = malloc(MANIFEST_CHUNK_BYTES);
    if (!buffer)
        return error_set(error, -ENOMEM, "%s: no memory to check it", file->path);
    int status = 0;
    for (size_t i = 0; status == 0 && i < file->entry->chunk_count; i++)
        status = reader_check_chunk(file, file->descriptor, i, buffer, error);
    return status;
}

static int check_file(const struct checkpoint_reader *reader, const struct reader_file *file,
                      struct error *error)
{
    struct safetensors_index index;
    const struct reader_place here = {.descriptor = file->descriptor};
    if (!is_safetensors(file->entry->name))
        return check_all_chunks(file, error);
    int status = load_index_at(reader, file, &here, &index, error);
    if (status != 0)
        return status;
    status = compare_index(reader, file, &index, error);
    safetensors_index_done(&index);
    return status;
}

static int compare_tensors(const void *left, const void *right)
{
    const struct manifest_tensor *a = *(const struct manifest_tensor *const *)left;
    const struct manifest_tensor *b = *(const struct manifest_tensor *const *)right;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : (int)a->role - (int)b->role;
}

static int sort_tensors(struct checkpoint_reader *reader, const char *folder, struct error *error)
{
    size_t count = reader->manifest.tensor_count;
    for (size_t i = 0; i < count; i++)
        reader->by_name[i] = &reader->manifest.tensors[i];
    if (count > 1)
        qsort(reader->by_name, count, sizeof(struct manifest_tensor *), compare_tensors);
    for (size_t i = 0; i < count; i++) {
        const struct manifest_tensor *tensor = reader->by_name[i];
        if (!is_safetensors(tensor->file))
            return error_set(error, -EBADMSG, "%s: tensor %s would lie in %s", folder, tensor->name,
                             tensor->file);
        if (i > 0 && compare_tensors(&reader->by_name[i - 1], &reader->by_name[i]) == 0)
            return error_set(error, -EBADMSG, "%s: the manifest has tensor %s (%s) twice", folder,
                             tensor->name, manifest_role_name(tensor->role));
    }
    return 0;
}

static int open_and_check(struct checkpoint_reader *reader, struct reader_file *file,
                          struct error *error)
{
    int status = open_file(file, error);
    return status == 0 ? check_file(reader, file, error) : status;
}

/* Open and check the local file. If it is not good, the copies on other nodes are used. */
static int look_at_copy(struct checkpoint_reader *reader, struct reader_file *file,
                        struct error *error)
{
    struct error why = {0};
    int status = open_and_check(reader, file, &why);
    if (status == 0 || status == -ENOMEM)
        return status == 0 ? 0 : error_set(error, status, "%s", why.text);
    close_descriptor(&file->descriptor);
    file->descriptor = -1;
    if (manifest_file_on(file->entry, reader->node) && reader->node[0] != '\0' &&
        file->entry->node_count > 0)
        log_warning("%s; other nodes' copies are used", why.text);
    return 0;
}

bool reader_is_metrics(const char *name)
{
    static const char suffix[] = ".jsonl";
    size_t length = strlen(name);
    return strncmp(name, "metrics", 7) == 0 && length > sizeof(suffix) &&
           strcmp(name + length - (sizeof(suffix) - 1), suffix) == 0;
}

static int look_at_file(struct checkpoint_reader *reader, struct reader_file *file,
                        struct error *error)
{
    struct error why = {0};
    int status = open_and_check(reader, file, &why);
    if (status == 0)
        return 0;
    if (status == -ENOMEM || !reader_is_metrics(file->entry->name))
        return error_set(error, status, "%s", why.text);
    log_warning("%s; the checkpoint is read without it", why.text);
    close_descriptor(&file->descriptor);
    file->descriptor = -1;
    return 0;
}

int reader_open_file(struct checkpoint_reader *reader, const struct reader_file *file,
                     struct error *error)
{
    struct reader_file *opened = &reader->files[file - reader->files];
    if (!file->unchecked)
        return 0;
    int status = open_and_check(reader, opened, error);
    opened->unchecked = status != 0;
    if (status != 0) {
        close_descriptor(&opened->descriptor);
        opened->descriptor = -1;
    }
    return status;
}

/* Leave the rest to reader_open_file(). */
static int look_only(struct reader_file *file, const char *folder, struct error *error)
{
    file->unchecked = true;
    return reader_look_at(folder, file->entry, error);
}

static int look_at(struct checkpoint_reader *reader, struct reader_file *file, const char *folder,
                   enum reader_extent extent, struct error *error)
{
    if (reader->remote)
        return look_at_copy(reader, file, error);
    return extent == READER_WANTED && is_safetensors(file->entry->name)
               ? look_only(file, folder, error)
               : look_at_file(reader, file, error);
}

int reader_open_files(struct checkpoint_reader *reader, const char *folder,
                      enum reader_extent extent, struct error *error)
{
    const struct manifest *manifest = &reader->manifest;
    reader->files = calloc(manifest->file_count + 1, sizeof(*reader->files));
    reader->by_name = calloc(manifest->tensor_count + 1, sizeof(struct manifest_tensor *));
    if (!reader->files || !reader->by_name)
        return error_set(error, -ENOMEM, "no memory to open %s", folder);
    int status = sort_tensors(reader, folder, error);
    for (size_t i = 0; status == 0 && i < manifest->file_count; i++) {
        struct reader_file *file = &reader->files[reader->file_count++];
        file->entry = &manifest->files[i];
        file->descriptor = -1;
        folder_file_path(folder, file->entry->name, file->path);
        status = look_at(reader, file, folder, extent, error);
    }
    return status;
}
