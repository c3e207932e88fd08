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

#define FRESH_NS (10 * NS_PER_SECOND) /* an older result is not taken */

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
    struct look *last; /* the newest completed look, ended at ended_ns; NULL: none */
    uint64_t ended_ns;
    bool is_current; /* `last` began after the last mark_look_outdate() */
    bool will_be;    /* the look under way did */
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

    if (!look)
        return;
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
    mark->will_be = true;
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

static uint64_t now_ns(const struct mark_look *mark)
{
    const struct loop *loop = &mark->job->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static void take(struct mark_look *mark)
{
    uint64_t ended_ns = now_ns(mark) - errand_age_ns(mark->errand);
    struct look *look = errand_take(mark->errand);

    if (!look)
        return;
    drop(mark->last);
    mark->last = look;
    mark->ended_ns = ended_ns;
    mark->is_current = mark->will_be;
}

void mark_look_outdate(struct mark_look *mark)
{
    mark->is_current = mark->will_be = false;
}

enum mark_look_state mark_look_at(struct mark_look *mark, const struct mirror_entry *entries,
                                  size_t count, const char *newest)
{
    if (!errand_runs(mark->errand))
        take(mark);
    if (mark->is_current && now_ns(mark) - mark->ended_ns <= FRESH_NS &&
        covers(mark, mark->last, entries, count, newest))
        return MARK_LOOK_KNOWN;
    bool begins = !errand_runs(mark->errand) && !begin(mark, entries, count, newest);
    if (begins && !errand_runs(mark->errand)) { /* no thread was needed */
        take(mark);
        return MARK_LOOK_KNOWN;
    }
    if (errand_runs(mark->errand) && errand_age_ns(mark->errand) < ERRAND_PATIENCE_NS)
        return MARK_LOOK_RUNS;
    return mark->last ? MARK_LOOK_OLD : MARK_LOOK_AWAY;
}

struct checkpoint_marks mark_look_of(const void *look, const char *path)
{
    const struct mark_look *mark = look;
    const struct seen *seen = find(mark->last, path);

    return seen ? seen->marks : (struct checkpoint_marks){.pinned = true}; /* unknown: keep it */
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
    if (!mark)
        return;
    errand_free(mark->errand);
    drop(mark->last);
    free(mark);
}
