#include "daemon/http/checkpoint_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/format/folder.h"

static bool proves(const char *key_text, const struct checkpoint_range *range, const char *proof,
                   uint8_t ret_key[CHECKPOINT_KEY_SIZE])
{
    return key_text && plan_key_bytes(key_text, ret_key) &&
           checkpoint_proof_valid(ret_key, range, proof);
}

/* Split FOLDER/FILE. */
static int split(const char *rest, char *ret_folder, size_t folder_size, const char **ret_file)
{
    uint64_t step;
    const char *slash = strchr(rest, '/');

    if (!slash || (size_t)(slash - rest) >= folder_size)
        return -ENOENT;
    snprintf(ret_folder, folder_size, "%.*s", (int)(slash - rest), rest);
    enum folder_kind kind = folder_classify(ret_folder, &step);
    *ret_file = slash + 1;
    return (kind == FOLDER_COMPLETE || kind == FOLDER_PART || checkpoint_is_sealed(ret_folder)) &&
                   manifest_file_valid(*ret_file)
               ? 0
               : -ENOENT;
}

int checkpoint_files_allow(const struct job *job, const struct checkpoint_request *request,
                           char *ret_path, size_t path_size, uint8_t ret_key[CHECKPOINT_KEY_SIZE],
                           struct error *error)
{
    char folder[64];
    const char *file;

    if (!job || split(request->rest, folder, sizeof(folder), &file))
        return error_set(error, -ENOENT, "no such page");
    if (!request->size_bytes || request->size_bytes > CHECKPOINT_REMOTE_MAX ||
        request->offset > INT64_MAX - CHECKPOINT_REMOTE_MAX)
        return error_set(error, -EINVAL, "a range has 1 to %zu bytes", CHECKPOINT_REMOTE_MAX);
    const struct checkpoint_range range = {.job = job->name,
                                           .folder = folder,
                                           .file = file,
                                           .offset = request->offset,
                                           .size_bytes = request->size_bytes};
    if (!request->proof || !(proves(job->plans.plan ? job->plans.plan->links.key : NULL, &range,
                                    request->proof, ret_key) ||
                             proves(job->plans.prepared ? job->plans.prepared->links.key : NULL,
                                    &range, request->proof, ret_key) ||
                             proves(job->plans.before.key, &range, request->proof, ret_key)))
        return error_set(error, -EACCES,
                         "no proof with the key of a generation in force on this node");
    const char *within =
        checkpoint_is_sealed(folder) ? job->folders.dir : job->folders.checkpoint_dir;
    if (snprintf(ret_path, path_size, "%s/%s/%s", within, folder, file) >= (int)path_size)
        return error_set(error, -ENOENT, "the path is too long");
    return 0;
}
