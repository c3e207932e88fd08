#include "daemon/core/unopened_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"

static struct unopened_job *find(const struct unopened_jobs *unopened, const char *name)
{
    for (unsigned i = 0; i < unopened->count; i++)
        if (strcmp(unopened->list[i].name, name) == 0)
            return &unopened->list[i];
    return NULL;
}

static struct unopened_job *add(struct unopened_jobs *unopened, const char *name)
{
    struct unopened_job *list =
        reallocarray(unopened->list, (size_t)unopened->count + 1, sizeof(*list));

    if (!list)
        return NULL;
    unopened->list = list;
    struct unopened_job *job = &list[unopened->count++];
    *job = (struct unopened_job){0};
    snprintf(job->name, sizeof(job->name), "%s", name);
    return job;
}

bool unopened_jobs_note(struct unopened_jobs *unopened, const char *name, int64_t created,
                        const char *why, uint64_t now_ns)
{
    struct unopened_job *job = find(unopened, name);

    if (!job)
        job = add(unopened, name);
    if (!job)
        return true;
    bool is_news = job->created != created || strcmp(job->why, why) != 0;
    job->created = created;
    job->until_ns = now_ns + UNOPENED_REST_NS;
    snprintf(job->why, sizeof(job->why), "%s", why);
    return is_news;
}

void unopened_jobs_forget(struct unopened_jobs *unopened, const char *name)
{
    struct unopened_job *job = find(unopened, name);

    if (job)
        *job = unopened->list[--unopened->count];
}

bool unopened_jobs_rests(const struct unopened_jobs *unopened, const char *name, int64_t created,
                         uint64_t now_ns)
{
    const struct unopened_job *job = find(unopened, name);

    return job && job->created == created && now_ns < job->until_ns;
}

uint64_t unopened_jobs_next_ns(const struct unopened_jobs *unopened, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;

    for (unsigned i = 0; i < unopened->count; i++)
        if (unopened->list[i].until_ns > now_ns)
            next_ns = MIN(next_ns, unopened->list[i].until_ns);
    return next_ns;
}

void unopened_jobs_done(struct unopened_jobs *unopened)
{
    free(unopened->list);
    *unopened = (struct unopened_jobs){0};
}
