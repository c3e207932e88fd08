#include "checkpoint/read/model_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/read/model_index.h"

#define CONFIG_NAME  "config.json"
#define INDEX_NAME   "model.safetensors.index.json"
#define WHOLE_NAME   "model.safetensors"
#define PICKLED_NAME "pytorch_model.bin"
#define CONFIG_MAX   ((size_t)1 << 20)
#define INDEX_MAX    ((size_t)64 << 20)
#define PATH_BYTES   4096
#define READ_BYTES   ((size_t)1 << 20) /* bytes per conversion */

struct model_file {
    char path[PATH_BYTES];
    int descriptor;
    struct safetensors_index index;
};

struct model_folder {
    const char *folder; /* borrowed while opening */
    struct model_file *files;
    size_t file_count;
};

static int path_of(const char *folder, const char *name, char ret_path[PATH_BYTES],
                   struct error *error)
{
    if (snprintf(ret_path, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES)
        return error_set(error, -ENAMETOOLONG, "%s/%s: the path is too long", folder, name);
    return 0;
}

static int read_text(const char *folder, const char *name, size_t size_max, struct bytes *ret_text,
                     char ret_path[PATH_BYTES], struct error *error)
{
    int status = path_of(folder, name, ret_path, error);

    return status < 0 ? status : file_read(ret_path, size_max, ret_text, error);
}

int model_folder_config(const char *folder, json_t **ret_config, struct error *error)
{
    char path[PATH_BYTES];
    CLEANUP(bytes_done) struct bytes text = {0};
    int status = read_text(folder, CONFIG_NAME, CONFIG_MAX, &text, path, error);

    return status < 0
               ? status
               : json_parse((const char *)text.data, text.size_bytes, path, ret_config, error);
}

static int add_file(struct model_folder *model, const char *name, struct error *error)
{
    struct model_file *files =
        realloc(model->files, (model->file_count + 1) * sizeof(*model->files));
    if (!files)
        return error_set(error, -ENOMEM, "no memory for the files of %s", model->folder);
    model->files = files;
    struct model_file *file = &files[model->file_count];
    *file = (struct model_file){.descriptor = -1};
    int status = path_of(model->folder, name, file->path, error);
    if (status == 0)
        status = safetensors_open(file->path, &file->index, error);
    if (status < 0)
        return status;
    model->file_count++;
    file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC);
    return file->descriptor < 0 ? error_set(error, -errno, "%s: %s", file->path, strerror(errno))
                                : 0;
}

/* Add the only file of weights of a model without an index. */
static int add_only_file(struct model_folder *model, struct error *error)
{
    char path[PATH_BYTES];
    struct error ignored;
    int status = add_file(model, WHOLE_NAME, error);

    if (status == -ENOENT && path_of(model->folder, PICKLED_NAME, path, &ignored) == 0 &&
        access(path, F_OK) == 0)
        return error_set(error, status,
                         "%s: firn reads safetensors alone: load the model with transformers and "
                         "save_pretrained() it, which writes " WHOLE_NAME,
                         path);
    return status;
}

static int add_indexed_files(struct model_folder *model, struct error *error)
{
    char path[PATH_BYTES];
    CLEANUP(bytes_done) struct bytes text = {0};
    CLEANUP(model_index_done) struct model_index index = {0};
    int status = read_text(model->folder, INDEX_NAME, INDEX_MAX, &text, path, error);

    if (status == 0)
        status = model_index_parse((const char *)text.data, text.size_bytes, path, &index, error);
    for (size_t i = 0; status == 0 && i < index.file_count; i++)
        status = add_file(model, index.files[i], error);
    return status;
}

int model_folder_open(const char *folder, struct model_folder **ret_model, struct error *error)
{
    char path[PATH_BYTES];
    struct model_folder *model = calloc(1, sizeof(*model));
    if (!model)
        return error_set(error, -ENOMEM, "no memory for a model's folder");
    model->folder = folder;
    int status = path_of(folder, INDEX_NAME, path, error);
    if (status == 0)
        status =
            access(path, F_OK) == 0 ? add_indexed_files(model, error) : add_only_file(model, error);
    model->folder = NULL;
    if (status < 0)
        model_folder_close(model);
    else
        *ret_model = model;
    return status;
}

/* Read the headers of the files that the index names, or of the only file. */
static int look_at_files(struct model_folder *model, struct model_index *index,
                         void (*problem)(void *context, const struct error *error), void *context)
{
    static const char *const whole[] = {WHOLE_NAME};
    size_t count = index ? index->file_count : 1;
    int problems = 0;

    for (size_t i = 0; i < count; i++) {
        struct error error = {0};
        int status = add_file(model, index ? index->files[i] : whole[i], &error);
        if (status == -ENOMEM)
            return status;
        if (status < 0) {
            problem(context, &error);
            problems++;
        }
    }
    return problems;
}

int model_folder_look(const char *folder, void (*problem)(void *context, const struct error *error),
                      void *context)
{
    char path[PATH_BYTES];
    struct model_folder *model = calloc(1, sizeof(*model));
    CLEANUP(bytes_done) struct bytes text = {0};
    CLEANUP(model_index_done) struct model_index index = {0};
    struct error error = {0};
    bool indexed = false;
    int status = model ? path_of(folder, INDEX_NAME, path, &error) : -ENOMEM;

    if (status == 0) {
        model->folder = folder;
        indexed = access(path, F_OK) == 0;
    }
    if (status == 0 && indexed)
        status = read_text(folder, INDEX_NAME, INDEX_MAX, &text, path, &error);
    if (status == 0 && indexed)
        status = model_index_parse((const char *)text.data, text.size_bytes, path, &index, &error);
    if (status == 0) {
        status = look_at_files(model, indexed ? &index : NULL, problem, context);
    } else if (status != -ENOMEM) {
        problem(context, &error);
        status = 1;
    }
    model_folder_close(model);
    return status;
}

void model_folder_close(struct model_folder *model)
{
    if (!model)
        return;
    for (size_t i = 0; i < model->file_count; i++) {
        safetensors_index_done(&model->files[i].index);
        if (model->files[i].descriptor >= 0)
            close(model->files[i].descriptor);
    }
    free(model->files);
    free(model);
}

static const struct safetensors_entry *find(const struct model_folder *model, const char *name,
                                            const struct model_file **ret_file)
{
    for (size_t i = 0; i < model->file_count; i++)
        for (size_t k = 0; k < model->files[i].index.count; k++)
            if (strcmp(model->files[i].index.entries[k].name, name) == 0) {
                *ret_file = &model->files[i];
                return &model->files[i].index.entries[k];
            }
    return NULL;
}

bool model_folder_has(const struct model_folder *model, const char *name)
{
    const struct model_file *file;
    return find(model, name, &file);
}

/* Widen an IEEE half: one bit of sign, five of exponent, ten of fraction. */
static float half_value(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu;
    uint32_t fraction = half & 0x3ffu, bits;
    float value;

    if (exponent == 0) { /* zero, or a subnormal: the fraction times 2^-24 */
        value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    exponent = exponent == 0x1fu ? 0xffu : exponent + 127 - 15;
    bits = sign | exponent << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float bfloat_value(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void widen(enum safetensors_dtype dtype, const unsigned char *raw, size_t count,
                  float *ret_values)
{
    if (dtype == SAFETENSORS_F32) {
        memcpy(ret_values, raw, count * sizeof(float));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, raw + i * sizeof(bits), sizeof(bits));
        ret_values[i] = dtype == SAFETENSORS_BF16 ? bfloat_value(bits) : half_value(bits);
    }
}

static int read_values(const struct model_file *file, const struct safetensors_entry *entry,
                       float *ret_values, struct error *error)
{
    size_t element = safetensors_dtype_bytes(entry->dtype);
    AUTO_FREE unsigned char *raw = malloc(READ_BYTES);

    if (!raw)
        return error_set(error, -ENOMEM, "no memory to read %s", file->path);
    for (uint64_t done = 0; done < entry->size_bytes;) {
        size_t wanted = (size_t)MIN((uint64_t)READ_BYTES, entry->size_bytes - done), got = 0;
        while (got < wanted) {
            ssize_t n = pread(file->descriptor, raw + got, wanted - got,
                              (off_t)(entry->offset + done + got));
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return error_set(error, n < 0 ? -errno : -EIO, "%s: reading tensor %s: %s",
                                 file->path, entry->name, n < 0 ? strerror(errno) : "cut off");
            got += (size_t)n;
        }
        widen(entry->dtype, raw, wanted / element, ret_values + done / element);
        done += wanted;
    }
    return 0;
}

static bool has_shape(const struct safetensors_entry *entry, const size_t *shape, unsigned rank)
{
    return entry->rank == rank && memcmp(entry->shape, shape, rank * sizeof(*shape)) == 0;
}

static void shape_text(const size_t *shape, unsigned rank, char *ret_text, size_t size)
{
    size_t used = 0;
    ret_text[0] = '\0';
    for (unsigned i = 0; i < rank && used < size; i++)
        used +=
            (size_t)snprintf(ret_text + used, size - used, "%s%zu", i == 0 ? "" : " x ", shape[i]);
}

static int find_fitting(const struct model_folder *model, const char *name, const size_t *shape,
                        unsigned rank, const struct model_file **ret_file,
                        const struct safetensors_entry **ret_entry, struct error *error)
{
    const struct model_file *file;
    const struct safetensors_entry *entry = find(model, name, &file);
    char found[256], wanted[256];

    if (!entry)
        return error_set(error, -ENOENT, "there is no tensor %s", name);
    if (!has_shape(entry, shape, rank)) {
        shape_text(entry->shape, entry->rank, found, sizeof(found));
        shape_text(shape, rank, wanted, sizeof(wanted));
        return error_set(error, -EINVAL, "%s: tensor %s is %s; the job's model needs %s",
                         file->path, name, found, wanted);
    }
    if (entry->dtype != SAFETENSORS_F32 && entry->dtype != SAFETENSORS_F16 &&
        entry->dtype != SAFETENSORS_BF16)
        return error_set(error, -EINVAL,
                         "%s: tensor %s is of type %s; F32, F16 and BF16 can be read", file->path,
                         name, safetensors_dtype_name(entry->dtype));
    *ret_file = file;
    *ret_entry = entry;
    return 0;
}

int model_folder_check(const struct model_folder *model, const char *name, const size_t *shape,
                       unsigned rank, struct error *error)
{
    const struct model_file *file;
    const struct safetensors_entry *entry;
    return find_fitting(model, name, shape, rank, &file, &entry, error);
}

int model_folder_read(struct model_folder *model, const char *name, const size_t *shape,
                      unsigned rank, float *ret_values, struct error *error)
{
    const struct model_file *file;
    const struct safetensors_entry *entry;
    int status = find_fitting(model, name, shape, rank, &file, &entry, error);

    return status < 0 ? status : read_values(file, entry, ret_values, error);
}
