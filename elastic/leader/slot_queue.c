#include "elastic/leader/slot_queue.h"

#include <stddef.h>

#include "base/compiler.h"

static bool is_in_line(const struct slot_queue_job *job, unsigned total)
{
    return job->waits && job->least <= total;
}

/* Return the next waiting job that was submitted after @after; NULL: none. */
static const struct slot_queue_job *next_in_line(const struct slot_queue_job *jobs, unsigned count,
                                                 unsigned total, int64_t after)
{
    const struct slot_queue_job *next = NULL;
    for (unsigned i = 0; i < count; i++)
        if (is_in_line(&jobs[i], total) && jobs[i].submitted > after &&
            (!next || jobs[i].submitted < next->submitted))
            next = &jobs[i];
    return next;
}

static unsigned spare_of(const struct slot_queue_job *job)
{
    return job->waits || job->fixed || job->workers <= job->least ? 0 : job->workers - job->least;
}

/* Sum the slots that running jobs submitted after @after can spare. */
static unsigned spare_after(const struct slot_queue_job *jobs, unsigned count, int64_t after)
{
    unsigned spare = 0;
    for (unsigned i = 0; i < count; i++)
        spare += jobs[i].submitted > after ? spare_of(&jobs[i]) : 0;
    return spare;
}

static void keep_for_others(const struct slot_queue_job *jobs, unsigned count, unsigned index,
                            unsigned total, struct slot_queue_place *place)
{
    const struct slot_queue_job *job = NULL, *self = &jobs[index];
    while ((job = next_in_line(jobs, count, total, job ? job->submitted : INT64_MIN))) {
        if (job == self)
            continue;
        place->kept += job->least;
        if (job->submitted > self->submitted)
            continue;
        place->before++;
        place->kept_before += job->least;
        if (!place->first)
            place->first = job->name;
    }
}

/* Return the number of slots that running jobs must give up for the waiting jobs. Stop at the first
 * job whose need exceeds the spare slots: nothing is given up for that job, nor for the jobs behind
 * it.
 */
static unsigned lacking(const struct slot_queue_job *jobs, unsigned count, unsigned total,
                        unsigned free, const char **ret_first)
{
    const struct slot_queue_job *job = NULL;
    unsigned spare = spare_after(jobs, count, INT64_MIN), asked = 0;
    while ((job = next_in_line(jobs, count, total, job ? job->submitted : INT64_MIN))) {
        unsigned lacks = job->least > free ? job->least - free : 0;
        if (lacks > spare - asked)
            break;
        free -= job->least - lacks;
        asked += lacks;
        if (lacks > 0 && !*ret_first)
            *ret_first = job->name;
    }
    return asked;
}

struct slot_queue_place slot_queue_place(const struct slot_queue_job *jobs, unsigned count,
                                         unsigned index, unsigned total, unsigned free)
{
    struct slot_queue_place place = {.kept = 0};
    const char *first = NULL;
    keep_for_others(jobs, count, index, total, &place);
    unsigned asked = lacking(jobs, count, total, free, &first);
    unsigned younger = spare_after(jobs, count, jobs[index].submitted);
    if (asked > younger)
        place.gives = MIN(asked - younger, spare_of(&jobs[index]));
    if (place.gives > 0)
        place.first = first;
    return place;
}
