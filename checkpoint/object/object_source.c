#include "checkpoint/object/object_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader_copies.h"

struct object_source {
    char folder[FOLDER_PATH_SIZE], name[64]; /* name: the last component, equal on all nodes */
    char node[NAME_SIZE];
    struct checkpoint_remote *remote;
    struct manifest manifest;
    struct bytes text;
    int *descriptors; /* of the manifest's files; -1: not on this node */
};

const struct manifest *object_source_manifest(const struct object_source *source)
{
    return &source->manifest;
}

const struct bytes *object_source_text(const struct object_source *source)
{
    return &source->text;
}

/* ---- the manifest ---- */

static int read_manifest_here(struct object_source *source, const char *sha256, struct error *error)
{
    char path[FOLDER_FILE_SIZE], found[65];
    folder_file_path(source->folder, MANIFEST_NAME, path);
    int status = file_read(path, MANIFEST_BYTES_MAX, &source->text, error);
    if (status != 0)
        return status;
    manifest_sha256(source->text.data, source->text.size_bytes, found);
    if (strcmp(found, sha256) != 0)
        return error_set(error, -EIO, "%s: not the manifest that was committed", path);
    return manifest_parse((const char *)source->text.data, source->text.size_bytes, path,
                          &source->manifest, error);
}

static int read_manifest(struct object_source *source, const char *sha256, struct error *error)
{
    int status = read_manifest_here(source, sha256, error);
    if (status == 0 || !source->remote)
        return status;
    bytes_done(&source->text);
    error_clear(error);
    status = checkpoint_manifest_elsewhere(source->remote, source->node, source->name, sha256,
                                           &source->manifest, &source->text, error);
    return status == 0 || status == -ENOMEM || status == -ECANCELED ? status : -EAGAIN;
}

/* ---- files on this node ---- */

static int open_file(struct object_source *source, size_t index, struct error *error)
{
    const struct manifest_file *file = &source->manifest.files[index];
    char path[FOLDER_FILE_SIZE];
    struct stat about;
    folder_file_path(source->folder, file->name, path);
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &about) != 0)
        return error_set(error, -errno, "%s: %s", path, strerror(errno));
    if ((uint64_t)about.st_size != file->size_bytes)
        return error_set(error, -EIO, "%s: %llu bytes, and the manifest says %llu", path,
                         (unsigned long long)about.st_size, (unsigned long long)file->size_bytes);
    source->descriptors[index] = descriptor;
    descriptor = -1;
    return 0;
}

static int open_files(struct object_source *source, struct error *error)
{
    size_t count = source->manifest.file_count;
    source->descriptors = malloc((count + 1) * sizeof(*source->descriptors));
    if (!source->descriptors)
        return error_set(error, -ENOMEM, "no memory to send a checkpoint");
    for (size_t i = 0; i < count; i++)
        source->descriptors[i] = -1;
    for (size_t i = 0; i < count; i++) {
        struct error why = {0};
        int status = open_file(source, i, &why);
        if (status != 0 && !source->remote)
            return error_set(error, status, "%s", why.text);
        if (status != 0 && status != -ENOENT)
            log_warning("%s; other nodes' copies are sent", why.text);
    }
    return 0;
}

int object_source_open(const struct object_source_options *options,
                       struct object_source **ret_source, struct error *error)
{
    const char *slash = strrchr(options->folder, '/');
    struct object_source *source = calloc(1, sizeof(*source));
    if (!source)
        return error_set(error, -ENOMEM, "no memory to send a checkpoint");
    snprintf(source->folder, sizeof(source->folder), "%s", options->folder);
    snprintf(source->name, sizeof(source->name), "%s", slash ? slash + 1 : "");
    snprintf(source->node, sizeof(source->node), "%s", options->node ? options->node : "");
    source->remote = options->remote;
    int status = read_manifest(source, options->manifest_sha256, error);
    if (status == 0)
        status = open_files(source, error);
    if (status != 0)
        object_source_close(source);
    else
        *ret_source = source;
    return status;
}

void object_source_close(struct object_source *source)
{
    if (!source)
        return;
    for (size_t i = 0; source->descriptors && i < source->manifest.file_count; i++)
        close_descriptor(&source->descriptors[i]);
    free(source->descriptors);
    manifest_done(&source->manifest);
    bytes_done(&source->text);
    free(source);
}

/* ---- reading ---- */

static int fill(int descriptor, uint8_t *to, uint64_t size_bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < size_bytes;) {
        ssize_t got = pread(descriptor, to + done, size_bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? -EIO : -errno;
        done += (uint64_t)got;
    }
    return 0;
}

/* Drop sent pages from the page cache, because training needs the memory. */
static void forget_pages(int descriptor, uint64_t offset, uint64_t size_bytes)
{
    (void)posix_fadvise(descriptor, (off_t)offset, (off_t)size_bytes, POSIX_FADV_DONTNEED);
}

static int check(const struct object_source *source, size_t index, uint64_t offset,
                 uint64_t size_bytes, const uint8_t *data, const char *where, struct error *error)
{
    const struct manifest_file *file = &source->manifest.files[index];
    for (uint64_t at = 0; at < size_bytes; at += MANIFEST_CHUNK_BYTES) {
        uint64_t chunk = (offset + at) / MANIFEST_CHUNK_BYTES;
        size_t size = MIN(size_bytes - at, (uint64_t)MANIFEST_CHUNK_BYTES);
        if (hash_crc32c(0, data + at, size) != file->chunk_crcs[chunk])
            return error_set(error, -EIO,
                             "%s/%s: chunk %llu is damaged on disk (its CRC32C is not the "
                             "manifest's)%s",
                             where, file->name, (unsigned long long)chunk,
                             !source->remote ? "; the checkpoint is not sent" : "");
    }
    return 0;
}

static int read_here(const struct object_source *source, size_t index, uint64_t offset,
                     uint64_t size_bytes, uint8_t *ret_data, struct error *error)
{
    int descriptor = source->descriptors[index];
    int status = fill(descriptor, ret_data, size_bytes, offset);
    if (status != 0)
        return error_set(error, status, "reading %s/%s: %s", source->folder,
                         source->manifest.files[index].name, strerror(-status));
    forget_pages(descriptor, offset, size_bytes);
    return check(source, index, offset, size_bytes, ret_data, source->folder, error);
}

static int read_there(const struct object_source *source, const char *node, size_t index,
                      uint64_t offset, uint64_t size_bytes, uint8_t *ret_data, struct error *error)
{
    const struct manifest_file *file = &source->manifest.files[index];
    char where[NAME_SIZE + 96];
    size_t size = 0;
    snprintf(where, sizeof(where), "%s of node %s", source->name, node);
    int status = checkpoint_remote_read(source->remote, node, source->name, file->name, offset,
                                        ret_data, size_bytes, &size, error);
    if (status != 0)
        return status;
    if (size < size_bytes)
        return error_set(error, -EIO, "%s/%s: ends at byte %llu", where, file->name,
                         (unsigned long long)(offset + size));
    return check(source, index, offset, size_bytes, ret_data, where, error);
}

int object_source_read(struct object_source *source, size_t index, uint64_t offset,
                       uint64_t size_bytes, uint8_t *ret_data, struct error *error)
{
    const struct manifest_file *file = &source->manifest.files[index];
    int worst = -EIO;
    const char *node;
    if (source->descriptors[index] >= 0) {
        int status = read_here(source, index, offset, size_bytes, ret_data, error);
        if (status == 0 || !source->remote)
            return status;
        log_warning("%s; another node's copy is sent", error->text);
    }
    for (unsigned i = 0; (node = checkpoint_copy_at(file, source->remote, i)); i++) {
        struct error why = {0};
        if (strcmp(node, source->node) == 0)
            continue;
        int status = read_there(source, node, index, offset, size_bytes, ret_data, &why);
        if (status == 0 || status == -ENOMEM || status == -ECANCELED)
            return status == 0 ? 0 : error_set(error, status, "%s", why.text);
        if (status == -EHOSTUNREACH)
            worst = -EAGAIN;
        if (i < file->node_count || status != -ENOENT)
            error_record(error, worst, "no good copy of %s is to be had: %s", file->name, why.text);
    }
    return error->text[0] != '\0' ? worst
                                  : error_set(error, -EAGAIN, "no node here has %s", file->name);
}
