/*
 * Read tensors of a checkpoint.
 *
 * Every byte returned is verified by its tensor's XXH3-128, and by the CRC32C of its chunk if the
 * whole chunk belongs to the tensor. Only the tensor's bytes are read, so a restore on any layout
 * reads one byte per byte wanted, however small the tensors are.
 */
#include "checkpoint/read/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "checkpoint/read/reader_open.h"
#include "checkpoint/read/reader_state.h"

#define PIECE_BYTES ((size_t)256 << 10)

int reader_pread(const struct reader_file *file, int descriptor, void *ret_data, size_t room_bytes,
                 size_t size_bytes, uint64_t offset, struct error *error)
{
    size_t done = 0;
    while (done < size_bytes) {
        ssize_t n = pread(descriptor, (uint8_t *)ret_data + done, room_bytes - done,
                          (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int status = -errno;
            return error_set(error, status, "%s: reading at byte %" PRIu64 ": %s", file->path,
                             offset + done, strerror(-status));
        }
        if (n == 0)
            return error_set(error, -EBADMSG, "%s: ends at byte %" PRIu64 " of %" PRIu64,
                             file->path, offset + done, file->entry->size_bytes);
        done += (size_t)n;
    }
    return 0;
}

size_t reader_chunk_bytes(const struct reader_file *file, size_t chunk)
{
    uint64_t start = (uint64_t)chunk * MANIFEST_CHUNK_BYTES;
    return (size_t)MIN(file->entry->size_bytes - start, (uint64_t)MANIFEST_CHUNK_BYTES);
}

int reader_chunk_error(const struct reader_file *file, size_t chunk, uint32_t found,
                       struct error *error)
{
    return error_set(error, -EBADMSG,
                     "%s: chunk %zu (from byte %" PRIu64 ") is damaged: CRC32C %08" PRIx32
                     ", the manifest says %08" PRIx32,
                     file->path, chunk, (uint64_t)chunk * MANIFEST_CHUNK_BYTES, found,
                     file->entry->chunk_crcs[chunk]);
}

int reader_check_chunk(const struct reader_file *file, int descriptor, size_t chunk,
                       uint8_t *buffer, struct error *error)
{
    size_t size = reader_chunk_bytes(file, chunk);
    uint64_t offset = (uint64_t)chunk * MANIFEST_CHUNK_BYTES;
    int status = reader_pread(file, descriptor, buffer, MANIFEST_CHUNK_BYTES, size, offset, error);
    if (status != 0)
        return status;
    uint32_t found = hash_crc32c(0, buffer, size);
    return found == file->entry->chunk_crcs[chunk] ? 0
                                                   : reader_chunk_error(file, chunk, found, error);
}

const struct manifest *checkpoint_manifest(const struct checkpoint_reader *reader)
{
    return &reader->manifest;
}

const struct manifest_tensor *reader_find_tensor(const struct checkpoint_reader *reader,
                                                 const char *name, enum manifest_role role)
{
    size_t low = 0, high = reader->manifest.tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct manifest_tensor *tensor = reader->by_name[middle];
        int order = strcmp(name, tensor->name);
        if (order == 0)
            order = (int)role - (int)tensor->role;
        if (order == 0)
            return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct reader_file *reader_find_file(const struct checkpoint_reader *reader, const char *name)
{
    for (size_t i = 0; i < reader->file_count; i++) {
        if (strcmp(reader->files[i].entry->name, name) == 0)
            return &reader->files[i];
    }
    assert(false && "decoding checked that every tensor's file is listed");
    return NULL;
}

/* One try at one tensor: the copy of its file, and the hash of the bytes so far. */
struct reading {
    const struct checkpoint_reader *reader;
    const struct reader_file *file;
    struct reader_place place;
    struct hash_stream *hash;
};

/* Read the tensor's part of one chunk: [start, start + size) of the file, into @to. */
static int read_within_chunk(const struct reading *reading, uint64_t start, size_t size,
                             uint8_t *to, struct error *error)
{
    const struct reader_file *file = reading->file;
    size_t piece_max = reading->place.node ? MANIFEST_CHUNK_BYTES : PIECE_BYTES;
    size_t chunk = (size_t)(start / MANIFEST_CHUNK_BYTES);
    bool whole = start % MANIFEST_CHUNK_BYTES == 0 && size == reader_chunk_bytes(file, chunk);
    uint32_t crc = 0;
    for (size_t done = 0; done < size;) {
        size_t piece = MIN(size - done, piece_max);
        int status = reader_take(reading->reader, file, &reading->place, to + done, piece,
                                 start + done, error);
        if (status != 0)
            return status;
        if (whole)
            crc = hash_crc32c(crc, to + done, piece);
        hash_stream_add(reading->hash, to + done, piece);
        done += piece;
    }
    if (whole && crc != file->entry->chunk_crcs[chunk])
        return reader_chunk_error(file, chunk, crc, error);
    return 0;
}

static int read_ranges(const struct reading *reading, const struct manifest_tensor *tensor,
                       uint8_t *to, struct error *error)
{
    uint64_t at = tensor->offset, end = tensor->offset + tensor->size_bytes;
    while (at < end) {
        uint64_t chunk_end = (at / MANIFEST_CHUNK_BYTES + 1) * MANIFEST_CHUNK_BYTES;
        size_t size = (size_t)(MIN(end, chunk_end) - at);
        int status = read_within_chunk(reading, at, size, to, error);
        if (status != 0)
            return status;
        at += size;
        to += size;
    }
    return 0;
}

/* Name the bad chunk after a hash mismatch. Chunks inside the tensor were good, so it is the
 * first or the last one. */
static int blame_chunk(const struct reading *reading, const struct manifest_tensor *tensor,
                       struct error *error)
{
    const struct reader_file *file = reading->file;
    if (reading->place.node)
        return error_set(
            error, -EBADMSG,
            "%s on node %s: tensor %s (%s) does not have the hash that the manifest says",
            file->entry->name, reading->place.node, tensor->name, manifest_role_name(tensor->role));
    AUTO_FREE uint8_t *buffer = malloc(MANIFEST_CHUNK_BYTES);
    size_t ends[2] = {(size_t)(tensor->offset / MANIFEST_CHUNK_BYTES),
                      (size_t)((tensor->offset + tensor->size_bytes - 1) / MANIFEST_CHUNK_BYTES)};
    for (unsigned i = 0; buffer && i < ARRAY_COUNT(ends); i++) {
        int status = reader_check_chunk(file, file->descriptor, ends[i], buffer, error);
        if (status != 0)
            return status;
    }
    return error_set(error, -EBADMSG,
                     "%s: tensor %s (%s) does not have the hash that the manifest says", file->path,
                     tensor->name, manifest_role_name(tensor->role));
}

static int read_once(struct reading *reading, const struct manifest_tensor *tensor, float *ret_data,
                     struct error *error)
{
    reading->hash = hash_stream_new();
    if (!reading->hash)
        return error_set(error, -ENOMEM, "no memory to read %s", tensor->name);
    int status = read_ranges(reading, tensor, (uint8_t *)ret_data, error);
    if (status == 0 && !hash128_equal(hash_stream_result(reading->hash), tensor->hash))
        status = tensor->size_bytes > 0
                     ? blame_chunk(reading, tensor, error)
                     : error_set(error, -EBADMSG, "%s: hash of the empty tensor %s",
                                 reading->file->path, tensor->name);
    hash_stream_free(reading->hash);
    return status;
}

/* Try copy after copy until one is good. */
static int read_somewhere(struct reading *reading, const struct manifest_tensor *tensor,
                          float *ret_data, struct error *error)
{
    int worst = 0;
    for (unsigned i = 0; reader_place(reading->reader, reading->file, i, &reading->place); i++) {
        struct error why = {0};
        int status = read_once(reading, tensor, ret_data, &why);
        if (status == 0 || status == -ENOMEM || status == -ECANCELED || !reading->reader->remote)
            return status == 0 ? 0 : error_set(error, status, "%s", why.text);
        bool none = status == -ENOENT && reading->place.guessed;
        if (!none)
            log_warning("a copy of %s cannot be used, the next one is tried: %s",
                        reading->file->entry->name, why.text);
        worst = reader_worse(worst, status);
        if (none && error && error->text[0] != '\0')
            continue;
        error_record(error, worst, "no good copy of %s is left: %s", reading->file->entry->name,
                     why.text);
    }
    return worst != 0
               ? worst
               : error_set(error, -EHOSTUNREACH, "no node here has %s", reading->file->entry->name);
}

int checkpoint_read(struct checkpoint_reader *reader, const char *name, enum manifest_role role,
                    float *ret_data, size_t count, struct error *error)
{
    const struct manifest_tensor *tensor = reader_find_tensor(reader, name, role);
    if (!tensor)
        return error_set(error, -ENOENT, "the checkpoint of step %" PRIu64 " has no tensor %s (%s)",
                         reader->manifest.step, name, manifest_role_name(role));
    if (tensor->size_bytes / sizeof(float) != count)
        return error_set(error, -EINVAL, "tensor %s (%s) has %" PRIu64 " elements, not %zu", name,
                         manifest_role_name(role), tensor->size_bytes / sizeof(float), count);
    struct reading reading = {.reader = reader, .file = reader_find_file(reader, tensor->file)};
    return read_somewhere(&reading, tensor, ret_data, error);
}

void checkpoint_close(struct checkpoint_reader *reader)
{
    if (!reader)
        return;
    for (size_t i = 0; i < reader->file_count; i++)
        close_descriptor(&reader->files[i].descriptor);
    free(reader->files);
    free(reader->by_name);
    manifest_done(&reader->manifest);
    free(reader);
}

static int open_folder(const char *folder, enum reader_extent extent,
                       struct checkpoint_reader **ret_reader, struct error *error)
{
    struct checkpoint_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return error_set(error, -ENOMEM, "no memory to open %s", folder);
    int status = manifest_load(folder, NULL, &reader->manifest, error);
    if (status == 0)
        status = reader_open_files(reader, folder, extent, error);
    if (status != 0)
        checkpoint_close(reader);
    else
        *ret_reader = reader;
    return status;
}

int checkpoint_open(const char *folder, struct checkpoint_reader **ret_reader, struct error *error)
{
    return open_folder(folder, READER_ALL, ret_reader, error);
}

int checkpoint_open_to_load(const char *folder, struct checkpoint_reader **ret_reader,
                            struct error *error)
{
    return open_folder(folder, READER_WANTED, ret_reader, error);
}

int checkpoint_look(const char *folder, struct error *error)
{
    struct manifest manifest;
    int status = manifest_load(folder, NULL, &manifest, error);
    if (status != 0)
        return status;
    for (size_t i = 0; status == 0 && i < manifest.file_count; i++)
        if (!reader_is_metrics(manifest.files[i].name))
            status = reader_look_at(folder, &manifest.files[i], error);
    manifest_done(&manifest);
    return status;
}

bool checkpoint_is_lost(const char *path, int code)
{
    char folder[FOLDER_PATH_SIZE];
    if (code == -EBADMSG)
        return true;
    if (code != -ENOENT)
        return false;
    if (access(path, F_OK) == 0)
        return true; /* one of its files is missing */
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path || (size_t)(slash - path) >= sizeof(folder))
        return false;
    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
    return access(folder, F_OK) == 0; /* the job's folder exists, without the checkpoint */
}
