#include "model/data/loss_mask.h"

#include <errno.h>
#include <string.h>

static int no_memory(const struct loss_mask_options *options, struct error *error)
{
    return error_set(error, -ENOMEM, "%s: no memory", options->key);
}

/* Refuse masks among the tokens: a folder with masks beside tokens gives both as tokens. Both lists
 * are sorted. */
static int check_apart(const struct loss_mask_options *options, const struct file_list *masks,
                       struct error *error)
{
    size_t i = 0, j = 0;

    while (i < masks->count && j < options->files->count) {
        int order = strcmp(masks->files[i].path, options->files->files[j].path);
        if (order == 0)
            return error_set(error, -EINVAL,
                             "%s: %s is also among the files of tokens: name those by a glob that "
                             "leaves masks out",
                             options->key, masks->files[i].path);
        i += order < 0;
        j += order > 0;
    }
    return 0;
}

/* Compare the sizes file by file: two mistakes that cancel out would shift the mask in between. */
static int check_sizes(const struct loss_mask_options *options, const struct file_list *masks,
                       struct error *error)
{
    const struct token_row *row = options->row;

    if (masks->count != row->file_count)
        return error_set(error, -EINVAL,
                         "%s: %zu files for %zu files of tokens: each needs one, in the same order "
                         "of names",
                         options->key, masks->count, row->file_count);
    for (size_t i = 0; i < masks->count; i++)
        if (masks->files[i].size_bytes != row->file_counts[i])
            return error_set(
                error, -EINVAL,
                "%s: %s has %llu bytes for the %llu tokens of %s: one for each is "
                "needed, without a header",
                options->key, masks->files[i].path, (unsigned long long)masks->files[i].size_bytes,
                (unsigned long long)row->file_counts[i], options->files->files[i].path);
    return 0;
}

/* Sum a span. A plain loop, which the compiler can vectorize. */
static uint64_t sum_span(const uint8_t *bytes, uint64_t count, uint8_t *all)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        sum += bytes[i];
        *all |= bytes[i];
    }
    return sum;
}

/* Sum the bytes [first, first + count). @all: or-ed with every byte */
static uint64_t sum_bytes(const struct token_row *row, uint64_t first, uint64_t count, uint8_t *all)
{
    uint64_t sum = 0, here;

    for (uint64_t end = first + count; first < end; first += here) {
        const uint8_t *bytes = token_row_span(row, first, &here);
        here = MIN(here, end - first);
        sum += sum_span(bytes, here, all);
    }
    return sum;
}

static int check_file(const struct loss_mask *mask, const struct listed_file *file, uint64_t first,
                      struct error *error)
{
    const struct token_row *bytes = &mask->bytes;
    uint8_t all = 0;
    uint64_t position = 0, here;

    sum_bytes(bytes, first, file->size_bytes, &all);
    if (all <= 1)
        return 0;
    while (*(const uint8_t *)token_row_span(bytes, first + position, &here) <= 1)
        position++;
    return error_set(error, -EINVAL, "%s: %s: byte %u at position %llu: 0 or 1 is needed",
                     mask->key, file->path,
                     *(const uint8_t *)token_row_span(bytes, first + position, &here),
                     (unsigned long long)position);
}

static int check_bytes(const struct loss_mask *mask, struct error *error)
{
    uint64_t first = 0;
    int status = 0;

    for (size_t i = 0; status == 0 && i < mask->files.count;
         first += mask->files.files[i++].size_bytes)
        status = check_file(mask, &mask->files.files[i], first, error);
    return status;
}

static int count_samples(const struct loss_mask_options *options, struct loss_mask *mask,
                         struct error *error)
{
    uint8_t all = 0;

    mask->counts = calloc((size_t)MAX(options->sample_count, (uint64_t)1), sizeof(*mask->counts));
    if (!mask->counts)
        return no_memory(options, error);
    if (options->kept && mask_counts_load(options->kept, mask->counts))
        return 0;
    mask->counted = true;
    for (uint64_t i = 0; i < options->sample_count; i++)
        mask->counts[i] =
            (uint32_t)sum_bytes(&mask->bytes, i * options->context + 1, options->context, &all);
    return 0;
}

static int read_masks(const struct loss_mask_options *options, struct loss_mask *mask,
                      struct error *error)
{
    const struct token_row_options row_options = {.format = DATASET_BYTES,
                                                  .files = &mask->files,
                                                  .vocab = UINT8_MAX + 1,
                                                  .memory_max_bytes = options->memory_max_bytes,
                                                  .map_min_bytes = options->map_min_bytes,
                                                  .check_later = true};
    int status = check_apart(options, &mask->files, error);
    if (status == 0)
        status = check_sizes(options, &mask->files, error);
    if (status == 0)
        status = token_row_open(&row_options, &mask->bytes, error);
    if (status == 0 && !mask->bytes.unchecked)
        status = check_bytes(mask, error);
    return status < 0 ? status : count_samples(options, mask, error);
}

int loss_mask_open(const struct loss_mask_options *options, struct loss_mask *ret_mask,
                   struct error *error)
{
    struct loss_mask mask = {.key = options->key};

    if (options->path_count == 0) {
        *ret_mask = mask;
        return 0;
    }
    int status =
        file_list_find(options->key, options->paths, options->path_count, &mask.files, error);
    if (status < 0)
        return status;
    status = read_masks(options, &mask, error);
    if (status < 0) {
        loss_mask_done(&mask);
        return status;
    }
    *ret_mask = mask;
    return 0;
}

void loss_mask_done(struct loss_mask *mask)
{
    token_row_done(&mask->bytes);
    file_list_done(&mask->files);
    free(mask->counts);
    *mask = (struct loss_mask){0};
}

int loss_mask_scan(const struct loss_mask *mask, struct token_scan_progress *progress,
                   struct hash_stream *stream, struct error *error)
{
    const struct token_row_options options = {
        .format = DATASET_BYTES, .files = &mask->files, .vocab = 2};
    struct error scan_error = {0};
    int status = token_scan_run(&mask->bytes, &options, progress, stream, &scan_error);
    if (status == 0)
        return 0;
    int found = status == -ERANGE ? check_bytes(mask, error) : 0; /* with a message of its own */
    if (found == 0 && error)
        *error = scan_error;
    return found < 0 ? found : status;
}

bool loss_mask_is_given(const struct loss_mask *mask)
{
    return mask->counts;
}

unsigned loss_mask_count(const struct loss_mask *mask, uint64_t sample)
{
    return mask->counts[sample];
}

void loss_mask_apply(const struct loss_mask *mask, uint64_t first, size_t count, int32_t *targets)
{
    uint64_t here;

    for (size_t done = 0; done < count; done += (size_t)here) {
        const uint8_t *bytes = token_row_span(&mask->bytes, first + done, &here);
        here = MIN(here, (uint64_t)(count - done));
        for (size_t i = 0; i < here; i++)
            if (bytes[i] == 0)
                targets[done + i] = LOSS_MASK_IGNORED;
    }
}
