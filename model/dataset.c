/*
 * Samples: which tokens each one is, which are held out, in which order an epoch visits the rest.
 * Where the tokens lie is model/token_row.h's concern.
 */
#include "model/dataset.h"

#include <errno.h>

#include "base/philox.h"
#include "model/streams.h"
#include "model/token_row.h"

struct dataset {
    struct token_row tokens;
    struct token_row validation_tokens;     /* empty unless validation has its own data */
    const struct token_row *validation;     /* the row that validation samples are read from */
    uint64_t validation_first;              /* its first sample there */
    uint64_t train_count, validation_count; /* samples */
    unsigned context;
    struct philox_key order_key;
    struct hash128 digest;
};

static int check_options(const struct dataset_options *options, struct error *error)
{
    if (options->path_count == 0)
        return error_set(error, -EINVAL, "data.path: no path is given");
    if (options->validation_path == NULL &&
        !(options->validation_share >= 0.0 && options->validation_share < 1.0))
        return error_set(error, -EINVAL, "data.validation: a share of %g: 0 <= share < 1 is needed",
                         options->validation_share);
    if (options->context == 0 || options->vocab == 0)
        return error_set(error, -EINVAL, "data: context and vocabulary must not be 0");
    return 0;
}

static int open_row(const struct dataset_options *options, const char *const *paths,
                    unsigned path_count, struct token_row *ret_row, struct error *error)
{
    const struct token_row_options row_options = {.format = options->format,
                                                  .paths = paths,
                                                  .path_count = path_count,
                                                  .vocab = options->vocab,
                                                  .memory_max_bytes = TOKEN_ROW_MEMORY_MAX,
                                                  .map_min_bytes = TOKEN_ROW_MAP_MIN};
    return token_row_open(&row_options, ret_row, error);
}

/* Sample i needs tokens [iT, iT + T], its last target included. */
static int count_samples(const struct token_row *row, unsigned context, const char *key,
                         const char *path, uint64_t *ret_count, struct error *error)
{
    *ret_count = row->count == 0 ? 0 : (row->count - 1) / context;
    if (*ret_count > 0)
        return 0;
    return error_set(error, -ENODATA,
                     "data.%s: %s: %llu tokens are too few: one sample needs %llu (model.context "
                     "and one)",
                     key, path, (unsigned long long)row->count, (unsigned long long)context + 1);
}

/* A share that is asked for gets at least one sample, and training keeps at least one. */
static uint64_t held_out(uint64_t sample_count, double share)
{
    if (share == 0.0 || sample_count < 2)
        return 0;
    uint64_t count = (uint64_t)((double)sample_count * share);
    return MIN(MAX(count, (uint64_t)1), sample_count - 1);
}

static int split(struct dataset *dataset, const struct dataset_options *options,
                 struct error *error)
{
    uint64_t sample_count;
    int r = count_samples(&dataset->tokens, options->context, "path",
                          options->path_count == 1 ? options->paths[0] : "all together",
                          &sample_count, error);
    if (r < 0)
        return r;

    if (options->validation_path != NULL) {
        dataset->train_count = sample_count;
        dataset->validation = &dataset->validation_tokens;
        return count_samples(&dataset->validation_tokens, options->context, "validation",
                             options->validation_path, &dataset->validation_count, error);
    }
    dataset->validation_count = held_out(sample_count, options->validation_share);
    dataset->train_count = sample_count - dataset->validation_count;
    dataset->validation = &dataset->tokens;
    dataset->validation_first = dataset->train_count;
    return 0;
}

/* The counts keep the two rows apart: moving a token from one to the other is other data. */
static int digest_rows(struct dataset *dataset, enum dataset_format format, struct error *error)
{
    const uint64_t head[] = {(uint64_t)format, dataset->tokens.count,
                             dataset->validation_tokens.count};
    struct hash_stream *stream = hash_stream_new();

    if (stream == NULL)
        return error_set(error, -ENOMEM, "data: no memory for the digest");
    hash_stream_add(stream, head, sizeof(head));
    token_row_hash(&dataset->tokens, stream);
    token_row_hash(&dataset->validation_tokens, stream);
    dataset->digest = hash_stream_result(stream);
    hash_stream_free(stream);
    return 0;
}

int dataset_open(const struct dataset_options *options, struct dataset **ret_dataset,
                 struct error *error)
{
    int r = check_options(options, error);
    if (r < 0)
        return r;
    struct dataset *dataset = calloc(1, sizeof(*dataset));
    if (dataset == NULL)
        return error_set(error, -ENOMEM, "data: no memory");

    dataset->context = options->context;
    dataset->order_key = philox_key_make(options->seed, MODEL_STREAM_SHUFFLE);
    r = open_row(options, options->paths, options->path_count, &dataset->tokens, error);
    if (r == 0 && options->validation_path != NULL)
        r = open_row(options, &options->validation_path, 1, &dataset->validation_tokens, error);
    if (r == 0)
        r = split(dataset, options, error);
    if (r == 0)
        r = digest_rows(dataset, options->format, error);
    if (r < 0) {
        dataset_close(dataset);
        return r;
    }
    *ret_dataset = dataset;
    return 0;
}

void dataset_close(struct dataset *dataset)
{
    if (dataset == NULL)
        return;
    token_row_done(&dataset->tokens);
    token_row_done(&dataset->validation_tokens);
    free(dataset);
}

struct hash128 dataset_digest(const struct dataset *dataset)
{
    return dataset->digest;
}

uint64_t dataset_token_count(const struct dataset *dataset)
{
    return dataset->tokens.count + dataset->validation_tokens.count;
}

uint64_t dataset_train_count(const struct dataset *dataset)
{
    return dataset->train_count;
}

uint64_t dataset_validation_count(const struct dataset *dataset)
{
    return dataset->validation_count;
}

static void read_sample(const struct token_row *row, uint64_t sample, unsigned context,
                        int32_t *ret_tokens, int32_t *ret_targets)
{
    token_row_read(row, sample * context, context, ret_tokens);
    token_row_read(row, sample * context + 1, context, ret_targets);
}

/* Each epoch has a key of its own, so its order needs neither memory nor the epochs before it. */
static struct philox_key epoch_key(const struct dataset *dataset, uint64_t epoch)
{
    uint32_t words[4];
    philox_block(dataset->order_key, epoch, 0, words);
    return (struct philox_key){.word = {words[0], words[1]}};
}

void dataset_train_batch(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                         int32_t *ret_tokens, int32_t *ret_targets)
{
    for (unsigned i = 0; i < batch; i++) {
        uint64_t epoch = (first_sample + i) / dataset->train_count;
        uint64_t index = (first_sample + i) % dataset->train_count;
        uint64_t sample = philox_permute(epoch_key(dataset, epoch), index, dataset->train_count);
        size_t row = (size_t)i * dataset->context;
        read_sample(&dataset->tokens, sample, dataset->context, ret_tokens + row,
                    ret_targets + row);
    }
}

void dataset_validation_batch(const struct dataset *dataset, uint64_t first_sample, unsigned batch,
                              int32_t *ret_tokens, int32_t *ret_targets)
{
    assert(dataset->validation_count > 0);
    for (unsigned i = 0; i < batch; i++) {
        uint64_t index = (first_sample + i) % dataset->validation_count;
        size_t row = (size_t)i * dataset->context;
        read_sample(dataset->validation, dataset->validation_first + index, dataset->context,
                    ret_tokens + row, ret_targets + row);
    }
}
