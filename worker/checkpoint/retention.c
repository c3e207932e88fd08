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
    uint64_t generation; /* remove only parts of generations before it; 0: remove old checkpoints */
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

static int retain(const struct retention *retention, struct error *error)
{
    unsigned kept;
    int status = count_kept(retention, &kept, error);

    return status ? status
                  : checkpoint_retain(retention->folder, kept, retention->step,
                                      retention->spared_step, error);
}

static void *run(void *argument)
{
    struct retention *retention = argument;
    struct error error = {0};
    int status = retention->generation
                     ? checkpoint_sweep_parts(retention->folder, retention->generation, &error)
                     : retain(retention, &error);

    if (status)
        log_warning("removing old checkpoints: %s", error.text);
    __atomic_store_n(&retention->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static struct retention *start(const char *folder, const struct retention *what)
{
    struct retention *retention = malloc(sizeof(*retention));

    if (!retention)
        return NULL;
    *retention = *what;
    snprintf(retention->folder, sizeof(retention->folder), "%s", folder);
    if (!pthread_create(&retention->thread, NULL, run, retention))
        return retention;
    free(retention);
    return NULL;
}

struct retention *retention_start(const char *folder, const struct control_checkpoint *recorded)
{
    const struct retention what = {.kept_from = recorded->kept_from,
                                   .step = recorded->step,
                                   .spared_step = recorded->spared_step};

    return start(folder, &what);
}

struct retention *retention_start_parts(const char *folder, uint64_t generation)
{
    const struct retention what = {.generation = generation};

    return start(folder, &what);
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
