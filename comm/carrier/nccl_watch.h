/*
 * Decide when a set of NCCL communicators has failed, and the action to take. Decisions only.
 *
 * NCCL reports asynchronously: a call returns at once and the communicator is "in progress" until
 * it has succeeded or failed, which may be never when a peer is gone. So every step has a deadline,
 * and the owner of the communicators polls their state and feeds the results here. The first
 * failure of one communicator ends all of them together: an abort may wait for the whole device,
 * and so for a kernel that hangs in another communicator (NVIDIA/nccl issue 1013). An abort can
 * hang too: after @abort_timeout_ns the process has to end. This limit is long, because an abort of
 * several communicators with connections to many peers takes seconds.
 *
 * A set without a fault is closed in order: its communicators are finalized, which sends the
 * remaining data and closes the connections, and then destroyed. If finalizing is late, the set is
 * aborted.
 *
 *   OPEN --- a step is late, an error, or an external fault ---> ABORTING
 *   OPEN --- the end of the generation ---> CLOSING
 *   CLOSING --- all communicators are finalized ---> DESTROYING
 *   CLOSING --- it is late, an error, or an external fault ---> ABORTING
 *   DESTROYING --- all calls returned ---> CLOSED
 *   ABORTING --- the abort returned ---> ABORTED
 *   DESTROYING, ABORTING --- it is late ---> HOPELESS
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum nccl_phase {
    NCCL_OPEN,
    NCCL_CLOSING,
    NCCL_DESTROYING,
    NCCL_CLOSED,
    NCCL_ABORTING,
    NCCL_ABORTED,
    NCCL_HOPELESS
};

enum nccl_event_type {
    NCCL_STEP,      /* a step was begun that must succeed by `deadline_ns` */
    NCCL_STATE,     /* the state of a communicator was polled: `result` */
    NCCL_FAULT,     /* an external fault: `text` */
    NCCL_CLOSE,     /* the set is no longer needed, and no step is under way */
    NCCL_FINALIZED, /* all communicators are */
    NCCL_RETURNED,  /* the calls of the last NCCL_DO_ABORT or NCCL_DO_DESTROY */
    NCCL_TICK,
};

#define NCCL_RESULT_SUCCESS     0
#define NCCL_RESULT_IN_PROGRESS 7

struct nccl_event {
    enum nccl_event_type type;
    uint64_t now_ns, deadline_ns;
    int result;       /* an ncclResult_t */
    const char *text; /* purpose of the step, or meaning of the error; borrowed */
};

enum nccl_action {
    NCCL_DO_NOTHING,
    NCCL_DO_FINALIZE,
    NCCL_DO_DESTROY,
    NCCL_DO_ABORT,
    NCCL_DO_EXIT
};

#define NCCL_TEXT_SIZE 256

struct nccl_watch {
    enum nccl_phase phase;
    uint64_t close_timeout_ns, abort_timeout_ns;
    uint64_t deadline_ns; /* of the step under way, or of the end; UINT64_MAX: none */
    char step[64];        /* name of the step under way, for messages; "": none */
    char reason[NCCL_TEXT_SIZE];
};

/** nccl_watch_init() - prepare an open set; @close_timeout_ns: limit of finalizing;
 * @abort_timeout_ns: limit of an abort, and of destroying */
void nccl_watch_init(struct nccl_watch *watch, uint64_t close_timeout_ns,
                     uint64_t abort_timeout_ns);

/** nccl_watch_feed() - process @event and return the action to take; each action is returned
 * once */
enum nccl_action nccl_watch_feed(struct nccl_watch *watch, const struct nccl_event *event);
