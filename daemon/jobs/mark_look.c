#include "daemon/jobs/mark_look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "checkpoint/write/folder_owner.h"
#include "daemon/core/daemon.h"
#include "daemon/core/decode_cache.h"
#include "daemon/core/errand.h"
#include "daemon/jobs/job.h"

#define FRESH_NS         (10 * NS_PER_SECOND) /* an older result is not taken */
#define PATIENCE_MOST_NS (60 * NS_PER_SECOND)

struct seen {
    char path[JOB_PATH_SIZE];
    struct checkpoint_marks marks;
};

struct look {
    bool signs;
    char folder[JOB_CHECKPOINT_DIR_SIZE]; /* of all the job's checkpoints */
    struct checkpoint_owner owner;
    size_t count;
    struct seen *list;
};

struct mark_look {
    const struct job *job;
    struct errand *errand;
};

static void run(void *load)
{
    struct look *look = load;
    struct error error = {0};

    for (size_t i = 0; i < look->count; i++)
        look->list[i].marks = checkpoint_marks_read(look->list[i].path);
    if (look->signs && checkpoint_owner_write(look->folder, &look->owner, &error))
        log_warning("job %s: %s", look->owner.job, error.text);
}

static void drop(void *load)
{
    struct look *look = load;

    free(look->list);
    free(look);
}

static void describe_owner(const struct job *job, struct look *look)
{
    look->signs = true;
    look->owner.created = job->created;
    snprintf(look->folder, sizeof(look->folder), "%s", job->folders.checkpoint_dir);
    memcpy(look->owner.cluster, job->daemon->config->cluster, sizeof(look->owner.cluster));
    memcpy(look->owner.job, job->name, sizeof(look->owner.job));
    snprintf(look->owner.submission, sizeof(look->owner.submission), "%s", job->submission);
}

static int begin(struct mark_look *mark, const struct mirror_entry *entries, size_t count,
                 const char *newest)
{
    static const struct errand_work work = {.run = run, .drop = drop};
    struct look *look = calloc(1, sizeof(*look));

    if (look)
        look->list = calloc(count + 1, sizeof(*look->list));
    if (!look || !look->list) {
        free(look);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_record *record =
            decode_cache_checkpoint(&mark->job->daemon->keys.mirror, &entries[i]);
        if (record)
            snprintf(look->list[look->count++].path, JOB_PATH_SIZE, "%s", record->path);
    }
    if (newest) {
        snprintf(look->list[look->count++].path, JOB_PATH_SIZE, "%s", newest);
        describe_owner(mark->job, look);
    }
    return errand_start(mark->errand, &work, look);
}

static const struct seen *find(const struct look *look, const char *path)
{
    for (size_t i = 0; i < look->count; i++)
        if (!strcmp(look->list[i].path, path))
            return &look->list[i];
    return NULL;
}

static bool covers(const struct mark_look *mark, const struct look *look,
                   const struct mirror_entry *entries, size_t count, const char *newest)
{
    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_record *record =
            decode_cache_checkpoint(&mark->job->daemon->keys.mirror, &entries[i]);
        if (record && !find(look, record->path))
            return false;
    }
    return !newest || (look->signs && find(look, newest));
}

/* On a server that is merely slow, files are to expire, too. */
static uint64_t patience_ns(const struct errand *errand)
{
    return MIN(MAX(ERRAND_PATIENCE_NS, 2 * errand_took_ns(errand)), PATIENCE_MOST_NS);
}

enum mark_look_state mark_look_at(struct mark_look *mark, const struct mirror_entry *entries,
                                  size_t count, const char *newest)
{
    const struct look *look = errand_result(mark->errand);

    if (look && errand_age_ns(mark->errand) <= FRESH_NS &&
        covers(mark, look, entries, count, newest))
        return MARK_LOOK_KNOWN;
    if (errand_runs(mark->errand))
        return errand_age_ns(mark->errand) < patience_ns(mark->errand) ? MARK_LOOK_RUNS
                                                                       : MARK_LOOK_AWAY;
    if (begin(mark, entries, count, newest))
        return MARK_LOOK_AWAY;
    return errand_result(mark->errand) ? MARK_LOOK_KNOWN : MARK_LOOK_RUNS;
}

struct checkpoint_marks mark_look_of(const void *look, const char *path)
{
    const struct mark_look *mark = look;
    const struct seen *seen = find(errand_result(mark->errand), path);

    return seen ? seen->marks : (struct checkpoint_marks){.pinned = true}; /* it stays */
}

static void on_ended(void *user)
{
    daemon_wake(user);
}

struct mark_look *mark_look_new(const struct job *job)
{
    struct mark_look *mark = calloc(1, sizeof(*mark));

    if (!mark)
        return NULL;
    mark->job = job;
    mark->errand = errand_new(&job->daemon->loop.loop, on_ended, job->daemon);
    if (mark->errand)
        return mark;
    free(mark);
    return NULL;
}

void mark_look_free(struct mark_look *mark)
{
    if (mark)
        errand_free(mark->errand);
    free(mark);
}
