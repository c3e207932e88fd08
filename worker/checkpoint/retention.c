#include "worker/checkpoint/retention.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/retain.h"
#include "checkpoint/write/writer.h"
#include "elastic/job/job_spec.h"

struct retention {
    pthread_t thread;
    bool done; /* written by the thread, with release */
    char folder[JOB_PATH_SIZE];
    uint64_t kept_from, step, spared_step;
};

/* Count the kept checkpoints that are not pinned, as checkpoint_retain() needs it. */
static int count_kept(const struct retention *retention, unsigned *ret_count, struct error *error)
{
    AUTO_FREE uint64_t *steps = NULL;
    size_t count = 0;
    int status = checkpoint_list(retention->folder, &steps, &count, error);

    *ret_count = 0;
    for (size_t i = 0; !status && i < count; i++) {
        char path[1024];
        checkpoint_path(retention->folder, steps[i], path);
        *ret_count += steps[i] >= retention->kept_from && steps[i] <= retention->step &&
                      !checkpoint_pinned(path);
    }
    return status;
}

static void *run(void *argument)
{
    struct retention *retention = argument;
    struct error error = {0};
    unsigned kept;
    int status = count_kept(retention, &kept, &error);

    if (!status)
        status = checkpoint_retain(retention->folder, kept, retention->step, retention->spared_step,
                                   &error);
    if (status)
        log_warning("removing old checkpoints: %s", error.text);
    __atomic_store_n(&retention->done, true, __ATOMIC_RELEASE);
    return NULL;
}

struct retention *retention_start(const char *folder, const struct control_checkpoint *recorded)
{
    struct retention *retention = calloc(1, sizeof(*retention));

    if (!retention)
        return NULL;
    snprintf(retention->folder, sizeof(retention->folder), "%s", folder);
    retention->kept_from = recorded->kept_from;
    retention->step = recorded->step;
    retention->spared_step = recorded->spared_step;
    if (!pthread_create(&retention->thread, NULL, run, retention))
        return retention;
    free(retention);
    return NULL;
}

bool retention_done(const struct retention *retention)
{
    return __atomic_load_n(&retention->done, __ATOMIC_ACQUIRE);
}

void retention_free(struct retention *retention)
{
    if (!retention)
        return;
    pthread_join(retention->thread, NULL);
    free(retention);
}
