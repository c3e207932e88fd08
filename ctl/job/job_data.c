#include "ctl/job/job_data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file_list.h"
#include "ctl/view/format.h"

/* Language models gain almost nothing from more than some dozens of passes over their data. */
#define PASSES_MANY 50

#define HINT_TOKENS 64 /* fewer are no evidence */
#define WIDE_VOCABS 16 /* no vocabulary has more than 65,536 times as many tokens */

#define LLMC_HEADER_BYTES 1024
#define LLMC_MAGIC_UINT16 20240520
#define LLMC_MAGIC_UINT32 20240801
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

/* Count samples as a data set does: a sample's last target is the first token of the next one. */
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

/* Return whether the tokens look 32 bits wide: upper halves almost always 0, lower halves not. */
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

/* Return the first token in @data that is outside the vocabulary; @vocab: none. */
static uint32_t foreign_token(const uint8_t *data, size_t size_bytes, size_t token_bytes,
                              unsigned vocab)
{
    for (size_t at = 0; at + token_bytes <= size_bytes; at += token_bytes) {
        uint32_t token = token_bytes == sizeof(uint32_t)
                             ? bytes_get_u32(data + at)
                             : (uint32_t)data[at] | (uint32_t)data[at + 1] << 8;
        if (token >= vocab)
            return token;
    }
    return vocab;
}

static bool is_llmc(const uint8_t *data, size_t size_bytes)
{
    return size_bytes >= LLMC_HEADER_BYTES &&
           (bytes_get_u32(data) == LLMC_MAGIC_UINT16 || bytes_get_u32(data) == LLMC_MAGIC_UINT32);
}

/* Describe why the beginning of a file contradicts data.format. */
static bool looks_wrong(const struct job_spec *spec, const struct listed_file *file,
                        const uint8_t *begin, size_t size_bytes,
                        char ret_words[JOB_DATA_WORDS_SIZE])
{
    enum job_format format = spec->data.format;
    size_t token_bytes = format == JOB_FORMAT_UINT32 ? sizeof(uint32_t) : sizeof(uint16_t);
    unsigned vocab = spec->model.vocab;

    if (format == JOB_FORMAT_BYTES)
        return false;
    if (format == JOB_FORMAT_LLMC) {
        snprintf(ret_words, JOB_DATA_WORDS_SIZE,
                 "%.128s does not begin as files of llm.c do: is data.format right?", file->path);
        return !is_llmc(begin, size_bytes);
    }
    if (format == JOB_FORMAT_UINT16 && looks_wide(begin, size_bytes)) {
        snprintf(ret_words, JOB_DATA_WORDS_SIZE,
                 "every second uint16 of %.128s is 0 or nearly 0: should data.format be uint32?",
                 file->path);
        return true;
    }
    if (file->size_bytes % token_bytes) {
        snprintf(ret_words, JOB_DATA_WORDS_SIZE,
                 "%.128s has a size of %" PRIu64 " bytes, which are no whole number of uint%zu: is "
                 "data.format right?",
                 file->path, (uint64_t)file->size_bytes, 8 * token_bytes);
        return true;
    }
    uint32_t token = foreign_token(begin, size_bytes, token_bytes, vocab);
    snprintf(ret_words, JOB_DATA_WORDS_SIZE,
             "%.128s has token %" PRIu32
             ", which is outside the vocabulary of %u (model.vocab): is "
             "data.format right?",
             file->path, token, vocab);
    return token != vocab;
}

bool job_data_hint(const struct job_spec *spec, char ret_words[JOB_DATA_WORDS_SIZE])
{
    CLEANUP(file_list_done) struct file_list files = {0};
    const struct job_data *data = &spec->data;
    const char *paths[JOB_PATHS_MAX];
    uint8_t begin[4096];

    for (unsigned i = 0; i < data->path.count; i++)
        paths[i] = data->path.paths[i];
    if (file_list_find("data.path", paths, data->path.count, &files, NULL) || files.count == 0)
        return false;
    FILE *file = fopen(files.files[0].path, "re");
    if (!file)
        return false;
    size_t size_bytes = fread(begin, 1, sizeof(begin), file);
    fclose(file);
    return looks_wrong(spec, &files.files[0], begin, size_bytes, ret_words);
}

static void warn_missing_path(const char *path)
{
    char fixed[JOB_PATH_SIZE];
    size_t plain = strcspn(path, "*?[");

    snprintf(fixed, sizeof(fixed), "%.*s", (int)plain, path);
    char *slash = strrchr(fixed, '/');
    if (path[plain] && slash && slash != fixed)
        *slash = '\0'; /* the folder that a glob begins in */
    if (access(fixed, R_OK))
        fprintf(stderr, "firnctl: warning: %s: %s (here; that is fine if the nodes have it)\n",
                fixed, strerror(errno));
}

void job_data_warn_missing(const struct job_data *data)
{
    for (unsigned i = 0; i < data->path.count; i++)
        warn_missing_path(data->path.paths[i]);
    for (unsigned i = 0; i < data->mask.count; i++)
        warn_missing_path(data->mask.paths[i]);
    if (data->validation_path[0])
        warn_missing_path(data->validation_path);
    if (data->validation_mask[0])
        warn_missing_path(data->validation_mask);
}

const char *job_data_words(const struct job_model *model, const struct job_training *training,
                           const struct job_data_extent *data, char ret_words[JOB_DATA_WORDS_SIZE])
{
    char samples[FORMAT_SIZE], tokens[FORMAT_SIZE];

    if (data->sample_count == 0)
        snprintf(ret_words, JOB_DATA_WORDS_SIZE,
                 "%" PRIu64 " tokens, too few: one sample takes %u + 1 (model.context + 1)",
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
