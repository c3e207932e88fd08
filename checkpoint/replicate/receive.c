/*
 * Copying one node's share from another, file by file and chunk by chunk.
 *
 * Invariants: only bytes with the CRC32C of the sender's description are written to a file. A file
 * is synced before the receiver reports it. A share is received completely or not at all.
 */
#include "checkpoint/replicate/receive.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_before.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/remote/local.h"

#define CHUNK_TRIES 3
#define REST_MAX_NS (NS_PER_SECOND / 4)

struct receiving {
    const struct checkpoint_local *local;
    const char *from;
    const struct manifest *part;
    struct io_context *context;
    const char *directory, *name; /* the folder here, and its name at the sender */
    bool makes_folder;            /* create the folder here; else it exists */
    uint8_t *buffer;              /* one chunk */
    bool has_reference;
    struct manifest reference; /* of the checkpoint that may share files: folder_shared_before() */
    char reference_path[FOLDER_PATH_SIZE];
    struct error *error;
};

static int fail(struct receiving *receiving, int code, const char *action, const char *path)
{
    return error_set(receiving->error, code, "cannot %s %s: %s", action, path, strerror(-code));
}

/* ---- files that this node has already ---- */

static bool has_tensor(const struct manifest *manifest, const struct manifest_tensor *wanted)
{
    for (size_t i = 0; i < manifest->tensor_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (strcmp(tensor->file, wanted->file) == 0 && strcmp(tensor->name, wanted->name) == 0 &&
            tensor->role == wanted->role && tensor->offset == wanted->offset)
            return hash128_equal(tensor->hash, wanted->hash);
    }
    return false;
}

/* Return whether the file is a metrics segment, which is named after its last step and checked
 * again when it is used. */
static bool is_metrics(const char *name)
{
    return strncmp(name, "metrics-", 8) == 0;
}

/* Return whether all checksums agree: the CRC of every chunk, and the 128-bit hash of every tensor.
 * Other files without tensors have only CRCs, which are too weak to prove equality. */
static bool is_same(const struct receiving *receiving, const struct manifest_file *file)
{
    const struct manifest_file *there = manifest_find_file(&receiving->reference, file->name);
    if (!there || there->size_bytes != file->size_bytes ||
        memcmp(there->chunk_crcs, file->chunk_crcs, file->chunk_count * sizeof(uint32_t)) != 0)
        return false;
    size_t tensors = 0;
    for (size_t i = 0; i < receiving->part->tensor_count; i++) {
        const struct manifest_tensor *tensor = &receiving->part->tensors[i];
        if (strcmp(tensor->file, file->name) != 0)
            continue;
        if (!has_tensor(&receiving->reference, tensor))
            return false;
        tensors++;
    }
    return tensors > 0 || is_metrics(file->name);
}

static bool link_file(struct receiving *receiving, const struct manifest_file *file,
                      const char *path)
{
    char from[FOLDER_FILE_SIZE];
    struct stat status;
    if (!receiving->has_reference || !is_same(receiving, file))
        return false;
    folder_file_path(receiving->reference_path, file->name, from);
    return stat(from, &status) == 0 && (uint64_t)status.st_size == file->size_bytes &&
           receiving->local->io->link(receiving->context, from, path) == 0;
}

/* ---- files from the sender ---- */

static int receive_chunk(struct receiving *receiving, const struct manifest_file *file,
                         size_t chunk, size_t *ret_size)
{
    uint64_t offset = (uint64_t)chunk * MANIFEST_CHUNK_BYTES;
    size_t wanted = (size_t)MIN(file->size_bytes - offset, (uint64_t)MANIFEST_CHUNK_BYTES);
    for (unsigned i = 0; i < CHUNK_TRIES; i++) {
        size_t size = 0;
        int status = checkpoint_remote_read(receiving->local->remote, receiving->from,
                                            receiving->name, file->name, offset, receiving->buffer,
                                            wanted, &size, receiving->error);
        if (status != 0)
            return status;
        *ret_size = wanted;
        if (size == wanted && hash_crc32c(0, receiving->buffer, wanted) == file->chunk_crcs[chunk])
            return 0;
    }
    return error_set(receiving->error, -EBADMSG,
                     "%s/%s on node %s: chunk %zu comes damaged, %u times over", receiving->name,
                     file->name, receiving->from, chunk, CHUNK_TRIES);
}

/* Pause, to leave half of the links and of the disk to training. */
static void rest(uint64_t began_ns)
{
    uint64_t rest_ns = MIN(clock_monotonic_ns() - began_ns, REST_MAX_NS);
    const struct timespec pause = {(time_t)(rest_ns / NS_PER_SECOND),
                                   (long)(rest_ns % NS_PER_SECOND)};
    nanosleep(&pause, NULL);
}

static int write_chunk(struct receiving *receiving, int descriptor, size_t chunk, size_t size,
                       const char *path)
{
    const struct io *io = receiving->local->io;
    size_t padded = (size + SAFETENSORS_ALIGN - 1) / SAFETENSORS_ALIGN * SAFETENSORS_ALIGN;
    uint64_t user, offset = (uint64_t)chunk * MANIFEST_CHUNK_BYTES;
    memset(receiving->buffer + size, 0, padded - size); /* O_DIRECT writes whole blocks */
    int status = io->write(receiving->context, descriptor, receiving->buffer, padded, offset, 0);
    if (status == 0) {
        status = io->drain(receiving->context, true, &user);
        status = status == 1 ? 0 : status;
    }
    return status == 0 ? 0 : fail(receiving, status, "write", path);
}

static int receive_content(struct receiving *receiving, const struct manifest_file *file,
                           int descriptor, const char *path)
{
    const struct io *io = receiving->local->io;
    uint64_t blocks = (file->size_bytes + SAFETENSORS_ALIGN - 1) / SAFETENSORS_ALIGN;
    int status = io->reserve(receiving->context, descriptor, blocks * SAFETENSORS_ALIGN);
    if (status != 0)
        return fail(receiving, status, "reserve space for", path);
    for (size_t chunk = 0; status == 0 && chunk < file->chunk_count; chunk++) {
        uint64_t began_ns = clock_monotonic_ns();
        size_t size;
        status = receive_chunk(receiving, file, chunk, &size);
        if (status == 0)
            status = write_chunk(receiving, descriptor, chunk, size, path);
        if (status == 0)
            rest(began_ns);
    }
    if (status != 0)
        return status;
    status = io->truncate(receiving->context, descriptor, file->size_bytes);
    if (status == 0)
        status = io->sync(receiving->context, descriptor);
    return status == 0 ? 0 : fail(receiving, status, "finish", path);
}

static int receive_file(struct receiving *receiving, const struct manifest_file *file)
{
    const struct io *io = receiving->local->io;
    char path[FOLDER_FILE_SIZE];
    folder_file_path(receiving->directory, file->name, path);
    int status = io->unlink(receiving->context, path); /* of an earlier attempt */
    if (status != 0 && status != -ENOENT)
        return fail(receiving, status, "replace", path);
    if (link_file(receiving, file, path))
        return 0;
    int descriptor = io->create(receiving->context, path, true);
    if (descriptor < 0)
        return fail(receiving, descriptor, "create", path);
    status = receive_content(receiving, file, descriptor, path);
    int closed = io->close_file(receiving->context, descriptor);
    return status == 0 && closed != 0 ? fail(receiving, closed, "close", path) : status;
}

/* ---- a share ---- */

static void remove_files(struct receiving *receiving)
{
    char path[FOLDER_FILE_SIZE];
    for (size_t i = 0; i < receiving->part->file_count; i++) {
        folder_file_path(receiving->directory, receiving->part->files[i].name, path);
        int ignored = receiving->local->io->unlink(receiving->context, path);
        (void)ignored; /* retention removes the rest */
    }
}

static int receive_files(struct receiving *receiving)
{
    const struct io *io = receiving->local->io;
    int status =
        receiving->makes_folder ? io->make_directory(receiving->context, receiving->directory) : 0;
    if (status != 0)
        return fail(receiving, status, "make the folder", receiving->directory);
    for (size_t i = 0; status == 0 && i < receiving->part->file_count; i++)
        status = receive_file(receiving, &receiving->part->files[i]);
    if (status == 0) {
        status = io->sync_directory(receiving->context, receiving->directory);
        if (status != 0)
            fail(receiving, status, "sync the folder", receiving->directory);
    }
    if (status != 0)
        remove_files(receiving);
    return status;
}

static int receive(struct receiving receiving)
{
    const struct checkpoint_local *local = receiving.local;
    receiving.buffer = aligned_alloc(SAFETENSORS_ALIGN, MANIFEST_CHUNK_BYTES);
    if (!receiving.buffer)
        return error_set(receiving.error, -ENOMEM, "no memory to copy a share of a checkpoint");
    receiving.has_reference =
        !local->links_nothing &&
        folder_shared_before(local->folder, local->step, receiving.reference_path,
                             &receiving.reference) == 0;
    int status = local->io->open(1, receiving.buffer, MANIFEST_CHUNK_BYTES, &receiving.context,
                                 receiving.error);
    if (status == 0) {
        status = receive_files(&receiving);
        local->io->close(receiving.context);
    }
    if (receiving.has_reference)
        manifest_done(&receiving.reference);
    free(receiving.buffer);
    return status;
}

int checkpoint_receive_files(const struct checkpoint_local *local, const char *from,
                             const char *name, const char *directory, const struct manifest *part,
                             struct error *error)
{
    return receive((struct receiving){.local = local,
                                      .from = from,
                                      .part = part,
                                      .name = name,
                                      .directory = directory,
                                      .makes_folder = true,
                                      .error = error});
}

int checkpoint_receive_share(const struct checkpoint_local *local, const char *from,
                             const struct manifest *part, struct error *error)
{
    char directory[FOLDER_PATH_SIZE];
    if (strlen(local->folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", local->folder);
    checkpoint_part_path(local->folder, local->step, local->generation, directory);
    return receive((struct receiving){.local = local,
                                      .from = from,
                                      .part = part,
                                      .name = strrchr(directory, '/') + 1,
                                      .directory = directory,
                                      .error = error});
}
