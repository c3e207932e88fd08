/*
 * Prepare a share: choose each tensor's file and place, and build the files' headers. Parameters go
 * into the model file, which Hugging Face's tools read; moments go into the optimizer file beside
 * it. The parameters of each frozen unit go into a file that depends only on the unit, so that the
 * next checkpoint finds it on any layout.
 */
#include "checkpoint/write/share.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/tensor_name.h"
#include "checkpoint/write/share_file.h"

static int check_tensor(const struct checkpoint_tensor *tensor)
{
    size_t count = 1;
    if (strnlen(tensor->name, sizeof(tensor->name)) == sizeof(tensor->name) ||
        (unsigned)tensor->role > MANIFEST_SECOND_MOMENT ||
        tensor->rank > ARRAY_COUNT(tensor->shape) || tensor->order >= MANIFEST_TENSORS_MAX)
        return -EINVAL;
    if (tensor->frozen &&
        (tensor->role != MANIFEST_PARAMETER || tensor->unit > CHECKPOINT_UNIT_MAX))
        return -EINVAL;
    for (unsigned i = 0; i < tensor->rank; i++) {
        if (checked_multiply(count, tensor->shape[i], &count))
            return -EINVAL;
    }
    return count == tensor->count && (tensor->data || count == 0) ? 0 : -EINVAL;
}

static int check_description(const struct checkpoint_share *description)
{
    if (strnlen(description->folder, sizeof(description->folder)) > CHECKPOINT_FOLDER_MAX)
        return -ENAMETOOLONG;
    if (!name_valid(description->job) || description->world > CHECKPOINT_WORLD_MAX ||
        description->rank >= description->world ||
        description->tensor_count > MANIFEST_TENSORS_MAX || description->step > INT64_MAX ||
        description->generation > INT64_MAX)
        return -EINVAL;
    int status = 0;
    for (unsigned i = 0; status == 0 && i < description->tensor_count; i++)
        status = check_tensor(&description->tensors[i]);
    return status;
}

static enum share_file_kind kind_of(const struct checkpoint_tensor *tensor)
{
    if (tensor->frozen)
        return SHARE_FROZEN;
    return tensor->role == MANIFEST_PARAMETER ? SHARE_MODEL : SHARE_OPTIMIZER;
}

static bool belongs(const struct checkpoint_tensor *tensor, const struct share_file *file)
{
    return kind_of(tensor) == file->kind && (!tensor->frozen || tensor->unit == file->unit);
}

static int fill_index(const struct share *share, struct share_file *file)
{
    struct safetensors_index *index = &file->index;
    index->entries = calloc(share->tensor_count + 1, sizeof(*index->entries));
    if (!index->entries)
        return -ENOMEM;
    for (unsigned i = 0; i < share->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &share->tensors[i];
        if (!belongs(tensor, file))
            continue;
        struct safetensors_entry *entry = &index->entries[index->count++];
        entry->dtype = SAFETENSORS_F32;
        entry->rank = tensor->rank;
        memcpy(entry->shape, tensor->shape, tensor->rank * sizeof(tensor->shape[0]));
        entry->user = i;
        tensor_name_in_file(tensor->name, tensor->role, entry->name);
    }
    return 0;
}

/* O_DIRECT requires aligned memory for the header too. */
static int align_header(const struct bytes *header, uint8_t **ret_header)
{
    uint8_t *aligned = aligned_alloc(SAFETENSORS_ALIGN, header->size_bytes);
    if (!aligned)
        return -ENOMEM;
    memcpy(aligned, header->data, header->size_bytes);
    *ret_header = aligned;
    return 0;
}

static void name_file(const struct share *share, struct share_file *file)
{
    if (file->kind == SHARE_FROZEN)
        snprintf(file->name, sizeof(file->name), "model-frozen-%05u.safetensors", file->unit);
    else
        snprintf(file->name, sizeof(file->name), "%s-%05u-of-%05u.safetensors",
                 file->kind == SHARE_MODEL ? "model" : "optimizer", share->rank + 1, share->world);
    folder_file_path(share->directory, file->name, file->path);
}

static int prepare_file(const struct share *share, struct share_file *file)
{
    struct bytes header = {0};
    int status = fill_index(share, file);
    if (status == 0)
        status = safetensors_layout(&file->index, &header);
    if (status == 0)
        status = align_header(&header, &file->header);
    bytes_done(&header);
    if (status != 0)
        return status;
    file->chunk_count = manifest_chunks(file->index.file_bytes);
    file->chunk_crcs = calloc(file->chunk_count, sizeof(*file->chunk_crcs));
    if (!file->chunk_crcs)
        return -ENOMEM;
    name_file(share, file);
    return 0;
}

static int compare_files(const void *left, const void *right)
{
    const struct share_file *a = left, *b = right;
    int order = (int)a->kind - (int)b->kind;
    return order != 0 ? order : (a->unit > b->unit) - (a->unit < b->unit);
}

/* Create one file for every kind and frozen unit among the tensors. */
static int list_files(struct share *share)
{
    size_t count = 0;
    share->files = calloc(share->tensor_count + 1, sizeof(*share->files));
    if (!share->files)
        return -ENOMEM;
    for (unsigned i = 0; i < share->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &share->tensors[i];
        size_t known = 0;
        while (known < count && !belongs(tensor, &share->files[known]))
            known++;
        if (known < count)
            continue;
        share->files[count++] = (struct share_file){
            .kind = kind_of(tensor), .unit = tensor->frozen ? tensor->unit : 0, .descriptor = -1};
    }
    if (count > 1)
        qsort(share->files, count, sizeof(*share->files), compare_files);
    share->file_count = (unsigned)count;
    return 0;
}

/* Allocate the manifest part's arrays now: no step may fail after the data is durable. */
static int prepare_part(const struct checkpoint_share *description, struct share *share)
{
    struct manifest *part = &share->part;
    memcpy(part->job, description->job, sizeof(part->job));
    part->step = description->step;
    part->generation = description->generation;
    part->tensors = calloc(share->tensor_count + 1, sizeof(*part->tensors));
    part->files = calloc(share->file_count + 1, sizeof(*part->files));
    return part->tensors && part->files ? 0 : -ENOMEM;
}

static int prepare(const struct checkpoint_share *description, struct share *share)
{
    share->rank = description->rank;
    share->world = description->world;
    memcpy(share->folder, description->folder, sizeof(share->folder));
    share->home = description->home;
    checkpoint_part_path(description->folder, description->step, description->generation,
                         share->directory);
    share->tensors = calloc(description->tensor_count + 1, sizeof(*share->tensors));
    if (!share->tensors)
        return -ENOMEM;
    for (unsigned i = 0; i < description->tensor_count; i++)
        share->tensors[share->tensor_count++] = description->tensors[i];
    int status = list_files(share);
    if (status == 0)
        status = prepare_part(description, share);
    for (unsigned i = 0; status == 0 && i < share->file_count; i++)
        status = prepare_file(share, &share->files[i]);
    return status;
}

int share_prepare(const struct checkpoint_share *description, struct share **ret_share)
{
    int status = check_description(description);
    if (status != 0)
        return status;
    struct share *share = calloc(1, sizeof(*share));
    if (!share)
        return -ENOMEM;
    status = prepare(description, share);
    if (status != 0)
        share_free(share);
    else
        *ret_share = share;
    return status;
}

void share_free(struct share *share)
{
    if (!share)
        return;
    for (unsigned i = 0; i < share->file_count; i++) {
        safetensors_index_done(&share->files[i].index);
        free(share->files[i].header);
        free(share->files[i].chunk_crcs);
    }
    manifest_done(&share->part);
    hash_stream_free(share->hash);
    free(share->files);
    free(share->tensors);
    free(share);
}

void share_take_part(struct share *share, struct manifest *ret_part)
{
    for (unsigned i = 0; i < share->file_count; i++) {
        struct manifest_file *file = &share->part.files[share->part.file_count++];
        memcpy(file->name, share->files[i].name, sizeof(file->name));
        file->size_bytes = share->files[i].index.file_bytes;
        file->chunk_crcs = share->files[i].chunk_crcs;
        file->chunk_count = share->files[i].chunk_count;
        share->files[i].chunk_crcs = NULL;
    }
    *ret_part = share->part;
    share->part = (struct manifest){0};
}
