/*
 * Who is next for free slots: what elastic/leader/slot_queue.h needs to know of every job, taken
 * from the mirror.
 *
 * A job may wait for something else than slots (its checkpoint, a layout that fits no number of
 * slots there is): nobody is to stand behind it, or give way, for nothing. Its leader finds that
 * out when it could have had all that it needs and did not begin; then it counts as one that needs
 * more, for a while or until the slots in service are others.
 */
#pragma once

#include "daemon/core/view.h"
#include "elastic/leader/slot_queue.h"

/* What the leader has found out about one job; zeroed at first. */
struct queueing_need {
    unsigned slots;    /* it needs more than it seems to, so many; 0: not so */
    unsigned total;    /* slots that were in service then */
    uint64_t until_ns; /* and how long that counts */
};

struct queueing {
    struct slot_queue_job *jobs;
    unsigned count, index; /* index: of the job that the view is about */
    unsigned total;        /* slots in service */
    unsigned free;         /* of them without a worker, those that are about to lose it included */
    unsigned free_now;     /* without those */
};

/**
 * queueing_look() - all jobs that have slots or want them, and the slots
 * @view: of the job that it is about
 * @need_of: what is found out about a job, NULL for nothing
 *
 * Return: 0, queueing_done() is the caller's; -ENOMEM.
 */
int queueing_look(const struct mirror *mirror, const char *cluster, const char *job,
                  const struct view *view,
                  const struct queueing_need *(*need_of)(const void *context, const char *job),
                  const void *context, struct queueing *ret_queueing) CHECK_RESULT;
void queueing_done(struct queueing *queueing);

/** queueing_place() - of the job that it is about; its texts live as long as @queueing */
struct slot_queue_place queueing_place(const struct queueing *queueing);

/** queueing_learn() - the job has not begun; was it for want of slots? */
void queueing_learn(const struct queueing *queueing, uint64_t now_ns, struct queueing_need *need);
