#include "checkpoint/read/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/format/model_files.h"
#include "checkpoint/io/io_steps.h"
#include "checkpoint/read/reader_open.h"

#define MODEL_NAME    "model.safetensors"
#define CONFIG_NAME   "config.json"
#define CONFIG_MAX    ((size_t)1 << 20)
#define CONVERT_BYTES ((size_t)256 << 10) /* bytes per conversion and write */

struct exporting {
    const struct checkpoint_export *options;
    struct checkpoint_reader *reader;
    char part[FOLDER_PATH_SIZE]; /* the folder during the export */
    struct safetensors_index index;
    struct bytes header;
    uint64_t done_bytes;
    struct error *error;
};

uint16_t export_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffffu) > 0x7f800000u) /* rounding could carry a NaN into infinity */
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static int fail(struct exporting *exporting, int code, const char *action, const char *path)
{
    return error_set(exporting->error, code, "cannot %s %s: %s", action, path, strerror(-code));
}

/* Only the files' headers have shapes. An entry's user is the index of its tensor in the
 * manifest. */
static void take_entries(struct exporting *exporting, const struct safetensors_index *source)
{
    const struct manifest *manifest = checkpoint_manifest(exporting->reader);
    for (size_t i = 0; i < source->count; i++) {
        for (size_t k = 0; k < manifest->tensor_count; k++) {
            const struct manifest_tensor *tensor = &manifest->tensors[k];
            if (tensor->role != MANIFEST_PARAMETER ||
                strcmp(tensor->name, source->entries[i].name) != 0)
                continue;
            assert(exporting->index.count < manifest->tensor_count);
            struct safetensors_entry *entry = &exporting->index.entries[exporting->index.count++];
            *entry = source->entries[i];
            entry->dtype = exporting->options->dtype;
            entry->user = k;
        }
    }
}

static bool holds_parameters(const struct manifest *manifest, const char *file)
{
    for (size_t i = 0; i < manifest->tensor_count; i++) {
        if (manifest->tensors[i].role == MANIFEST_PARAMETER &&
            strcmp(manifest->tensors[i].file, file) == 0)
            return true;
    }
    return false;
}

static int collect_entries(struct exporting *exporting)
{
    const struct manifest *manifest = checkpoint_manifest(exporting->reader);
    exporting->index.entries =
        calloc(manifest->tensor_count + 1, sizeof(*exporting->index.entries));
    if (!exporting->index.entries)
        return error_set(exporting->error, -ENOMEM, "no memory to export a checkpoint");
    int status = 0;
    for (size_t i = 0; status == 0 && i < manifest->file_count; i++) {
        struct safetensors_index source;
        if (!holds_parameters(manifest, manifest->files[i].name))
            continue;
        status = reader_load_index(exporting->reader, &exporting->reader->files[i], &source,
                                   exporting->error);
        if (status == 0) {
            take_entries(exporting, &source);
            safetensors_index_done(&source);
        }
    }
    return status;
}

static int write_all(struct exporting *exporting, int descriptor, const void *data,
                     size_t size_bytes, const char *path)
{
    for (size_t done = 0; done < size_bytes;) {
        ssize_t n = write(descriptor, (const uint8_t *)data + done, size_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(exporting, n < 0 ? -errno : -EIO, "write", path);
        done += (size_t)n;
    }
    return 0;
}

static int write_converted(struct exporting *exporting, int descriptor, const float *values,
                           size_t count, const char *path)
{
    uint8_t piece[CONVERT_BYTES];
    for (size_t done = 0; done < count;) {
        size_t size = MIN(count - done, sizeof(piece) / 2);
        for (size_t i = 0; i < size; i++) {
            uint16_t half = export_bf16(values[done + i]);
            piece[2 * i] = (uint8_t)half;
            piece[2 * i + 1] = (uint8_t)(half >> 8);
        }
        int status = write_all(exporting, descriptor, piece, 2 * size, path);
        if (status != 0)
            return status;
        done += size;
    }
    return 0;
}

static int write_tensor(struct exporting *exporting, int descriptor,
                        const struct safetensors_entry *entry, const char *path)
{
    const struct manifest_tensor *tensor =
        &checkpoint_manifest(exporting->reader)->tensors[entry->user];
    size_t count = (size_t)(tensor->size_bytes / sizeof(float));
    AUTO_FREE float *values = malloc(tensor->size_bytes + 1);
    if (!values)
        return error_set(exporting->error, -ENOMEM, "no memory for tensor %s", tensor->name);
    int status = checkpoint_read(exporting->reader, tensor->name, MANIFEST_PARAMETER, values, count,
                                 exporting->error);
    if (status != 0)
        return status;
    return entry->dtype == SAFETENSORS_F32
               ? write_all(exporting, descriptor, values, tensor->size_bytes, path)
               : write_converted(exporting, descriptor, values, count, path);
}

static int write_tensors(struct exporting *exporting, int descriptor, const char *path)
{
    const struct checkpoint_export *options = exporting->options;
    int status = write_all(exporting, descriptor, exporting->header.data,
                           exporting->header.size_bytes, path);
    for (size_t i = 0; status == 0 && i < exporting->index.count; i++) {
        const struct safetensors_entry *entry = &exporting->index.entries[i];
        status = write_tensor(exporting, descriptor, entry, path);
        exporting->done_bytes += entry->size_bytes;
        if (status == 0 && options->progress)
            options->progress(options->context, exporting->done_bytes,
                              exporting->index.file_bytes - exporting->index.header_bytes);
    }
    return status;
}

static int write_model(struct exporting *exporting)
{
    char path[FOLDER_FILE_SIZE];
    int status = collect_entries(exporting);
    if (status != 0)
        return status;
    status = safetensors_layout(&exporting->index, &exporting->header);
    folder_file_path(exporting->part, MODEL_NAME, path);
    if (status != 0)
        return fail(exporting, status, "lay out", path);
    AUTO_CLOSE int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor < 0)
        return fail(exporting, -errno, "create", path);
    status = io_step_reserve(NULL, descriptor, exporting->index.file_bytes);
    if (status != 0)
        return fail(exporting, status, "reserve the space of", path);
    status = write_tensors(exporting, descriptor, path);
    if (status != 0)
        return status;
    return fsync(descriptor) == 0 ? 0 : fail(exporting, -errno, "sync", path);
}

/* Use the descriptor that is open already: the file's name may be gone. */
static int read_config(struct exporting *exporting, json_t **ret_tree)
{
    const struct reader_file *file = NULL;
    for (size_t i = 0; i < exporting->reader->file_count; i++) {
        if (strcmp(exporting->reader->files[i].entry->name, CONFIG_NAME) == 0)
            file = &exporting->reader->files[i];
    }
    if (!file || file->entry->size_bytes > MIN(CONFIG_MAX, MANIFEST_CHUNK_BYTES))
        return error_set(exporting->error, -EBADMSG, "%s has no %s of a sensible size",
                         exporting->options->from, CONFIG_NAME);
    size_t size = (size_t)file->entry->size_bytes;
    AUTO_FREE char *text = malloc(size + 1);
    if (!text)
        return error_set(exporting->error, -ENOMEM, "no memory for %s", file->path);
    int status = reader_take_file(exporting->reader, file, text, exporting->error);
    return status != 0 ? status : json_parse(text, size, file->path, ret_tree, exporting->error);
}

/* Earlier builds stored the path of model.from: keep its last part, the model's name. */
static int shorten_name(json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "_name_or_path"));
    const char *slash = name && name[0] == '/' ? strrchr(name, '/') : NULL;
    if (!slash)
        return 0;
    return json_object_set_new(config, "_name_or_path",
                               json_string(slash[1] != '\0' ? slash + 1 : "model"));
}

/* Write the checkpoint's own config.json with the exported dtype. */
static int write_config(struct exporting *exporting)
{
    char to[FOLDER_FILE_SIZE];
    AUTO_JSON json_t *tree = NULL;
    folder_file_path(exporting->part, CONFIG_NAME, to);
    int status = read_config(exporting, &tree);
    if (status != 0)
        return status;
    const char *dtype = exporting->options->dtype == SAFETENSORS_F32 ? "float32" : "bfloat16";
    if (json_object_set_new(tree, "torch_dtype", json_string(dtype)) != 0 ||
        shorten_name(tree) != 0)
        return fail(exporting, -ENOMEM, "encode", to);
    AUTO_FREE char *text = json_text_indented(tree);
    if (!text)
        return fail(exporting, -ENOMEM, "encode", to);
    return file_replace(to, text, strlen(text), 0644, exporting->error);
}

static int write_companion(struct exporting *exporting, const struct reader_file *file)
{
    char to[FOLDER_FILE_SIZE];
    size_t size = (size_t)file->entry->size_bytes;
    AUTO_FREE uint8_t *data = malloc(size + 1);
    folder_file_path(exporting->part, file->entry->name, to);
    if (!data)
        return fail(exporting, -ENOMEM, "copy", to);
    int status = reader_take_file(exporting->reader, file, data, exporting->error);
    return status == 0 ? file_replace(to, data, size, 0644, exporting->error) : status;
}

static int write_companions(struct exporting *exporting)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < exporting->reader->file_count; i++) {
        const struct reader_file *file = &exporting->reader->files[i];
        if (companion_name(file->entry->name) && file->entry->size_bytes <= COMPANION_BYTES_MAX)
            status = write_companion(exporting, file);
    }
    return status;
}

static int write_folder(struct exporting *exporting)
{
    int status = folder_remove(exporting->part, exporting->error); /* from an earlier attempt */
    if (status != 0)
        return status;
    if (mkdir(exporting->part, 0755) != 0)
        return fail(exporting, -errno, "make the folder", exporting->part);
    status = write_model(exporting);
    if (status == 0)
        status = write_config(exporting);
    if (status == 0)
        status = write_companions(exporting);
    if (status == 0)
        status = file_sync_directory(exporting->part, exporting->error);
    return status;
}

static int publish(struct exporting *exporting)
{
    char parent[FOLDER_PATH_SIZE + 3];
    const char *to = exporting->options->to;
    int status = io_step_rename(NULL, exporting->part, to);
    if (status != 0)
        return fail(exporting, status, "rename the finished folder to", to);
    const char *slash = strrchr(to, '/');
    snprintf(parent, sizeof(parent), "%.*s", !slash ? 1 : (int)MAX(slash - to, 1l),
             !slash ? "." : to);
    return file_sync_directory(parent, exporting->error);
}

static int check_options(const struct checkpoint_export *options, struct error *error)
{
    struct stat status;
    if (options->dtype != SAFETENSORS_F32 && options->dtype != SAFETENSORS_BF16)
        return error_set(error, -EINVAL, "a model is exported as F32 or BF16, not %s",
                         safetensors_dtype_name(options->dtype));
    if (strlen(options->to) > CHECKPOINT_FOLDER_MAX ||
        strlen(options->from) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "a folder's path is longer than %u bytes: %.40s...",
                         CHECKPOINT_FOLDER_MAX,
                         strlen(options->to) > CHECKPOINT_FOLDER_MAX ? options->to : options->from);
    if (lstat(options->to, &status) == 0)
        return error_set(error, -EEXIST, "%s is there already: name another folder, or remove it",
                         options->to);
    return 0;
}

int checkpoint_export(const struct checkpoint_export *export, struct error *error)
{
    struct exporting exporting = {.options = export, .error = error};
    int status = check_options(export, error);
    if (status != 0)
        return status;
    snprintf(exporting.part, sizeof(exporting.part), "%s.part", export->to);
    status = export->source ? checkpoint_open_copies(export->source, &exporting.reader, error)
                            : checkpoint_open(export->from, &exporting.reader, error);
    if (status != 0)
        return status;
    status = write_folder(&exporting);
    if (status == 0)
        status = publish(&exporting);
    if (status != 0) {
        int ignored = folder_remove(exporting.part, NULL);
        (void)ignored;
    }
    safetensors_index_done(&exporting.index);
    bytes_done(&exporting.header);
    checkpoint_close(exporting.reader);
    return status;
}
