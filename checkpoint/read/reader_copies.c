/*
 * Read checkpoints whose files are spread over several nodes: choose a node for each file, and open
 * a checkpoint from the files that are here.
 *
 * Data from other nodes goes through the same checksums as local data, so a node that sends wrong
 * data costs another try and nothing more.
 */
#include "checkpoint/read/reader_copies.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "checkpoint/read/reader_open.h"
#include "checkpoint/read/reader_state.h"

const char *checkpoint_copy_at(const struct manifest_file *file,
                               const struct checkpoint_remote *remote, unsigned index)
{
    if (index < file->node_count)
        return file->nodes[index];
    index -= file->node_count;
    for (unsigned i = 0; i < checkpoint_remote_count(remote); i++) {
        const char *node = checkpoint_remote_name(remote, i);
        if ((file->node_count == 0 || !manifest_file_on(file, node)) && index-- == 0)
            return node;
    }
    return NULL;
}

bool reader_place(const struct checkpoint_reader *reader, const struct reader_file *file,
                  unsigned index, struct reader_place *ret_place)
{
    const char *node;
    *ret_place = (struct reader_place){.descriptor = file->descriptor};
    if (!reader->remote)
        return index == 0;
    if (file->descriptor >= 0 && index-- == 0)
        return true;
    for (unsigned i = 0; (node = checkpoint_copy_at(file->entry, reader->remote, i)); i++) {
        if (strcmp(node, reader->node) != 0 && index-- == 0) {
            *ret_place = (struct reader_place){
                .descriptor = -1, .node = node, .guessed = i >= file->entry->node_count};
            return true;
        }
    }
    return false;
}

int reader_take(const struct checkpoint_reader *reader, const struct reader_file *file,
                const struct reader_place *place, void *ret_data, size_t size_bytes,
                uint64_t offset, struct error *error)
{
    size_t size = 0;
    if (!place->node)
        return reader_pread(file, place->descriptor, ret_data, size_bytes, size_bytes, offset,
                            error);
    int status =
        checkpoint_remote_read(reader->remote, place->node, reader->name, file->entry->name, offset,
                               ret_data, size_bytes, &size, error);
    if (status == 0 && size < size_bytes)
        status = error_set(error, -EBADMSG, "%s/%s on node %s ends at byte %" PRIu64 " of %" PRIu64,
                           reader->name, file->entry->name, place->node, offset + size,
                           file->entry->size_bytes);
    return status;
}

/* Unreachable outranks damaged: an absent node may have the good copy, so a checkpoint is lost
 * only when all copies have been seen. */
int reader_worse(int code, int other)
{
    bool away = code == -EHOSTUNREACH || other == -EHOSTUNREACH;
    return away ? -EHOSTUNREACH : -EBADMSG;
}

static int take_file_once(const struct checkpoint_reader *reader, const struct reader_file *file,
                          const struct reader_place *place, uint8_t *ret_data, struct error *error)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < file->entry->chunk_count; i++) {
        uint64_t offset = (uint64_t)i * MANIFEST_CHUNK_BYTES;
        size_t size = reader_chunk_bytes(file, i);
        status = reader_take(reader, file, place, ret_data + offset, size, offset, error);
        uint32_t found = status == 0 ? hash_crc32c(0, ret_data + offset, size) : 0;
        if (status == 0 && found != file->entry->chunk_crcs[i])
            status = reader_chunk_error(file, i, found, error);
    }
    return status;
}

int reader_take_file(const struct checkpoint_reader *reader, const struct reader_file *file,
                     void *ret_data, struct error *error)
{
    struct reader_place place;
    int worst = error_set(error, -EBADMSG, "no node may have %s", file->entry->name);
    for (unsigned i = 0; reader_place(reader, file, i, &place); i++) {
        struct error why = {0};
        int status = take_file_once(reader, file, &place, ret_data, &why);
        if (status == 0 || status == -ENOMEM || status == -ECANCELED || !reader->remote)
            return status == 0 ? 0 : error_set(error, status, "%s", why.text);
        worst = reader_worse(worst, status);
        error_record(error, worst, "no good copy of %s is left: %s", file->entry->name, why.text);
    }
    return worst;
}

static int manifest_from(struct checkpoint_remote *remote, const char *name, const char *node,
                         const char *sha256, struct manifest *ret_manifest, struct bytes *ret_text,
                         struct error *error)
{
    char where[256];
    struct bytes content = {0};
    snprintf(where, sizeof(where), "%s/" MANIFEST_NAME " on node %s", name, node);
    int status = checkpoint_remote_get(remote, node, name, MANIFEST_NAME, MANIFEST_BYTES_MAX,
                                       &content, error);
    if (status == 0)
        status = manifest_check(&content, where, sha256, ret_manifest, error);
    if (status == 0)
        *ret_text = content;
    else
        bytes_done(&content);
    return status;
}

int checkpoint_manifest_elsewhere(struct checkpoint_remote *remote, const char *node,
                                  const char *name, const char *sha256,
                                  struct manifest *ret_manifest, struct bytes *ret_text,
                                  struct error *error)
{
    struct error why = {0};
    int worst = -EBADMSG;
    for (unsigned i = 0; i < checkpoint_remote_count(remote); i++) {
        const char *other = checkpoint_remote_name(remote, i);
        if (strcmp(other, node) == 0)
            continue;
        int status = manifest_from(remote, name, other, sha256, ret_manifest, ret_text, &why);
        if (status == 0)
            return 0;
        if (status == -ENOMEM || status == -ECANCELED)
            return error_set(error, status, "%s", why.text);
        worst = reader_worse(worst, status);
    }
    return error_set(error, worst, "no manifest of %s is to be had: %s", name, why.text);
}

static int find_manifest(const struct checkpoint_source *source, const char *name,
                         struct manifest *ret_manifest, struct error *error)
{
    struct error why = {0};
    struct bytes text = {0};
    int status = manifest_load(source->folder, source->manifest_sha256, ret_manifest, &why);
    if (status == 0)
        return 0;
    if (status != -ENOENT)
        log_warning("%s; another node's manifest is used", why.text);
    status = checkpoint_manifest_elsewhere(source->remote, source->node, name,
                                           source->manifest_sha256, ret_manifest, &text, error);
    bytes_done(&text);
    return status;
}

int checkpoint_open_copies(const struct checkpoint_source *source,
                           struct checkpoint_reader **ret_reader, struct error *error)
{
    const char *slash = strrchr(source->folder, '/');
    struct checkpoint_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return error_set(error, -ENOMEM, "no memory to open %s", source->folder);
    reader->remote = source->remote;
    snprintf(reader->node, sizeof(reader->node), "%s", source->node);
    snprintf(reader->name, sizeof(reader->name), "%s", slash ? slash + 1 : source->folder);
    int status = find_manifest(source, reader->name, &reader->manifest, error);
    if (status == 0)
        status = reader_open_files(reader, source->folder, READER_ALL, error);
    if (status != 0)
        checkpoint_close(reader);
    else
        *ret_reader = reader;
    return status;
}
