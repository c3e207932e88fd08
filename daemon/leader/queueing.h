/*
 * Order the jobs that wait for slots: build the input of elastic/leader/slot_queue.h for every job
 * from the mirror.
 *
 * A job may wait for something other than slots: its checkpoint, or a layout that fits no available
 * number of slots. No other job may queue behind it, or give slots up for it, in vain. The leader
 * detects this when the job could have had all the slots that it needs and did not start. Then the
 * job counts as needing more slots, for a limited time or until the slots in service change.
 */
#pragma once

#include "daemon/core/view.h"
#include "elastic/leader/slot_queue.h"

/* The leader's knowledge about one job; zeroed at first. */
struct queueing_need {
    unsigned slots;    /* minimum of slots, more than the specification says; 0: unknown */
    unsigned total;    /* slots in service at that time */
    uint64_t until_ns; /* valid until */
};

struct queueing {
    struct slot_queue_job *jobs;
    unsigned count, index; /* index: of the view's job */
    unsigned total;        /* slots in service */
    unsigned free;         /* of these, without a worker, or about to lose it */
    unsigned free_now;     /* of these, without a worker */
};

/**
 * queueing_look() - collect all slots, and all jobs that have slots or want them
 * @view: of job @job
 * @need_of: returns the knowledge about a job, NULL for none
 *
 * Return: 0: the caller calls queueing_done(); -ENOMEM.
 */
int queueing_look(const struct mirror *mirror, const char *cluster, const char *job,
                  const struct view *view,
                  const struct queueing_need *(*need_of)(const void *context, const char *job),
                  const void *context, struct queueing *ret_queueing) CHECK_RESULT;
void queueing_done(struct queueing *queueing);

/** queueing_place() - return the place of the view's job; its texts are valid as long as
 * @queueing */
struct slot_queue_place queueing_place(const struct queueing *queueing);

/** queueing_learn() - update @need if the view's job, which has not started, had enough slots */
void queueing_learn(const struct queueing *queueing, uint64_t now_ns, struct queueing_need *need);
