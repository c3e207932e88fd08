#include "ctl/checkpoint_where.h"

#include <stdio.h>
#include <string.h>

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

const char *checkpoint_where(const struct cluster_job *job, const struct checkpoint_record *record,
                             char ret_text[CHECKPOINT_WHERE_SIZE])
{
    const struct object_record *object = find_object(job, record);

    if (!object)
        snprintf(ret_text, CHECKPOINT_WHERE_SIZE, "local");
    else if (object->state == RECORD_COMPLETE)
        snprintf(ret_text, CHECKPOINT_WHERE_SIZE, "local, object");
    else if (object->text[0])
        snprintf(ret_text, CHECKPOINT_WHERE_SIZE, "local, %u %% uploaded: %.100s", percent(object),
                 object->text);
    else
        snprintf(ret_text, CHECKPOINT_WHERE_SIZE, "local, uploading %u %%", percent(object));
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
