#include "ctl/checkpoint/checkpoint_where.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/format/manifest.h"
#include "checkpoint/read/reader.h"

static const struct object_record *find_object(const struct cluster_job *job,
                                               const struct checkpoint_record *record)
{
    for (size_t i = 0; i < job->object_count; i++)
        if (job->objects[i].step == record->step &&
            !strcmp(job->objects[i].manifest_sha256, record->manifest_sha256))
            return &job->objects[i];
    return NULL;
}

static unsigned percent(const struct object_record *object)
{
    if (!object->size_bytes)
        return 0;
    return (unsigned)(100.0 * (double)object->done_bytes / (double)object->size_bytes);
}

/* Look for the files without reading them, which is the task of verify. */
static int look_for_files(const char *folder, const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->file_count; i++) {
        char path[RECORD_PATH_SIZE + MANIFEST_FILE_SIZE];
        struct stat status;
        snprintf(path, sizeof(path), "%s/%s", folder, manifest->files[i].name);
        if (stat(path, &status))
            return -errno;
        if ((uint64_t)status.st_size != manifest->files[i].size_bytes)
            return -EBADMSG;
    }
    return 0;
}

/* Describe the local files of a record: they may have been deleted since. With copies, other nodes
 * have a part of the files; a folder that this machine does not reach is unknown. */
static const char *local_words(const struct checkpoint_record *record)
{
    struct manifest manifest = {0};

    if (record->damaged[0])
        return "DAMAGED";
    if (record->shares)
        return "local";
    int status = manifest_load(record->path, record->manifest_sha256, &manifest, NULL);
    bool is_there = !status || status == -EBADMSG;
    if (!status)
        status = look_for_files(record->path, &manifest);
    manifest_done(&manifest);
    if (!status || !checkpoint_is_lost(record->path, status))
        return "local";
    return is_there ? "DAMAGED" : "GONE";
}

const char *checkpoint_where(const struct cluster_job *job, const struct checkpoint_record *record,
                             char ret_text[CHECKPOINT_WHERE_SIZE])
{
    const struct object_record *object = find_object(job, record);
    const char *local = local_words(record);

    if (!object)
        snprintf(ret_text, CHECKPOINT_WHERE_SIZE, "%s", local);
    else if (object->state == RECORD_COMPLETE)
        snprintf(ret_text, CHECKPOINT_WHERE_SIZE, "%s, object", local);
    else if (object->text[0])
        snprintf(ret_text, CHECKPOINT_WHERE_SIZE, "%s, %u %% uploaded: %.100s", local,
                 percent(object), object->text);
    else
        snprintf(ret_text, CHECKPOINT_WHERE_SIZE, "%s, uploading %u %%", local, percent(object));
    return ret_text;
}

static bool has_record(const struct cluster_job *job, const struct object_record *object)
{
    for (size_t i = 0; i < job->checkpoint_count; i++)
        if (job->checkpoints[i].step == object->step &&
            !strcmp(job->checkpoints[i].manifest_sha256, object->manifest_sha256))
            return true;
    return false;
}

const struct object_record *checkpoint_only_stored(const struct cluster_job *job, size_t index)
{
    for (size_t i = 0; i < job->object_count; i++)
        if (job->objects[i].state == RECORD_COMPLETE && !has_record(job, &job->objects[i]) &&
            index-- == 0)
            return &job->objects[i];
    return NULL;
}
