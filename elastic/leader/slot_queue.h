/*
 * Which job gets the next slots, where there are not enough: those that wait are served in the
 * order of their submission, each with as many as it needs to begin, and running jobs that have
 * more than they need give way, the youngest first.
 *
 * A pure function of what every job has and needs. It decides how many slots, not which: whether a
 * job can do with those it gets is seen when it is planned.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/name.h"

struct slot_queue_job {
    char name[NAME_SIZE];
    int64_t submitted; /* the store's revision of its submission */
    unsigned least;    /* slots that it needs to begin, or to go on */
    unsigned workers;  /* slots that its plan uses */
    bool waits;        /* has no slots, and wants them */
    bool fixed;        /* cannot do with fewer than it has: its layout is asked for */
};

/* What follows for one job. */
struct slot_queue_place {
    unsigned before;      /* jobs that wait and were submitted before it */
    unsigned kept_before; /* free slots that are for them, */
    unsigned kept;        /* and for all that wait, itself left out */
    unsigned gives;       /* slots that it gives up */
    const char *first;    /* the job that it gives them to, or that is before it; NULL: nobody */
};

/**
 * slot_queue_place() - that of jobs[index] among the @count @jobs
 * @total: slots in service; one that needs more cannot begin and is passed over
 * @free: those of them that no plan uses
 *
 * Who needs more than free slots and what others can spare is waited for: nobody gives anything for
 * it, and nobody submitted later takes what it will need.
 */
struct slot_queue_place slot_queue_place(const struct slot_queue_job *jobs, unsigned count,
                                         unsigned index, unsigned total, unsigned free);
