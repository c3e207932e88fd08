/*
 * Decide which job gets the next slots when slots are short. Waiting jobs are served in the order
 * of their submission, each with as many slots as it needs to begin. Running jobs that have more
 * than they need give way, the youngest first.
 *
 * A pure function of the slots that every job has and needs. It decides how many slots a job gets,
 * not which: planning shows later whether these slots work for the job.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/name.h"

struct slot_queue_job {
    char name[NAME_SIZE];
    int64_t submitted; /* the store's revision of its submission */
    unsigned least;    /* slots that it needs to begin or continue */
    unsigned workers;  /* slots that its plan uses */
    bool waits;        /* has no slots, and wants them */
    bool fixed;        /* cannot continue with fewer than it has: the user asked for its layout */
};

/* The result for one job. */
struct slot_queue_place {
    unsigned before;      /* waiting jobs that were submitted before it */
    unsigned kept_before; /* free slots that are kept for them, */
    unsigned kept;        /* and for all waiting jobs except itself */
    unsigned gives;       /* slots that it gives up */
    const char *first;    /* the job that it gives slots to, or that is before it; NULL: none */
};

/**
 * slot_queue_place() - return the place of jobs[index] among the @count @jobs
 * @total: slots in service; a job that needs more cannot begin and is passed over
 * @free: slots of @total that no plan uses
 *
 * A job that needs more than the free slots plus all spare slots of running jobs waits until there
 * are enough: no job gives up slots for it, and no job submitted later takes the slots kept for it.
 */
struct slot_queue_place slot_queue_place(const struct slot_queue_job *jobs, unsigned count,
                                         unsigned index, unsigned total, unsigned free);
