/*
 * Frozen units are written twice, then linked. The next checkpoint but one gives the file a second
 * name in its own folder, so every folder is complete: either one can be copied or removed without
 * an effect on the other. Consecutive checkpoints share nothing: if a block of the file rots, the
 * previous checkpoint has another copy.
 *
 * A file is trusted to have the contents of memory only because its tensors have the same hashes as
 * the tensors in memory now. That the unit was frozen then and still is would not suffice: a new
 * job under an old name would get the old job's parameters. Hashing runs at the speed of memory;
 * only the disk is spared.
 *
 * Durability: the file was synced before its checkpoint got its final name. The new name becomes
 * durable with the part folder's fsync, as every file's does.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/format/folder_before.h"
#include "checkpoint/write/share_file.h"

struct reference {
    struct manifest manifest;
    char path[FOLDER_PATH_SIZE];
};

static const struct manifest_tensor *find_tensor(const struct manifest *manifest, const char *file,
                                                 const char *name)
{
    for (size_t i = 0; i < manifest->tensor_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (tensor->role == MANIFEST_PARAMETER && strcmp(tensor->file, file) == 0 &&
            strcmp(tensor->name, name) == 0)
            return tensor;
    }
    return NULL;
}

static size_t tensors_in(const struct manifest *manifest, const char *file)
{
    size_t count = 0;
    for (size_t i = 0; i < manifest->tensor_count; i++)
        count += strcmp(manifest->tensors[i].file, file) == 0;
    return count;
}

/* Compare names and places first: this finds most differences without reading data. */
static bool same_places(const struct share *share, const struct share_file *file,
                        const struct manifest *earlier)
{
    if (tensors_in(earlier, file->name) != file->index.count)
        return false;
    for (size_t i = 0; i < file->index.count; i++) {
        const struct safetensors_entry *entry = &file->index.entries[i];
        const struct manifest_tensor *there =
            find_tensor(earlier, file->name, share->tensors[entry->user].name);
        if (!there || there->offset != entry->offset || there->size_bytes != entry->size_bytes)
            return false;
    }
    return true;
}

static bool same_values(const struct share *share, const struct share_file *file,
                        const struct manifest *earlier)
{
    for (size_t i = 0; i < file->index.count; i++) {
        const struct safetensors_entry *entry = &file->index.entries[i];
        const struct checkpoint_tensor *here = &share->tensors[entry->user];
        const struct manifest_tensor *there = find_tensor(earlier, file->name, here->name);
        if (!hash128_equal(hash_xxh3(here->data, (size_t)entry->size_bytes), there->hash))
            return false;
    }
    return true;
}

/* A file truncated since its commit would make every later checkpoint fail. */
static bool has_its_size(const char *path, const struct manifest_file *listed)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           (uint64_t)status.st_size == listed->size_bytes;
}

static void enter_file(struct share *share, struct share_file *file, const struct manifest *earlier,
                       const struct manifest_file *listed)
{
    memcpy(file->chunk_crcs, listed->chunk_crcs, file->chunk_count * sizeof(uint32_t));
    for (size_t i = 0; i < file->index.count; i++) {
        const struct checkpoint_tensor *here = &share->tensors[file->index.entries[i].user];
        struct manifest_tensor *to = &share->part.tensors[share->part.tensor_count++];
        *to = *find_tensor(earlier, file->name, here->name);
        to->order = here->order;
    }
    file->created = file->linked = true;
}

static void link_file(struct share *share, struct share_file *file,
                      const struct reference *reference, const struct io *io,
                      struct io_context *context)
{
    char from[FOLDER_FILE_SIZE];
    const struct manifest *earlier = &reference->manifest;
    const struct manifest_file *listed = manifest_find_file(earlier, file->name);
    folder_file_path(reference->path, file->name, from);
    if (!listed || listed->size_bytes != file->index.file_bytes ||
        !same_places(share, file, earlier) || !has_its_size(from, listed) ||
        !same_values(share, file, earlier))
        return;
    int status = io->unlink(context, file->path); /* from an earlier attempt */
    if (status == 0 || status == -ENOENT)
        status = io->link(context, from, file->path);
    if (status == 0)
        enter_file(share, file, earlier, listed);
}

void share_link_files(struct share *share, const struct io *io, struct io_context *context)
{
    struct reference reference = {0};
    bool any = share->file_count > 0 && share->files[share->file_count - 1].kind == SHARE_FROZEN;
    if (!any || folder_shared_before(share->folder, share->part.step, reference.path,
                                     &reference.manifest) != 0)
        return;
    for (unsigned i = 0; i < share->file_count; i++) {
        if (share->files[i].kind == SHARE_FROZEN)
            link_file(share, &share->files[i], &reference, io, context);
    }
    manifest_done(&reference.manifest);
}
