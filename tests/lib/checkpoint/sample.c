#include "lib/checkpoint/sample.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

unsigned sample_frozen;

static int sample_remove_entry(const char *path, const struct stat *status, int kind,
                               struct FTW *position)
{
    (void)status;
    (void)kind;
    (void)position;
    return remove(path);
}

void sample_remove(const char *path)
{
    nftw(path, sample_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void sample_folder(char ret_path[64])
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(ret_path, 64, "%s/firn-checkpoint-XXXXXX", base);
    assert(mkdtemp(ret_path));
}

float sample_value(uint64_t seed, unsigned tensor, size_t i)
{
    uint64_t mixed = (seed * 1000003 + tensor) * 1000003 + i;
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9u;
    return (float)(mixed >> 40) / 16777216.0f - 0.5f;
}

void sample_init(struct sample *sample, uint64_t seed)
{
    static const struct {
        unsigned rank;
        size_t shape[4];
    } shapes[SAMPLE_SHAPES] = {
        {2, {64, 32}}, {1, {33}}, {1, {1024}}, {2, {7, 5}}, {0, {0}}, {2, {0, 4}}, {2, {90, 50}},
    };
    memset(sample, 0, sizeof(*sample));
    for (unsigned number = 0; number < SAMPLE_TENSORS; number++) {
        unsigned shape = number / 3, i = sample->count;
        struct checkpoint_tensor *tensor = &sample->tensors[i];
        bool frozen = shape < sample_frozen;
        if (frozen && number % 3 != MANIFEST_PARAMETER)
            continue;
        snprintf(tensor->name, sizeof(tensor->name), "unit.%u.weight", shape);
        tensor->role = (enum manifest_role)(number % 3);
        tensor->order = sample->count++;
        tensor->frozen = frozen;
        tensor->unit = shape;
        tensor->rank = shapes[shape].rank;
        memcpy(tensor->shape, shapes[shape].shape, sizeof(tensor->shape));
        tensor->count = 1;
        for (unsigned k = 0; k < tensor->rank; k++)
            tensor->count *= tensor->shape[k];
        sample->values[i] = malloc((tensor->count + 1) * sizeof(float));
        for (size_t k = 0; k < tensor->count; k++)
            sample->values[i][k] = sample_value(frozen ? 0 : seed, number, k);
        tensor->data = sample->values[i];
    }
}

void sample_done(struct sample *sample)
{
    for (unsigned i = 0; i < sample->count; i++)
        free(sample->values[i]);
}

struct checkpoint_share sample_share(const struct sample *sample, const char *folder, uint64_t step,
                                     unsigned rank, unsigned world,
                                     struct checkpoint_tensor *tensors)
{
    struct checkpoint_share share = {.job = "sample",
                                     .step = step,
                                     .generation = 1,
                                     .rank = rank,
                                     .world = world,
                                     .tensors = tensors};
    snprintf(share.folder, sizeof(share.folder), "%s", folder);
    for (unsigned i = 0; i < sample->count; i++) {
        if (sample->tensors[i].unit % world == rank)
            tensors[share.tensor_count++] = sample->tensors[i];
    }
    return share;
}

int sample_commit(const struct io *io, const char *folder, unsigned tensor_count,
                  struct manifest *manifest, struct error *error)
{
    char path[1024], sha256[65];
    manifest->spec = json_pack("{s:s, s:i}", "name", "sample", "layers", 3);
    manifest->state = json_pack("{s:{s:i, s:s}}", "freeze", "frozen_layers", 1, "squares", "00ff");
    json_t *config = json_pack("{s:s}", "model_type", "gpt2");
    int status = manifest_seal(manifest, tensor_count, error);
    if (status == 0)
        status = folder_commit(io, folder, manifest, config, path, sha256, error);
    json_decref(config);
    return status;
}

int sample_save_values(struct checkpoint_writer *writer, const struct io *io, const char *folder,
                       uint64_t step, unsigned world, const struct sample *sample,
                       struct error *error)
{
    struct manifest manifest = {0};
    int status = 0;
    for (unsigned rank = 0; status == 0 && rank < world; rank++) {
        struct checkpoint_tensor tensors[SAMPLE_TENSORS];
        struct manifest part = {0};
        struct checkpoint_share share = sample_share(sample, folder, step, rank, world, tensors);
        status = checkpoint_writer_begin(writer, &share);
        assert(status == 0);
        checkpoint_writer_release_wait(writer);
        status = checkpoint_writer_wait(writer, UINT64_MAX / 2, &part, error);
        if (status == 1) {
            status = manifest_merge(&manifest, &part, error);
            manifest_done(&part);
        }
    }
    if (status == 0)
        status = sample_commit(io, folder, sample->count, &manifest, error);
    manifest_done(&manifest);
    return status;
}

int sample_save(struct checkpoint_writer *writer, const struct io *io, const char *folder,
                uint64_t step, unsigned world, struct error *error)
{
    struct sample sample;
    sample_init(&sample, step);
    int status = sample_save_values(writer, io, folder, step, world, &sample, error);
    sample_done(&sample);
    return status;
}

struct checkpoint_writer *sample_writer(const struct io *io, size_t block_bytes)
{
    struct checkpoint_writer_options options = {
        .io = io, .arena_bytes = CHECKPOINT_ARENA_MIN, .block_bytes = block_bytes};
    struct checkpoint_writer *writer = NULL;
    struct error error = {0};
    int status = checkpoint_writer_start(&options, &writer, &error);
    if (status != 0)
        fprintf(stderr, "%s\n", error.text);
    assert(status == 0);
    return writer;
}

void sample_write(const char *folder, uint64_t step, unsigned world)
{
    const char *why;
    const struct io *io = io_probe(&why);
    struct error error = {0};
    struct checkpoint_writer *writer = sample_writer(io, 0);
    int status = sample_save(writer, io, folder, step, world, &error);
    if (status != 0)
        fprintf(stderr, "%s\n", error.text);
    assert(status == 0);
    checkpoint_writer_stop(writer);
}

void sample_manifest_sha256(const char *path, char ret_sha256[65])
{
    char name[FOLDER_FILE_SIZE];
    struct bytes text = {0};
    struct error error = {0};
    folder_file_path(path, MANIFEST_NAME, name);
    int status = file_read(name, MANIFEST_BYTES_MAX, &text, &error);
    if (status != 0)
        fprintf(stderr, "%s\n", error.text);
    assert(status == 0);
    manifest_sha256(text.data, text.size_bytes, ret_sha256);
    bytes_done(&text);
}

void sample_make_metrics(const char *path)
{
    struct manifest manifest;
    struct bytes text = {0};
    struct error error = {0};
    char file[1300], other[1300];
    int status = manifest_load(path, NULL, &manifest, &error);
    assert(status == 0);
    for (size_t i = 0; i < manifest.file_count; i++)
        if (strcmp(manifest.files[i].name, "config.json") == 0)
            strcpy(manifest.files[i].name, SAMPLE_METRICS);
    status = manifest_text(&manifest, &text);
    manifest_done(&manifest);
    snprintf(file, sizeof(file), "%s/" MANIFEST_NAME, path);
    status |= file_replace(file, text.data, text.size_bytes, 0644, &error);
    snprintf(file, sizeof(file), "%s/config.json", path);
    snprintf(other, sizeof(other), "%s/" SAMPLE_METRICS, path);
    status |= rename(file, other);
    assert(status == 0);
    bytes_done(&text);
}

int sample_compare(struct checkpoint_reader *reader, uint64_t step, struct error *error)
{
    struct sample sample;
    int status = 0;
    sample_init(&sample, step);
    for (unsigned i = 0; status == 0 && i < sample.count; i++) {
        const struct checkpoint_tensor *tensor = &sample.tensors[i];
        AUTO_FREE float *values = malloc((tensor->count + 1) * sizeof(float));
        status = checkpoint_read(reader, tensor->name, tensor->role, values, tensor->count, error);
        if (status == 0 && memcmp(values, tensor->data, tensor->count * sizeof(float)) != 0)
            status = error_set(error, -ERANGE, "tensor %s has other values", tensor->name);
    }
    sample_done(&sample);
    return status;
}

int sample_check(const char *folder, uint64_t step, struct error *error)
{
    char path[1024];
    struct checkpoint_reader *reader;
    checkpoint_path(folder, step, path);
    int status = checkpoint_open(path, &reader, error);
    if (status != 0)
        return status;
    status = checkpoint_verify(reader, NULL, NULL, error);
    if (status == 0)
        status = sample_compare(reader, step, error);
    if (status == 0 && checkpoint_manifest(reader)->step != step)
        status = error_set(error, -ERANGE, "the manifest is of another step");
    checkpoint_close(reader);
    return status;
}
