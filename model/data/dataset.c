/*
 * Samples: their tokens, the held-out samples, and the order of an epoch. model/data/token_row.h
 * stores the tokens; model/data/loss_mask.h decides which of them count.
 */
#include "model/data/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file_list.h"
#include "base/log.h"
#include "base/philox.h"
#include "model/data/data_digests.h"
#include "model/data/loss_mask.h"
#include "model/data/token_row.h"
#include "model/data/token_scan.h"
#include "model/net/streams.h"

/* The tokens of samples, and their mask. */
struct text {
    struct token_row tokens;
    struct loss_mask mask;
    uint64_t sample_count;
    struct file_list files;
};

struct dataset {
    struct text text;
    struct text validation_text;            /* empty unless validation has its own data */
    const struct text *validation;          /* source of the validation samples */
    uint64_t validation_first;              /* first validation sample in that text */
    uint64_t train_count, validation_count; /* samples */
    unsigned context, vocab;
    struct philox_key order_key;
    struct hash128 digest;
    bool was_known;
    char *digest_path; /* NULL: the digest is not kept */
};

static int check_options(const struct dataset_options *options, struct error *error)
{
    if (options->path_count == 0)
        return error_set(error, -EINVAL, "data.path: no path is given");
    if (!options->validation_path &&
        !(options->validation_share >= 0.0 && options->validation_share < 1.0))
        return error_set(error, -EINVAL, "data.validation: a share of %g: 0 <= share < 1 is needed",
                         options->validation_share);
    if (options->context == 0 || options->vocab == 0)
        return error_set(error, -EINVAL, "data: context and vocabulary must not be 0");
    return 0;
}

/* The files of a text and their keys in the job file. */
struct text_source {
    const char *key, *mask_key;
    const struct data_digests *memo;
    const char *const *paths, *const *mask_paths;
    unsigned path_count, mask_path_count;
};

/* Sample i needs tokens [iT, iT + T], its last target included. */
static int count_samples(const struct text_source *source, const struct token_row *row,
                         unsigned context, uint64_t *ret_count, struct error *error)
{
    *ret_count = row->count == 0 ? 0 : (row->count - 1) / context;
    if (*ret_count > 0)
        return 0;
    return error_set(error, -ENODATA,
                     "%s: %s: %llu tokens are too few: one sample needs %llu (model.context and "
                     "one)",
                     source->key, source->path_count == 1 ? source->paths[0] : "all together",
                     (unsigned long long)row->count, (unsigned long long)context + 1);
}

/* Return the place where a node keeps the counts of this text's mask; the caller frees the path. */
static struct mask_counts kept_counts(const struct data_digests *memo, const char *mask_key,
                                      unsigned context, uint64_t sample_count)
{
    char ending[64];

    snprintf(ending, sizeof(ending), ".%s.%u", mask_key, context);
    return (struct mask_counts){.path = data_digests_path(memo, ending),
                                .key = memo->key,
                                .context = context,
                                .sample_count = sample_count};
}

static int open_mask(const struct dataset_options *options, const struct text_source *source,
                     const struct file_list *files, struct text *text, struct error *error)
{
    const struct mask_counts kept =
        kept_counts(source->memo, source->mask_key, options->context, text->sample_count);
    const struct loss_mask_options mask_options = {.key = source->mask_key,
                                                   .paths = source->mask_paths,
                                                   .path_count = source->mask_path_count,
                                                   .files = files,
                                                   .row = &text->tokens,
                                                   .context = options->context,
                                                   .sample_count = text->sample_count,
                                                   .memory_max_bytes = dataset_memory_max(options),
                                                   .map_min_bytes = TOKEN_ROW_MAP_MIN,
                                                   .kept = source->memo->known ? &kept : NULL};
    int status = loss_mask_open(&mask_options, &text->mask, error);

    free(kept.path);
    return status;
}

static struct token_row_options row_options(const struct dataset_options *options,
                                            const struct file_list *files)
{
    return (struct token_row_options){.format = options->format,
                                      .files = files,
                                      .vocab = options->vocab,
                                      .memory_max_bytes = dataset_memory_max(options),
                                      .map_min_bytes = TOKEN_ROW_MAP_MIN,
                                      .check_later = true};
}

/* Open a text; after a failure the data set closes the opened parts. */
static int open_text(const struct dataset_options *options, const struct text_source *source,
                     struct text *text, struct error *error)
{
    int status =
        file_list_find(source->key, source->paths, source->path_count, &text->files, error);
    if (status < 0)
        return status;

    const struct token_row_options tokens = row_options(options, &text->files);
    status = token_row_open(&tokens, &text->tokens, error);
    if (status == 0)
        status = count_samples(source, &text->tokens, options->context, &text->sample_count, error);
    return status < 0 ? status : open_mask(options, source, &text->files, text, error);
}

static int open_texts(const struct dataset_options *options, const struct data_digests *memo,
                      struct dataset *dataset, struct error *error)
{
    const struct text_source source = {.key = "data.path",
                                       .mask_key = "data.mask",
                                       .memo = memo,
                                       .paths = options->paths,
                                       .path_count = options->path_count,
                                       .mask_paths = options->mask_paths,
                                       .mask_path_count = options->mask_path_count};
    const struct text_source validation = {.key = "data.validation",
                                           .mask_key = "data.validation_mask",
                                           .memo = memo,
                                           .paths = &options->validation_path,
                                           .path_count = 1,
                                           .mask_paths = &options->validation_mask_path,
                                           .mask_path_count =
                                               options->validation_mask_path != NULL};

    int status = open_text(options, &source, &dataset->text, error);
    if (status == 0 && options->validation_path)
        status = open_text(options, &validation, &dataset->validation_text, error);
    return status;
}

/* Return the number of held-out samples. A share above 0 gets at least one sample, and training
 * keeps at least one. */
static uint64_t held_out(uint64_t sample_count, double share)
{
    if (share == 0.0 || sample_count < 2)
        return 0;
    uint64_t count = (uint64_t)((double)sample_count * share);
    return MIN(MAX(count, (uint64_t)1), sample_count - 1);
}

static void split(struct dataset *dataset, const struct dataset_options *options)
{
    uint64_t sample_count = dataset->text.sample_count;

    if (options->validation_path) {
        dataset->train_count = sample_count;
        dataset->validation = &dataset->validation_text;
        dataset->validation_count = dataset->validation_text.sample_count;
        return;
    }
    dataset->validation_count = held_out(sample_count, options->validation_share);
    dataset->train_count = sample_count - dataset->validation_count;
    dataset->validation = &dataset->text;
    dataset->validation_first = dataset->train_count;
}

static int check_something_counts(const struct dataset *dataset, struct error *error)
{
    const struct loss_mask *mask = &dataset->text.mask;
    uint64_t sample = 0;

    while (loss_mask_is_given(mask) && sample < dataset->train_count &&
           loss_mask_count(mask, sample) == 0)
        sample++;
    if (sample < dataset->train_count)
        return 0;
    return error_set(error, -ENODATA,
                     "data.mask: no token of any training sample counts in the loss: all of its "
                     "bytes are 0 there");
}

static uint64_t unchecked_bytes(const struct token_row *row)
{
    return row->unchecked ? row->count * row->token_bytes : 0;
}

/* The counts separate the two rows: moving a token from one to the other gives another digest.
 * Tokens of mapped files are first checked here, so that they are read once. */
static int digest_texts(struct dataset *dataset, const struct dataset_options *options,
                        struct error *error)
{
    const struct text *texts[] = {&dataset->text, &dataset->validation_text};
    const uint64_t head[] = {(uint64_t)options->format, texts[0]->tokens.count,
                             texts[1]->tokens.count};
    struct token_scan_progress progress = {.listener = &options->listener};
    struct hash_stream *stream = hash_stream_new();
    int status = 0;

    if (!stream)
        return error_set(error, -ENOMEM, "data: no memory for the digest");
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        progress.total_bytes +=
            unchecked_bytes(&texts[i]->tokens) + unchecked_bytes(&texts[i]->mask.bytes);
    hash_stream_add(stream, head, sizeof(head));
    for (size_t i = 0; status == 0 && i < ARRAY_COUNT(texts); i++) {
        const struct token_row_options tokens = row_options(options, &texts[i]->files);
        status = token_scan_run(&texts[i]->tokens, &tokens, &progress, stream, error);
    }
    for (size_t i = 0; status == 0 && i < ARRAY_COUNT(texts); i++)
        status = loss_mask_scan(&texts[i]->mask, &progress, stream, error);
    dataset->digest = hash_stream_result(stream);
    hash_stream_free(stream);
    return status;
}

/* Learn the digest. Tokens are not checked against the vocabulary when another worker has checked
 * them. */
static int learn_digest(struct dataset *dataset, const struct dataset_options *options,
                        struct data_digests *memo, struct error *error)
{
    int status = 0;

    dataset->was_known = memo->known;
    if (memo->known)
        dataset->digest = memo->digest;
    else
        status = digest_texts(dataset, options, error);
    return status < 0 ? status : data_digests_end(memo, options, dataset->digest, error);
}

static void keep_counts(const struct data_digests *memo, const char *mask_key, unsigned context,
                        const struct text *text)
{
    struct error error = {0};

    if (!memo->known || !text->mask.counted || !text->mask.bytes.unchecked)
        return;
    const struct mask_counts kept = kept_counts(memo, mask_key, context, text->sample_count);
    if (kept.path && mask_counts_keep(&kept, text->mask.counts, &error) < 0)
        log_warning("every worker will add up %s for itself: %s", mask_key, error.text);
    if (kept.path)
        data_digests_limit(memo);
    free(kept.path);
}

static int fill(struct dataset *dataset, const struct dataset_options *options, struct error *error)
{
    CLEANUP(data_digests_done) struct data_digests memo;
    int status = data_digests_begin(options, &memo, error);
    if (status == 0)
        status = open_texts(options, &memo, dataset, error);
    if (status < 0)
        return status;
    dataset->digest_path = data_digests_path(&memo, "");
    split(dataset, options);
    status = check_something_counts(dataset, error);
    if (status == 0)
        status = learn_digest(dataset, options, &memo, error);
    if (status < 0) {
        if (error)
            data_digests_fail(&memo, options, error);
        return status;
    }
    keep_counts(&memo, "data.mask", options->context, &dataset->text);
    keep_counts(&memo, "data.validation_mask", options->context, &dataset->validation_text);
    return 0;
}

int dataset_open(const struct dataset_options *options, struct dataset **ret_dataset,
                 struct error *error)
{
    int status = check_options(options, error);
    if (status < 0)
        return status;
    struct dataset *dataset = calloc(1, sizeof(*dataset));
    if (!dataset)
        return error_set(error, -ENOMEM, "data: no memory");

    dataset->context = options->context;
    dataset->vocab = options->vocab;
    dataset->order_key = philox_key_make(options->seed, MODEL_STREAM_SHUFFLE);
    status = fill(dataset, options, error);
    if (status < 0) {
        dataset_close(dataset);
        return status;
    }
    *ret_dataset = dataset;
    return 0;
}

static void close_text(struct text *text)
{
    token_row_done(&text->tokens);
    loss_mask_done(&text->mask);
    file_list_done(&text->files);
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    close_text(&dataset->text);
    close_text(&dataset->validation_text);
    free(dataset->digest_path);
    free(dataset);
}

struct hash128 dataset_digest(const struct dataset *dataset)
{
    return dataset->digest;
}

bool dataset_was_known(const struct dataset *dataset)
{
    return dataset->was_known;
}

static void add_text_bytes(const struct text *text, uint64_t *copied, uint64_t *mapped)
{
    token_row_held_bytes(&text->tokens, copied, mapped);
    if (text->mask.bytes.count > 0)
        token_row_held_bytes(&text->mask.bytes, copied, mapped);
}

void dataset_held_bytes(const struct dataset *dataset, uint64_t *ret_copied, uint64_t *ret_mapped)
{
    *ret_copied = *ret_mapped = 0;
    add_text_bytes(&dataset->text, ret_copied, ret_mapped);
    add_text_bytes(&dataset->validation_text, ret_copied, ret_mapped);
}

uint64_t dataset_token_count(const struct dataset *dataset)
{
    return dataset->text.tokens.count + dataset->validation_text.tokens.count;
}

uint64_t dataset_train_count(const struct dataset *dataset)
{
    return dataset->train_count;
}

uint64_t dataset_validation_count(const struct dataset *dataset)
{
    return dataset->validation_count;
}

/* Return whether all tokens are in the vocabulary. A plain loop, which the compiler can vectorize.
 */
static bool all_below(const int32_t *tokens, size_t count, unsigned vocab)
{
    uint32_t largest = 0;

    for (size_t i = 0; i < count; i++)
        largest = (uint32_t)tokens[i] > largest ? (uint32_t)tokens[i] : largest;
    return largest < vocab;
}

/* Return the file that has the token at @position, and change @position to the position in that
 * file. */
static const char *find_file(const struct text *text, uint64_t *position)
{
    size_t file = 0;

    while (*position >= text->tokens.file_counts[file])
        *position -= text->tokens.file_counts[file++];
    return text->files.files[file].path;
}

/* Report that the content of a mapped file has changed since it was checked. */
static int report_rot(const struct dataset *dataset, const struct text *text, uint64_t first,
                      size_t count, struct error *error)
{
    int32_t token;
    uint64_t position = first;

    do {
        token_row_read(&text->tokens, position, 1, &token);
    } while ((uint32_t)token < dataset->vocab && ++position < first + count);
    if (dataset->digest_path)
        (void)unlink(dataset->digest_path);
    if (position == first + count)
        return error_set(error, -ERANGE,
                         "data: a token was outside the vocabulary (model.vocab %u) when it was "
                         "read, and is not when it is read again: check this node's memory and "
                         "disks, then firnctl node resume",
                         dataset->vocab);
    const char *path = find_file(text, &position);
    return error_set(error, -ERANGE,
                     "data: %s: token %u at position %llu is outside the vocabulary (model.vocab "
                     "%u), and was not when the file was checked: bring the file back as it was, "
                     "then firnctl node resume",
                     path, (uint32_t)token, (unsigned long long)position, dataset->vocab);
}

static int read_sample(const struct dataset *dataset, const struct text *text, uint64_t sample,
                       int32_t *ret_tokens, int32_t *ret_targets, struct error *error)
{
    unsigned context = dataset->context;

    token_row_read(&text->tokens, sample * context, context, ret_tokens);
    token_row_read(&text->tokens, sample * context + 1, context, ret_targets);
    if (!all_below(ret_tokens, context, dataset->vocab) ||
        !all_below(ret_targets, context, dataset->vocab))
        return report_rot(dataset, text, sample * context, context + 1, error);
    if (loss_mask_is_given(&text->mask))
        loss_mask_apply(&text->mask, sample * context + 1, context, ret_targets);
    return 0;
}

/* Each epoch has its own key, so its order needs neither memory nor the earlier epochs. */
static struct philox_key epoch_key(const struct dataset *dataset, uint64_t epoch)
{
    uint32_t words[4];
    philox_block(dataset->order_key, epoch, 0, words);
    return (struct philox_key){.word = {words[0], words[1]}};
}

/* Map the job's @position-th sample to a sample of the text. */
uint64_t dataset_train_sample(const struct dataset *dataset, uint64_t position)
{
    uint64_t epoch = position / dataset->train_count, index = position % dataset->train_count;

    return philox_permute(epoch_key(dataset, epoch), index, dataset->train_count);
}

int dataset_train_batch(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                        int32_t *ret_tokens, int32_t *ret_targets, struct error *error)
{
    int status = 0;

    for (unsigned i = 0; status == 0 && i < batch; i++) {
        size_t row = (size_t)i * dataset->context;
        status =
            read_sample(dataset, &dataset->text, dataset_train_sample(dataset, first_sample + i),
                        ret_tokens + row, ret_targets + row, error);
    }
    return status;
}

int dataset_validation_batch(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                             int32_t *ret_tokens, int32_t *ret_targets, struct error *error)
{
    int status = 0;

    assert(dataset->validation_count > 0);
    for (unsigned i = 0; status == 0 && i < batch; i++) {
        size_t row = (size_t)i * dataset->context;
        uint64_t sample = MIN(first_sample + i, dataset->validation_count - 1);
        status = read_sample(dataset, dataset->validation, dataset->validation_first + sample,
                             ret_tokens + row, ret_targets + row, error);
        for (unsigned k = 0; sample < first_sample + i && k < dataset->context; k++)
            ret_targets[row + k] = -1;
    }
    return status;
}

uint64_t dataset_train_counted(const struct dataset *dataset, uint64_t first_sample, uint64_t count)
{
    const struct loss_mask *mask = &dataset->text.mask;
    uint64_t counted = 0;

    if (!loss_mask_is_given(mask))
        return count * dataset->context;
    for (uint64_t i = 0; i < count; i++)
        counted += loss_mask_count(mask, dataset_train_sample(dataset, first_sample + i));
    return counted;
}

uint64_t dataset_validation_counted(const struct dataset *dataset, uint64_t first_sample,
                                    uint64_t count)
{
    const struct loss_mask *mask = &dataset->validation->mask;
    uint64_t counted = 0, after = MIN(first_sample + count, dataset->validation_count);

    if (first_sample >= after)
        return 0;
    if (!loss_mask_is_given(mask))
        return (after - first_sample) * dataset->context;
    for (uint64_t sample = first_sample; sample < after; sample++)
        counted += loss_mask_count(mask, dataset->validation_first + sample);
    return counted;
}
