#include "ctl/job/job_data.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/file_list.h"
#include "ctl/view/format.h"

/* Language models gain next to nothing from more than some dozens of passes over their data. */
#define PASSES_MANY 50

#define HINT_TOKENS 64 /* fewer say nothing */
#define WIDE_VOCABS 16 /* no vocabulary has more than 65,536 times as many tokens */

#define LLMC_HEADER_BYTES 1024
#define WIDE_VOCAB        65536 /* above it llm.c's tokens have four bytes, below it two */

static uint64_t tokens_of(const struct job_data *data, const struct job_model *model,
                          uint64_t size_bytes)
{
    switch (data->format) {
    case JOB_FORMAT_BYTES:
        return size_bytes;
    case JOB_FORMAT_UINT16:
        return size_bytes / sizeof(uint16_t);
    case JOB_FORMAT_UINT32:
        return size_bytes / sizeof(uint32_t);
    case JOB_FORMAT_LLMC:
        break;
    }
    uint64_t token_bytes = model->vocab > WIDE_VOCAB ? sizeof(uint32_t) : sizeof(uint16_t);
    return size_bytes < LLMC_HEADER_BYTES ? 0 : (size_bytes - LLMC_HEADER_BYTES) / token_bytes;
}

/* As a data set is cut: a sample's last target is the first token of the next one. */
static uint64_t training_samples(const struct job_data *data, const struct job_model *model,
                                 uint64_t token_count)
{
    uint64_t count = token_count == 0 ? 0 : (token_count - 1) / model->context;

    if (data->validation_path[0] || data->validation_share == 0 || count < 2)
        return count;
    uint64_t held_out = (uint64_t)((double)count * data->validation_share);
    return count - MIN(MAX(held_out, (uint64_t)1), count - 1);
}

static uint64_t samples_per_step(const struct job_model *model, const struct job_training *training)
{
    return job_spec_tokens_per_step(model, training) / model->context;
}

bool job_data_look(const struct job_spec *spec, struct job_data_extent *ret_data)
{
    CLEANUP(file_list_done) struct file_list files = {0};
    const char *paths[JOB_PATHS_MAX];
    struct job_data_extent data = {0};

    for (unsigned i = 0; i < spec->data.path.count; i++)
        paths[i] = spec->data.path.paths[i];
    if (file_list_find("data.path", paths, spec->data.path.count, &files, NULL))
        return false;
    for (size_t i = 0; i < files.count; i++)
        data.token_count += tokens_of(&spec->data, &spec->model, files.files[i].size_bytes);
    data.sample_count = training_samples(&spec->data, &spec->model, data.token_count);
    if (data.sample_count > 0)
        data.passes = (double)spec->train.steps *
                      (double)samples_per_step(&spec->model, &spec->train) /
                      (double)data.sample_count;
    *ret_data = data;
    return true;
}

/* The upper halves of 32-bit tokens: next to always 0, beside lower halves that are anything. */
static bool looks_wide(const uint8_t *data, size_t size_bytes)
{
    size_t count = size_bytes / 4, low = 0;

    for (size_t i = 0; i < count; i++) {
        if (bytes_get_u32(data + 4 * i) >> 16 >= WIDE_VOCABS)
            return false;
        low += (bytes_get_u32(data + 4 * i) & 0xffff) >= WIDE_VOCABS;
    }
    return count >= HINT_TOKENS && low > count / 2;
}

bool job_data_hint(const struct job_data *data, char ret_words[JOB_DATA_WORDS_SIZE])
{
    CLEANUP(file_list_done) struct file_list files = {0};
    const char *paths[JOB_PATHS_MAX];
    uint8_t begin[4096];

    for (unsigned i = 0; i < data->path.count; i++)
        paths[i] = data->path.paths[i];
    if (data->format != JOB_FORMAT_UINT16 ||
        file_list_find("data.path", paths, data->path.count, &files, NULL) || files.count == 0)
        return false;
    FILE *file = fopen(files.files[0].path, "re");
    size_t size_bytes = file ? fread(begin, 1, sizeof(begin), file) : 0;
    if (file)
        fclose(file);
    if (!looks_wide(begin, size_bytes))
        return false;
    snprintf(ret_words, JOB_DATA_WORDS_SIZE,
             "every second uint16 of %.128s is 0 or nearly 0: should data.format be uint32?",
             files.files[0].path);
    return true;
}

const char *job_data_words(const struct job_model *model, const struct job_training *training,
                           const struct job_data_extent *data, char ret_words[JOB_DATA_WORDS_SIZE])
{
    char samples[FORMAT_SIZE], tokens[FORMAT_SIZE];

    if (data->sample_count == 0)
        snprintf(ret_words, JOB_DATA_WORDS_SIZE,
                 "%" PRIu64 " tokens, too few for one sample of %u (model.context) and one",
                 data->token_count, model->context);
    else
        snprintf(ret_words, JOB_DATA_WORDS_SIZE,
                 "%s samples to train on, of %s tokens: a step takes %" PRIu64 ", %" PRIu64
                 " steps go over them %.3g times",
                 format_count((double)data->sample_count, samples),
                 format_count((double)data->token_count, tokens), samples_per_step(model, training),
                 training->steps, data->passes);
    return ret_words;
}

bool job_data_is_little(const struct job_model *model, const struct job_training *training,
                        const struct job_data_extent *data)
{
    return data->sample_count < samples_per_step(model, training) || data->passes > PASSES_MANY;
}
