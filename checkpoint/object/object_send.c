#include "checkpoint/object/object_send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "checkpoint/object/object_sender.h"
#include "checkpoint/object/object_source.h"

struct sending {
    const struct object_store *store;
    const struct object_send_options *options;
    struct object_source *source;
    bool *left_to_others; /* of each file; NULL: none */
    uint8_t *buffer;
    struct error *error;
};

/* ---- assignment of files to nodes ---- */

static bool is_there(const struct sending *sending, const char *node)
{
    const struct checkpoint_remote *remote = sending->options->remote;
    for (unsigned i = 0; remote && i < checkpoint_remote_count(remote); i++)
        if (strcmp(checkpoint_remote_name(remote, i), node) == 0)
            return true;
    return strcmp(node, sending->options->node) == 0;
}

/* Return whether this node sends the file: the first reachable node of the file's list does. A file
 * without a list or without a reachable node is sent by the node that puts the manifest. */
static bool is_ours(const struct sending *sending, const struct manifest_file *file)
{
    for (unsigned i = 0; i < file->node_count; i++)
        if (is_there(sending, file->nodes[i]))
            return strcmp(file->nodes[i], sending->options->node) == 0;
    return !sending->options->helps;
}

static int share_out(struct sending *sending)
{
    const struct manifest *manifest = object_source_manifest(sending->source);
    if (!sending->options->remote)
        return 0;
    sending->left_to_others = calloc(manifest->file_count + 1, sizeof(*sending->left_to_others));
    if (!sending->left_to_others)
        return error_set(sending->error, -ENOMEM, "no memory to send a checkpoint");
    for (size_t i = 0; i < manifest->file_count; i++)
        sending->left_to_others[i] = !is_ours(sending, &manifest->files[i]);
    return 0;
}

/* ---- executing orders ---- */

static int read_earlier(struct sending *sending, const struct sender_order *order,
                        struct manifest *ret_manifest)
{
    if (order->size_bytes == 0 || order->size_bytes > MANIFEST_BYTES_MAX)
        return -EINVAL;
    AUTO_FREE char *text = malloc(order->size_bytes);
    if (!text)
        return -ENOMEM;
    int status = sending->store->get(sending->store->context, order->key, 0, text,
                                     order->size_bytes, sending->error);
    return status != 0
               ? status
               : manifest_parse(text, order->size_bytes, order->key, ret_manifest, sending->error);
}

static int send_bytes(struct sending *sending, const struct sender_order *order,
                      struct sender_answer *answer)
{
    const struct object_store *store = sending->store;
    int status = object_source_read(sending->source, order->file, order->offset, order->size_bytes,
                                    sending->buffer, sending->error);
    if (status != 0)
        return status;
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
    const struct bytes *text = object_source_text(sending->source);
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
    if (!answer || !order)
        return error_set(sending->error, -ENOMEM, "no memory to send a checkpoint");
    for (;;) {
        object_sender_next(sender, order);
        if (order->action == SENDER_DONE)
            return 0;
        if (order->action == SENDER_FAILED)
            return order->status;
        if (order->action == SENDER_WAIT) {
            int status = object_pause(watch, order->wait_ns,
                                      order->for_others ? "waits for what other nodes send"
                                                        : sending->error->text);
            if (status != 0)
                return status;
            object_sender_waited(sender);
            continue;
        }
        *answer = (struct sender_answer){0};
        error_clear(sending->error);
        answer->status = carry_out(sending, order, answer);
        object_sender_answer(sender, answer);
        object_sender_progress(sender, &done, &total);
        if (watch->progress)
            watch->progress(watch->context, done, total);
    }
}

static int send_opened(struct sending *sending)
{
    const struct object_sender_options options = {
        .manifest = object_source_manifest(sending->source),
        .manifest_sha256 = sending->options->manifest_sha256,
        .prefix = sending->options->prefix,
        .job = sending->options->job,
        .part_bytes = sending->options->part_bytes,
        .left_to_others = sending->left_to_others,
        .without_manifest = sending->options->helps};
    struct object_sender *sender;
    int status = object_sender_new(&options, &sender);
    if (status != 0)
        return error_set(sending->error, status, "sending %s: %s", sending->options->folder,
                         strerror(-status));
    sending->buffer = malloc(object_sender_part_bytes(sender));
    status = !sending->buffer ? error_set(sending->error, -ENOMEM, "no memory for a part")
                              : run(sending, sender);
    object_sender_free(sender);
    return status;
}

int object_send(const struct object_store *store, const struct object_send_options *options,
                struct error *error)
{
    struct error ours = {0};
    struct sending sending = {.store = store, .options = options, .error = &ours};
    const struct object_source_options source = {.folder = options->folder,
                                                 .manifest_sha256 = options->manifest_sha256,
                                                 .node = options->node,
                                                 .remote = options->remote};
    int status = object_source_open(&source, &sending.source, &ours);
    if (status == 0)
        status = share_out(&sending);
    if (status == 0)
        status = send_opened(&sending);
    object_source_close(sending.source);
    free(sending.left_to_others);
    free(sending.buffer);
    if (status != 0 && error)
        *error = ours;
    return status;
}
