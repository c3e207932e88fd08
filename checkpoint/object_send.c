#include "checkpoint/object_send.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/folder.h"
#include "checkpoint/object_sender.h"

struct sending {
    const struct object_store *store;
    const struct object_send_options *options;
    struct manifest manifest;
    struct bytes manifest_text;
    int *descriptors; /* of the manifest's files */
    uint8_t *buffer;
    uint64_t buffer_bytes;
    struct error *error;
};

/* ---- the checkpoint on disk ---- */

static int read_manifest(struct sending *sending)
{
    char path[FOLDER_FILE_SIZE], found[65];
    folder_file_path(sending->options->folder, MANIFEST_NAME, path);
    int r = file_read(path, MANIFEST_BYTES_MAX, &sending->manifest_text, sending->error);
    if (r != 0)
        return r;
    manifest_sha256(sending->manifest_text.data, sending->manifest_text.size_bytes, found);
    if (strcmp(found, sending->options->manifest_sha256) != 0)
        return error_set(sending->error, -EIO, "%s: not the manifest that was committed", path);
    return manifest_parse((const char *)sending->manifest_text.data,
                          sending->manifest_text.size_bytes, path, &sending->manifest,
                          sending->error);
}

static int open_file(struct sending *sending, size_t index)
{
    const struct manifest_file *file = &sending->manifest.files[index];
    char path[FOLDER_FILE_SIZE];
    struct stat about;
    folder_file_path(sending->options->folder, file->name, path);
    sending->descriptors[index] = open(path, O_RDONLY | O_CLOEXEC);
    if (sending->descriptors[index] < 0 || fstat(sending->descriptors[index], &about) != 0)
        return error_set(sending->error, -errno, "%s: %s", path, strerror(errno));
    if ((uint64_t)about.st_size != file->size_bytes)
        return error_set(sending->error, -EIO, "%s: %llu bytes, and the manifest says %llu", path,
                         (unsigned long long)about.st_size, (unsigned long long)file->size_bytes);
    return 0;
}

static int open_files(struct sending *sending)
{
    size_t count = sending->manifest.file_count;
    int r = 0;
    sending->descriptors = malloc((count + 1) * sizeof(*sending->descriptors));
    if (sending->descriptors == NULL)
        return error_set(sending->error, -ENOMEM, "no memory to send a checkpoint");
    for (size_t i = 0; i < count; i++)
        sending->descriptors[i] = -1;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = open_file(sending, i);
    return r;
}

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

/* What is sent once is not wanted in memory; what trains is. */
static void forget_pages(int descriptor, uint64_t offset, uint64_t size_bytes)
{
    (void)posix_fadvise(descriptor, (off_t)offset, (off_t)size_bytes, POSIX_FADV_DONTNEED);
}

static int read_range(struct sending *sending, const struct sender_order *order)
{
    const struct manifest_file *file = &sending->manifest.files[order->file];
    int descriptor = sending->descriptors[order->file];
    int r = fill(descriptor, sending->buffer, order->size_bytes, order->offset);
    if (r != 0)
        return error_set(sending->error, r, "reading %s/%s: %s", sending->options->folder,
                         file->name, strerror(-r));
    forget_pages(descriptor, order->offset, order->size_bytes);
    for (uint64_t at = 0; at < order->size_bytes; at += MANIFEST_CHUNK_BYTES) {
        uint64_t chunk = (order->offset + at) / MANIFEST_CHUNK_BYTES;
        size_t size = MIN(order->size_bytes - at, (uint64_t)MANIFEST_CHUNK_BYTES);
        if (hash_crc32c(0, sending->buffer + at, size) != file->chunk_crcs[chunk])
            return error_set(sending->error, -EIO,
                             "%s/%s: chunk %llu is damaged on disk (its CRC32C is not the "
                             "manifest's); the checkpoint is not sent",
                             sending->options->folder, file->name, (unsigned long long)chunk);
    }
    return 0;
}

/* ---- carrying out ---- */

static int read_earlier(struct sending *sending, const struct sender_order *order,
                        struct manifest *ret_manifest)
{
    if (order->size_bytes == 0 || order->size_bytes > MANIFEST_BYTES_MAX)
        return -EINVAL;
    AUTO_FREE char *text = malloc(order->size_bytes);
    if (text == NULL)
        return -ENOMEM;
    int r = sending->store->get(sending->store->context, order->key, 0, text, order->size_bytes,
                                sending->error);
    return r != 0
               ? r
               : manifest_parse(text, order->size_bytes, order->key, ret_manifest, sending->error);
}

static int send_bytes(struct sending *sending, const struct sender_order *order,
                      struct sender_answer *answer)
{
    const struct object_store *store = sending->store;
    int r = read_range(sending, order);
    if (r != 0)
        return r;
    if (order->action == SENDER_PUT)
        return store->put(store->context, order->key, sending->buffer, order->size_bytes,
                          order->crc32c, sending->error);
    return store->put_part(store->context, order->key, order->upload, order->number,
                           sending->buffer, order->size_bytes, order->crc32c, answer->tag,
                           sending->error);
}

static int carry_out(struct sending *sending, const struct sender_order *order,
                     struct sender_answer *answer)
{
    const struct object_store *store = sending->store;
    const struct bytes *text = &sending->manifest_text;
    struct error *error = sending->error;
    switch (order->action) {
    case SENDER_LIST:
        return store->list(store->context, order->key, &answer->list, error);
    case SENDER_READ_EARLIER:
        return read_earlier(sending, order, &answer->earlier);
    case SENDER_LIST_UPLOADS:
        return store->list_uploads(store->context, order->key, &answer->list, error);
    case SENDER_LIST_PARTS:
        return store->list_parts(store->context, order->key, order->upload->name, &answer->list,
                                 error);
    case SENDER_BEGIN:
        return store->begin(store->context, order->key, &answer->upload, error);
    case SENDER_PUT:
    case SENDER_PUT_PART:
        return send_bytes(sending, order, answer);
    case SENDER_FINISH:
        return store->finish(store->context, order->key, order->upload, order->parts, error);
    case SENDER_COPY:
        return store->copy(store->context, order->from, order->key, error);
    case SENDER_PUT_MANIFEST:
        return store->put(store->context, order->key, text->data, text->size_bytes,
                          hash_crc32c(0, text->data, text->size_bytes), error);
    case SENDER_WAIT:
    case SENDER_DONE:
    case SENDER_FAILED:
        break;
    }
    return -EINVAL;
}

static int run(struct sending *sending, struct object_sender *sender)
{
    const struct object_watch *watch = &sending->options->watch;
    AUTO_FREE struct sender_answer *answer = calloc(1, sizeof(*answer));
    AUTO_FREE struct sender_order *order = calloc(1, sizeof(*order));
    uint64_t done, total;
    if (answer == NULL || order == NULL)
        return error_set(sending->error, -ENOMEM, "no memory to send a checkpoint");
    for (;;) {
        object_sender_next(sender, order);
        if (order->action == SENDER_DONE)
            return 0;
        if (order->action == SENDER_FAILED)
            return order->status;
        if (order->action == SENDER_WAIT) {
            int r = object_pause(watch, order->wait_ns, sending->error->text);
            if (r != 0)
                return r;
            object_sender_waited(sender);
            continue;
        }
        *answer = (struct sender_answer){0};
        error_clear(sending->error);
        answer->status = carry_out(sending, order, answer);
        object_sender_answer(sender, answer);
        object_sender_progress(sender, &done, &total);
        if (watch->progress != NULL)
            watch->progress(watch->context, done, total);
    }
}

static int send_opened(struct sending *sending)
{
    const struct object_sender_options options = {.manifest = &sending->manifest,
                                                  .manifest_sha256 =
                                                      sending->options->manifest_sha256,
                                                  .prefix = sending->options->prefix,
                                                  .part_bytes = sending->options->part_bytes};
    struct object_sender *sender;
    int r = object_sender_new(&options, &sender);
    if (r != 0)
        return error_set(sending->error, r, "sending %s: %s", sending->options->folder,
                         strerror(-r));
    sending->buffer = malloc(object_sender_part_bytes(sender));
    r = sending->buffer == NULL ? error_set(sending->error, -ENOMEM, "no memory for a part")
                                : run(sending, sender);
    object_sender_free(sender);
    return r;
}

int object_send(const struct object_store *store, const struct object_send_options *options,
                struct error *error)
{
    struct error ours = {0};
    struct sending sending = {.store = store, .options = options, .error = &ours};
    int r = read_manifest(&sending);
    if (r == 0)
        r = open_files(&sending);
    if (r == 0)
        r = send_opened(&sending);
    for (size_t i = 0; sending.descriptors != NULL && i < sending.manifest.file_count; i++)
        if (sending.descriptors[i] >= 0)
            close(sending.descriptors[i]);
    free(sending.descriptors);
    free(sending.buffer);
    manifest_done(&sending.manifest);
    bytes_done(&sending.manifest_text);
    if (r != 0 && error != NULL)
        *error = ours;
    return r;
}
