#include "checkpoint/object/object_sender.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"

#define FROZEN_WORD                                                                                \
    "model-frozen-" /* checkpoint/write/share_file.h: files of units that never change             \
                     */

struct file {
    bool there, copied_in_vain, parts_known;
    bool left_to_others;
    struct object_upload upload;
    struct object_list parts; /* by number, `tag` NULL: not in the store; empty: not started */
    uint64_t sent_bytes;
};

enum phase { PHASE_LIST, PHASE_EARLIER, PHASE_UPLOADS, PHASE_FILES, PHASE_MANIFEST, PHASE_OVER };

struct object_sender {
    const struct manifest *manifest;
    char job_prefix[OBJECT_KEY_SIZE], folder[OBJECT_KEY_SIZE];
    uint64_t part_bytes;
    enum phase phase;
    bool waiting, waits_for_others, without_manifest;
    unsigned tries, restarts;
    unsigned looks;      /* consecutive polls of other nodes' files without progress */
    size_t there_before; /* files in the store at the last poll */
    int status;          /* final status */
    struct object_list uploads;
    struct object_checkpoint earlier_place; /* step 0: none */
    struct manifest earlier;
    size_t at; /* the current file */
    struct file *files;
};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint64_t choose_part_bytes(const struct object_sender_options *options)
{
    uint64_t part = options->part_bytes != 0 ? options->part_bytes : SENDER_PART_BYTES;
    for (size_t i = 0; i < options->manifest->file_count; i++) {
        uint64_t least = options->manifest->files[i].size_bytes / OBJECT_PARTS_MAX + 1;
        part = MAX(part, round_up(least, MANIFEST_CHUNK_BYTES));
    }
    return part;
}

int object_sender_new(const struct object_sender_options *options,
                      struct object_sender **ret_sender)
{
    const struct manifest *manifest = options->manifest;
    const char *job = options->job ? options->job : manifest->job;
    struct object_sender *sender = calloc(1, sizeof(*sender));
    if (!sender)
        return -ENOMEM;
    sender->manifest = manifest;
    sender->part_bytes = choose_part_bytes(options);
    sender->without_manifest = options->without_manifest;
    sender->files = calloc(manifest->file_count + 1, sizeof(*sender->files));
    int status = !sender->files ? -ENOMEM : 0;
    for (size_t i = 0; status == 0 && options->left_to_others && i < manifest->file_count; i++)
        sender->files[i].left_to_others = options->left_to_others[i];
    if (status == 0)
        status = object_job_prefix(options->prefix, job, sender->job_prefix);
    if (status == 0)
        status = object_folder(options->prefix, job, manifest->step, options->manifest_sha256,
                               sender->folder);
    if (status != 0) {
        object_sender_free(sender);
        return status;
    }
    *ret_sender = sender;
    return 0;
}

static void forget_upload(struct file *file)
{
    object_list_done(&file->parts);
    file->upload.name[0] = '\0';
    file->parts_known = false;
    file->sent_bytes = 0;
}

void object_sender_free(struct object_sender *sender)
{
    if (!sender)
        return;
    for (size_t i = 0; sender->files && i < sender->manifest->file_count; i++)
        forget_upload(&sender->files[i]);
    object_list_done(&sender->uploads);
    manifest_done(&sender->earlier);
    free(sender->files);
    free(sender);
}

uint64_t object_sender_part_bytes(const struct object_sender *sender)
{
    return sender->part_bytes;
}

/* ---- parts of a file ---- */

static unsigned part_count(const struct object_sender *sender, size_t file)
{
    uint64_t size = sender->manifest->files[file].size_bytes;
    return (unsigned)((size + sender->part_bytes - 1) / sender->part_bytes);
}

static uint64_t part_size(const struct object_sender *sender, size_t file, unsigned number)
{
    uint64_t from = (number - 1) * sender->part_bytes;
    return MIN(sender->manifest->files[file].size_bytes - from, sender->part_bytes);
}

/* Compute a part's CRC from the manifest's CRCs, because parts begin and end at chunk
 * boundaries. */
static uint32_t range_crc(const struct object_sender *sender, size_t file, uint64_t offset,
                          uint64_t size_bytes)
{
    const struct manifest_file *about = &sender->manifest->files[file];
    uint32_t crc = 0;
    for (uint64_t at = offset; at < offset + size_bytes; at += MANIFEST_CHUNK_BYTES)
        crc = hash_crc32c_join(crc, about->chunk_crcs[at / MANIFEST_CHUNK_BYTES],
                               MIN(offset + size_bytes - at, (uint64_t)MANIFEST_CHUNK_BYTES));
    return crc;
}

static int make_parts(struct object_sender *sender, size_t index)
{
    struct file *file = &sender->files[index];
    int status = 0;
    object_list_done(&file->parts);
    for (unsigned number = 1; status == 0 && number <= part_count(sender, index); number++) {
        uint64_t size = part_size(sender, index, number);
        const struct object_item part = {
            .number = number,
            .size_bytes = size,
            .crc32c = range_crc(sender, index, (number - 1) * sender->part_bytes, size)};
        status = object_list_add(&file->parts, &part);
    }
    return status;
}

static const struct object_item *missing_part(const struct file *file)
{
    for (size_t i = 0; i < file->parts.count; i++)
        if (!file->parts.items[i].tag)
            return &file->parts.items[i];
    return NULL;
}

static int have_part(struct file *file, unsigned number, const char *tag)
{
    struct object_item *part = &file->parts.items[number - 1];
    char *copy = strdup(tag);
    if (!copy)
        return -ENOMEM;
    if (!part->tag)
        file->sent_bytes += part->size_bytes;
    free(part->tag);
    part->tag = copy;
    return 0;
}

/* ---- orders ---- */

static const struct manifest_tensor *next_tensor(const struct manifest *manifest, const char *file,
                                                 size_t *at)
{
    while (*at < manifest->tensor_count) {
        const struct manifest_tensor *tensor = &manifest->tensors[(*at)++];
        if (strcmp(tensor->file, file) == 0)
            return tensor;
    }
    return NULL;
}

/* Return whether both have the same tensors at the same places with the same hashes. Both manifests
 * have the same order. */
static bool same_tensors(const struct manifest *a, const struct manifest *b, const char *file)
{
    size_t at_a = 0, at_b = 0;
    for (;;) {
        const struct manifest_tensor *left = next_tensor(a, file, &at_a);
        const struct manifest_tensor *right = next_tensor(b, file, &at_b);
        if (!left || !right)
            return left == right;
        if (strcmp(left->name, right->name) != 0 || left->offset != right->offset ||
            left->size_bytes != right->size_bytes || !hash128_equal(left->hash, right->hash))
            return false;
    }
}

static bool can_copy(const struct object_sender *sender, size_t index)
{
    const struct manifest_file *file = &sender->manifest->files[index];
    if (strncmp(file->name, FROZEN_WORD, strlen(FROZEN_WORD)) != 0 ||
        sender->files[index].copied_in_vain || file->size_bytes > OBJECT_COPY_MAX)
        return false;
    const struct manifest_file *earlier = manifest_find_file(&sender->earlier, file->name);
    return earlier && earlier->size_bytes == file->size_bytes &&
           memcmp(earlier->chunk_crcs, file->chunk_crcs,
                  file->chunk_count * sizeof(*file->chunk_crcs)) == 0 &&
           same_tensors(&sender->earlier, sender->manifest, file->name);
}

static const char *begun_upload(const struct object_sender *sender, const char *key)
{
    for (size_t i = 0; i < sender->uploads.count; i++)
        if (strcmp(sender->uploads.items[i].key, key) == 0 &&
            strlen(sender->uploads.items[i].tag) < OBJECT_TAG_SIZE)
            return sender->uploads.items[i].tag;
    return NULL;
}

static void order_parts(struct object_sender *sender, size_t index, struct sender_order *order)
{
    struct file *file = &sender->files[index];
    const struct object_item *part = missing_part(file);
    order->upload = &file->upload;
    if (!part) {
        order->action = SENDER_FINISH;
        order->parts = &file->parts;
        return;
    }
    order->action = SENDER_PUT_PART;
    order->number = part->number;
    order->offset = (part->number - 1) * sender->part_bytes;
    order->size_bytes = part->size_bytes;
    order->crc32c = part->crc32c;
}

static void order_file(struct object_sender *sender, size_t index, struct sender_order *order)
{
    const struct manifest_file *about = &sender->manifest->files[index];
    struct file *file = &sender->files[index];
    order->file = index;
    object_file_key(sender->folder, about->name, order->key);
    if (can_copy(sender, index)) {
        order->action = SENDER_COPY;
        object_file_key(sender->earlier_place.folder, about->name, order->from);
    } else if (about->size_bytes <= sender->part_bytes) {
        order->action = SENDER_PUT;
        order->size_bytes = about->size_bytes;
        order->crc32c = range_crc(sender, index, 0, about->size_bytes);
    } else if (file->upload.name[0] == '\0' && !begun_upload(sender, order->key)) {
        order->action = SENDER_BEGIN;
    } else if (!file->parts_known) {
        if (file->upload.name[0] == '\0')
            strcpy(file->upload.name, begun_upload(sender, order->key));
        order->action = SENDER_LIST_PARTS;
        order->upload = &file->upload;
    } else {
        order_parts(sender, index, order);
    }
}

static void end(struct object_sender *sender, int status)
{
    sender->phase = PHASE_OVER;
    sender->status = status;
}

static size_t count_there(const struct object_sender *sender)
{
    size_t count = 0;
    for (size_t i = 0; i < sender->manifest->file_count; i++)
        count += sender->files[i].there;
    return count;
}

/* All of this node's files are in the store: go to the manifest, unless another node puts it or
 * other nodes are still sending. */
static void leave_files(struct object_sender *sender)
{
    size_t count = sender->manifest->file_count;
    if (sender->without_manifest)
        end(sender, 0);
    else if (count_there(sender) == count)
        sender->phase = PHASE_MANIFEST;
    else
        sender->waiting = sender->waits_for_others = true;
}

static void skip_files(struct object_sender *sender)
{
    if (sender->phase != PHASE_FILES || sender->waiting)
        return;
    while (sender->at < sender->manifest->file_count &&
           (sender->files[sender->at].there || sender->files[sender->at].left_to_others))
        sender->at++;
    if (sender->at == sender->manifest->file_count)
        leave_files(sender);
}

void object_sender_next(struct object_sender *sender, struct sender_order *ret_order)
{
    *ret_order = (struct sender_order){.action = SENDER_LIST};
    skip_files(sender);
    if (sender->waiting) {
        ret_order->action = SENDER_WAIT;
        ret_order->for_others = sender->waits_for_others;
        ret_order->wait_ns =
            sender->waits_for_others ? SENDER_OTHERS_NS : object_wait_ns(sender->tries);
        return;
    }
    switch (sender->phase) {
    case PHASE_LIST:
        strcpy(ret_order->key, sender->job_prefix);
        break;
    case PHASE_EARLIER:
        ret_order->action = SENDER_READ_EARLIER;
        ret_order->size_bytes = sender->earlier_place.manifest_bytes;
        object_file_key(sender->earlier_place.folder, MANIFEST_NAME, ret_order->key);
        break;
    case PHASE_UPLOADS:
        ret_order->action = SENDER_LIST_UPLOADS;
        strcpy(ret_order->key, sender->folder);
        break;
    case PHASE_FILES:
        order_file(sender, sender->at, ret_order);
        break;
    case PHASE_MANIFEST:
        ret_order->action = SENDER_PUT_MANIFEST;
        object_file_key(sender->folder, MANIFEST_NAME, ret_order->key);
        break;
    case PHASE_OVER:
        ret_order->action = sender->status == 0 ? SENDER_DONE : SENDER_FAILED;
        ret_order->status = sender->status;
        break;
    }
}

/* ---- results ---- */

static void look_again(struct object_sender *sender)
{
    object_list_done(&sender->uploads);
    for (size_t i = 0; i < sender->manifest->file_count; i++)
        forget_upload(&sender->files[i]);
    sender->at = 0;
    sender->phase = PHASE_LIST;
}

/* Take the files of other nodes after too many polls without progress: these nodes are considered
 * failed. */
static void take_over(struct object_sender *sender)
{
    for (size_t i = 0; i < sender->manifest->file_count; i++)
        sender->files[i].left_to_others = false;
}

void object_sender_waited(struct object_sender *sender)
{
    sender->waiting = false;
    if (!sender->waits_for_others)
        return;
    sender->waits_for_others = false;
    size_t there = count_there(sender);
    sender->looks = there == sender->there_before ? sender->looks + 1 : 0;
    sender->there_before = there;
    if (sender->looks == SENDER_OTHERS_LOOKS)
        take_over(sender);
    look_again(sender);
}

static bool has_frozen(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->file_count; i++)
        if (strncmp(manifest->files[i].name, FROZEN_WORD, strlen(FROZEN_WORD)) == 0)
            return true;
    return false;
}

static const struct object_item *find_key(const struct object_list *list, const char *key)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].key, key) == 0)
            return &list->items[i];
    return NULL;
}

static int take_list(struct object_sender *sender, const struct object_list *list)
{
    char key[OBJECT_KEY_SIZE];
    struct object_catalog catalog;
    int status = object_catalog_make(list, sender->job_prefix, &catalog);
    if (status != 0)
        return status;
    const struct object_checkpoint *earlier =
        sender->manifest->step > 0 ? object_catalog_find(&catalog, sender->manifest->step - 1, true)
                                   : NULL;
    if (earlier)
        sender->earlier_place = *earlier;
    object_catalog_done(&catalog);
    for (size_t i = 0; i < sender->manifest->file_count; i++) {
        object_file_key(sender->folder, sender->manifest->files[i].name, key);
        const struct object_item *item = find_key(list, key);
        sender->files[i].there = item && item->size_bytes == sender->manifest->files[i].size_bytes;
    }
    object_file_key(sender->folder, MANIFEST_NAME, key);
    if (find_key(list, key))
        end(sender, 0); /* complete in the store already */
    else
        sender->phase = earlier && has_frozen(sender->manifest) ? PHASE_EARLIER : PHASE_UPLOADS;
    return 0;
}

static int take_parts(struct object_sender *sender, const struct object_list *list)
{
    struct file *file = &sender->files[sender->at];
    int status = make_parts(sender, sender->at);
    for (size_t i = 0; status == 0 && i < list->count; i++) {
        const struct object_item *found = &list->items[i];
        if (found->number == 0 || found->number > file->parts.count)
            continue;
        const struct object_item *wanted = &file->parts.items[found->number - 1];
        if (found->size_bytes == wanted->size_bytes &&
            (!found->has_crc || found->crc32c == wanted->crc32c))
            status = have_part(file, found->number, found->tag);
    }
    file->upload.checksums = list->checksums;
    file->parts_known = status == 0;
    return status;
}

static int take_success(struct object_sender *sender, const struct sender_order *order,
                        struct sender_answer *answer)
{
    struct file *file = &sender->files[sender->at];
    int status = 0;
    switch (order->action) {
    case SENDER_LIST:
        return take_list(sender, &answer->list);
    case SENDER_READ_EARLIER:
        manifest_done(&sender->earlier);
        sender->earlier = answer->earlier;
        answer->earlier = (struct manifest){0};
        sender->phase = PHASE_UPLOADS;
        break;
    case SENDER_LIST_UPLOADS:
        sender->uploads = answer->list;
        answer->list = (struct object_list){0};
        sender->phase = PHASE_FILES;
        break;
    case SENDER_LIST_PARTS:
        return take_parts(sender, &answer->list);
    case SENDER_BEGIN:
        status = make_parts(sender, sender->at);
        if (status == 0) {
            file->upload = answer->upload;
            file->parts_known = true;
        }
        break;
    case SENDER_PUT_PART:
        return have_part(file, order->number, answer->tag);
    case SENDER_FINISH:
        forget_upload(file);
        file->there = true;
        break;
    case SENDER_PUT:
    case SENDER_COPY:
        file->there = true;
        break;
    case SENDER_PUT_MANIFEST:
        end(sender, 0);
        break;
    default:
        break;
    }
    return status;
}

/* Return whether the store has lost the upload: it was finished and the answer was lost, or it was
 * cleaned up. */
static bool upload_is_gone(const struct sender_order *order, int status)
{
    return status == -ENOENT &&
           (order->action == SENDER_LIST_PARTS || order->action == SENDER_PUT_PART ||
            order->action == SENDER_FINISH);
}

static void take_failure(struct object_sender *sender, const struct sender_order *order, int status)
{
    if (upload_is_gone(order, status) && sender->restarts++ < SENDER_RESTARTS_MAX) {
        look_again(sender);
    } else if (object_may_pass(status) && ++sender->tries < OBJECT_TRIES_MAX) {
        sender->waiting = true;
    } else if (order->action == SENDER_READ_EARLIER && status != -ECANCELED) {
        sender->tries = 0;
        sender->phase = PHASE_UPLOADS; /* nothing to copy from */
    } else if (order->action == SENDER_COPY && status != -ECANCELED) {
        sender->tries = 0;
        sender->files[sender->at].copied_in_vain = true;
    } else {
        end(sender, status);
    }
}

void object_sender_answer(struct object_sender *sender, struct sender_answer *answer)
{
    struct sender_order order;
    assert(!sender->waiting);
    object_sender_next(sender, &order);
    int status = answer->status;
    if (status == 0) {
        sender->tries = 0;
        status = take_success(sender, &order, answer);
        if (status != 0)
            end(sender, status);
    } else {
        take_failure(sender, &order, status);
    }
    object_list_done(&answer->list);
    manifest_done(&answer->earlier);
}

void object_sender_progress(const struct object_sender *sender, uint64_t *ret_done,
                            uint64_t *ret_total)
{
    *ret_done = *ret_total = 0;
    for (size_t i = 0; i < sender->manifest->file_count; i++) {
        uint64_t size = sender->manifest->files[i].size_bytes;
        *ret_total += size;
        *ret_done += sender->files[i].there ? size : sender->files[i].sent_bytes;
    }
    if (sender->phase == PHASE_OVER && sender->status == 0)
        *ret_done = *ret_total;
}
