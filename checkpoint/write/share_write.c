/*
 * Write a share. The order matters:
 *
 * 1. the folder; frozen files of an earlier checkpoint are linked; all others are created and their
 * space is reserved, so that a full disk is detected before anything is copied;
 * 2. data of all files is staged and posted: then the trainer may continue;
 * 3. when all data is written: exact length, then the header block, so that a file without its data
 * has no header either, then fdatasync, file by file; at last fsync of the folder.
 *
 * Staging copies, checksums and hashes in pieces small enough for the second and third pass to hit
 * the cache. A block never crosses a chunk, so a chunk's CRC grows block by block.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "checkpoint/write/folder_home.h"
#include "checkpoint/write/share_file.h"

#define PIECE_BYTES ((size_t)128 << 10)

static uint64_t round_up(uint64_t size_bytes)
{
    return (size_bytes + SAFETENSORS_ALIGN - 1) / SAFETENSORS_ALIGN * SAFETENSORS_ALIGN;
}

static int fail(struct error *error, int code, const char *action, const char *path)
{
    return error_set(error, code, "cannot %s %s: %s", action, path, strerror(-code));
}

/*
 * The folder existed when this share began. A worker whose own share fails removes the folder if it
 * is empty, and rank 0 removes it with its files, so a missing folder is the consequence of a
 * peer's failure. The peer reports the cause; an ENOENT from here would hide it.
 */
static int fail_in_folder(struct error *error, int code, const char *action, const char *path)
{
    if (code == -ENOENT)
        return error_set(error, -ECANCELED,
                         "cannot %s %s: the folder was removed, because another worker gave the "
                         "checkpoint up",
                         action, path);
    return fail(error, code, action, path);
}

static int open_file(struct share_file *file, struct staging *staging, struct error *error)
{
    const struct io *io = staging->io;
    uint64_t size = round_up(file->index.file_bytes);
    int status = io->unlink(staging->context, file->path); /* from an earlier attempt */
    if (status != 0 && status != -ENOENT)
        return fail(error, status, "replace", file->path);
    status = io->create(staging->context, file->path, true);
    if (status < 0)
        return fail_in_folder(error, status, "create", file->path);
    file->descriptor = status;
    file->created = true;
    status = io->reserve(staging->context, file->descriptor, size);
    if (status != 0)
        return error_set(error, status, "cannot reserve the %" PRIu64 " bytes that %s needs: %s",
                         size, file->path, strerror(-status));
    return 0;
}

static int open_files(struct share *share, struct staging *staging, struct error *error)
{
    int status =
        share->home ? checkpoint_home_enter(share->home, staging->io, staging->context, error) : 0;
    if (status != 0)
        return status;
    status = staging->io->make_directory(staging->context, share->directory);
    if (status != 0)
        return fail(error, status, "make the folder", share->directory);
    share_link_files(share, staging->io, staging->context);
    for (unsigned i = 0; status == 0 && i < share->file_count; i++) {
        if (!share->files[i].linked)
            status = open_file(&share->files[i], staging, error);
    }
    return status;
}

static void enter_tensor(struct share *share, const struct share_file *file,
                         const struct safetensors_entry *entry)
{
    const struct checkpoint_tensor *from = &share->tensors[entry->user];
    struct manifest_tensor *to = &share->part.tensors[share->part.tensor_count++];
    memcpy(to->name, from->name, sizeof(to->name));
    memcpy(to->file, file->name, sizeof(to->file));
    to->role = from->role;
    to->order = from->order;
    to->offset = entry->offset;
    to->size_bytes = entry->size_bytes;
    to->hash = hash_stream_result(share->hash);
    hash_stream_free(share->hash);
    share->hash = NULL;
}

/* Copy the tensor's bytes from @position on, at most @room; *ret_size is the number copied. */
static int stage_piece(struct share *share, struct share_file *file, uint64_t position, size_t room,
                       uint8_t *target, uint32_t *crc, size_t *ret_size)
{
    const struct safetensors_entry *entry = &file->index.entries[file->next_entry];
    const uint8_t *source = (const uint8_t *)share->tensors[entry->user].data;
    size_t done = (size_t)(position - entry->offset);
    size_t size = MIN(MIN(room, PIECE_BYTES), (size_t)entry->size_bytes - done);
    if (!share->hash && !(share->hash = hash_stream_new()))
        return -ENOMEM;
    if (size > 0) {
        memcpy(target, source + done, size);
        *crc = hash_crc32c(*crc, target, size);
        hash_stream_add(share->hash, target, size);
    }
    if (done + size == entry->size_bytes) {
        enter_tensor(share, file, entry);
        file->next_entry++;
    }
    *ret_size = size;
    return 0;
}

/* Fill @block with the file's bytes from block->offset on; the header's bytes are written last. */
static int stage_block(struct share *share, struct share_file *file, size_t block_bytes,
                       struct staging_block *block)
{
    uint64_t position = block->offset, header = file->index.header_bytes;
    uint64_t end = MIN(position + block_bytes, file->index.file_bytes);
    uint32_t *crc = &file->chunk_crcs[position / MANIFEST_CHUNK_BYTES];
    block->skip_bytes = 0;
    if (position < header) {
        block->skip_bytes = (size_t)(MIN(header, end) - position);
        *crc = hash_crc32c(*crc, file->header + position, block->skip_bytes);
        position += block->skip_bytes;
    }
    while (position < end) {
        size_t size;
        int status = stage_piece(share, file, position, (size_t)(end - position),
                                 block->data + (position - block->offset), crc, &size);
        if (status != 0)
            return status;
        position += size;
    }
    uint64_t padded = round_up(end);
    memset(block->data + (end - block->offset), 0, (size_t)(padded - end));
    block->size_bytes = (size_t)(padded - block->offset) - block->skip_bytes;
    return 0;
}

/* Add tensors without elements at the end of the file: no block contains them. */
static int enter_empty_tensors(struct share *share, struct share_file *file)
{
    while (file->next_entry < file->index.count) {
        uint32_t crc = 0;
        size_t size;
        const struct safetensors_entry *entry = &file->index.entries[file->next_entry];
        assert(entry->size_bytes == 0);
        int status = stage_piece(share, file, entry->offset, 0, NULL, &crc, &size);
        if (status != 0)
            return status;
    }
    return 0;
}

static int stage_file(struct share *share, unsigned number, struct staging *staging,
                      const atomic_bool *stop, struct error *error)
{
    struct share_file *file = &share->files[number];
    for (uint64_t offset = 0; offset < file->index.file_bytes; offset += staging->block_bytes) {
        struct staging_block *block;
        if (atomic_load_explicit(stop, memory_order_relaxed))
            return error_set(error, -ECANCELED, "%s: the writer was stopped", file->path);
        int status = staging_acquire(staging, &block);
        if (status != 0)
            return fail(error, status, "write", share->files[staging->failed_file].path);
        block->descriptor = file->descriptor;
        block->file = number;
        block->offset = offset;
        status = stage_block(share, file, staging->block_bytes, block);
        if (status != 0)
            return fail(error, status, "stage", file->path);
        status =
            block->size_bytes > 0 ? staging_submit(staging, block) : staging_return(staging, block);
        if (status != 0)
            return fail(error, status, "write", share->files[staging->failed_file].path);
    }
    int status = enter_empty_tensors(share, file);
    return status == 0 ? 0 : fail(error, status, "stage", file->path);
}

static int write_header(struct share_file *file, struct staging *staging)
{
    uint64_t user;
    int status = staging->io->write(staging->context, file->descriptor, file->header,
                                    file->index.header_bytes, 0, 0);
    if (status != 0)
        return status;
    status = staging->io->drain(staging->context, true, &user);
    assert(status != 0);
    return status < 0 ? status : 0;
}

static int close_file(struct share_file *file, struct staging *staging)
{
    int status = staging->io->close_file(staging->context, file->descriptor);
    file->descriptor = -1;
    return status;
}

static int finish_file(struct share_file *file, struct staging *staging, struct error *error)
{
    const struct io *io = staging->io;
    int status = io->truncate(staging->context, file->descriptor, file->index.file_bytes);
    if (status != 0)
        return fail(error, status, "set the length of", file->path);
    status = write_header(file, staging);
    if (status != 0)
        return fail(error, status, "write the header of", file->path);
    status = io->sync(staging->context, file->descriptor);
    if (status != 0)
        return fail(error, status, "sync", file->path);
    status = close_file(file, staging);
    return status == 0 ? 0 : fail(error, status, "close", file->path);
}

static int finish_files(struct share *share, struct staging *staging, struct error *error)
{
    int status = staging_finish(staging);
    if (status != 0)
        return fail(error, status, "write", share->files[staging->failed_file].path);
    for (unsigned i = 0; status == 0 && i < share->file_count; i++) {
        if (!share->files[i].linked)
            status = finish_file(&share->files[i], staging, error);
    }
    if (status != 0)
        return status;
    status = staging->io->sync_directory(staging->context, share->directory);
    return status == 0 ? 0 : fail_in_folder(error, status, "sync the folder", share->directory);
}

/* Remove the files, best effort; checkpoint_retain() sweeps the rest. */
static void abandon(struct share *share, struct staging *staging)
{
    const struct io *io = staging->io;
    staging_abandon(staging);
    for (unsigned i = 0; i < share->file_count; i++) {
        struct share_file *file = &share->files[i];
        int ignored = file->descriptor >= 0 ? close_file(file, staging) : 0;
        if (file->created)
            ignored = io->unlink(staging->context, file->path);
        (void)ignored;
    }
    int ignored = io->unlink(staging->context, share->directory); /* fails unless empty */
    (void)ignored;
}

int share_write(struct share *share, struct staging *staging, const atomic_bool *stop,
                void (*staged)(void *context), void *context, struct error *error)
{
    int status = open_files(share, staging, error);
    for (unsigned i = 0; status == 0 && i < share->file_count; i++) {
        if (!share->files[i].linked)
            status = stage_file(share, i, staging, stop, error);
    }
    if (status == 0) {
        staged(context);
        status = finish_files(share, staging, error);
    }
    if (status != 0)
        abandon(share, staging);
    return status;
}
