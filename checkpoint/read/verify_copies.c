#include "checkpoint/read/verify_copies.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/read/reader_copies.h"
#include "checkpoint/read/reader_state.h"

struct verifying {
    const struct checkpoint_reader *reader;
    struct checkpoint_remote *remote;
    struct copies_check *check;
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    uint64_t done_bytes, total_bytes;
    uint8_t *chunk;
    struct error *error;
};

static struct copies_node *node_of(struct copies_check *check, const char *name)
{
    for (unsigned i = 0; i < check->node_count; i++) {
        if (strcmp(check->nodes[i].name, name) == 0)
            return &check->nodes[i];
    }
    struct copies_node *grown =
        realloc(check->nodes, (check->node_count + 1) * sizeof(*check->nodes));
    if (!grown)
        return NULL;
    check->nodes = grown;
    struct copies_node *node = &grown[check->node_count++];
    *node = (struct copies_node){0};
    snprintf(node->name, sizeof(node->name), "%s", name);
    return node;
}

struct copies_seen {
    unsigned good, unseen; /* copies of the current file */
};

/* Read one copy. Return 0 if it is good. */
static int read_copy(struct verifying *verifying, const struct reader_file *file, const char *node,
                     struct error *error)
{
    for (size_t i = 0; i < file->entry->chunk_count; i++) {
        size_t size = 0, wanted = reader_chunk_bytes(file, i);
        int status = checkpoint_remote_read(verifying->remote, node, verifying->reader->name,
                                            file->entry->name, (uint64_t)i * MANIFEST_CHUNK_BYTES,
                                            verifying->chunk, wanted, &size, error);
        if (status != 0)
            return status;
        if (size != wanted || hash_crc32c(0, verifying->chunk, size) != file->entry->chunk_crcs[i])
            return error_set(error, -EBADMSG, "%s: chunk %zu (from byte %" PRIu64 ") is damaged",
                             file->entry->name, i, (uint64_t)i * MANIFEST_CHUNK_BYTES);
        verifying->done_bytes += wanted;
        if (verifying->progress)
            verifying->progress(verifying->context,
                                MIN(verifying->done_bytes, verifying->total_bytes),
                                verifying->total_bytes);
    }
    return 0;
}

/* Check one copy. @guessed: the manifest does not list the node, so a missing or unreachable
 * copy does not count. */
static int verify_copy(struct verifying *verifying, const struct reader_file *file,
                       const char *name, bool guessed, struct copies_seen *seen)
{
    struct error why = {0};
    int status = read_copy(verifying, file, name, &why);
    if (status == -ENOMEM || status == -ECANCELED)
        return error_set(verifying->error, status, "%s", why.text);
    if (guessed && (status == -ENOENT || status == -EHOSTUNREACH))
        return 0;
    struct copies_node *node = node_of(verifying->check, name);
    if (!node)
        return error_set(verifying->error, -ENOMEM, "no memory to verify copies");
    if (status != 0 && node->problem[0] == '\0')
        snprintf(node->problem, sizeof(node->problem), "%.255s", why.text);
    bool unseen = status == -EHOSTUNREACH;
    node->good += status == 0;
    node->unseen += unseen;
    node->bad += status != 0 && !unseen;
    verifying->check->bad += status != 0 && !unseen;
    seen->good += status == 0;
    seen->unseen += unseen;
    return 0;
}

/* Check all copies of one file. Copies made after the commit make up for absent nodes. A file
 * that every folder has is checked on the nodes that have other files: each node has some. */
static int verify_file(struct verifying *verifying, const struct reader_file *file)
{
    struct copies_seen seen = {0};
    unsigned named = file->entry->node_count;
    const char *node;
    int status = 0;
    if (named == 0)
        return 0;
    for (unsigned i = 0;
         status == 0 && (node = checkpoint_copy_at(file->entry, verifying->remote, i)); i++)
        status = verify_copy(verifying, file, node, i >= named, &seen);
    verifying->check->lost += seen.good == 0;
    verifying->check->fewest = MIN(verifying->check->fewest, seen.good);
    verifying->check->unseen += seen.good < named ? seen.unseen : 0;
    return status;
}

static int verify_everywhere(struct verifying *verifying, const struct reader_file *file)
{
    struct copies_seen seen = {0};
    unsigned count = verifying->check->node_count;
    int status = 0;
    for (unsigned i = 0; status == 0 && file->entry->node_count == 0 && i < count; i++) {
        const struct copies_node *node = &verifying->check->nodes[i];
        status = verify_copy(verifying, file, node->name, node->good == 0, &seen);
    }
    return status;
}

static int verify_files(struct verifying *verifying)
{
    const struct checkpoint_reader *reader = verifying->reader;
    int status = 0;
    for (size_t i = 0; i < reader->file_count; i++)
        verifying->total_bytes +=
            reader->files[i].entry->size_bytes * reader->files[i].entry->node_count;
    for (size_t i = 0; status == 0 && i < reader->file_count; i++)
        status = verify_file(verifying, &reader->files[i]);
    for (size_t i = 0; status == 0 && i < reader->file_count; i++)
        status = verify_everywhere(verifying, &reader->files[i]);
    return status;
}

int checkpoint_verify_copies(struct checkpoint_reader *reader, struct checkpoint_remote *remote,
                             void (*progress)(void *context, uint64_t done, uint64_t total),
                             void *context, struct copies_check *ret_check, struct error *error)
{
    *ret_check = (struct copies_check){.fewest = MANIFEST_NODES_MAX};
    struct verifying verifying = {.reader = reader,
                                  .remote = remote,
                                  .check = ret_check,
                                  .progress = progress,
                                  .context = context,
                                  .chunk = malloc(MANIFEST_CHUNK_BYTES),
                                  .error = error};
    int status = verifying.chunk ? verify_files(&verifying)
                                 : error_set(error, -ENOMEM, "no memory to verify copies");
    free(verifying.chunk);
    if (status != 0)
        copies_check_done(ret_check);
    return status;
}

void copies_check_done(struct copies_check *check)
{
    free(check->nodes);
    check->nodes = NULL;
    check->node_count = 0;
}
