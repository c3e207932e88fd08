/*
 * When a set of NCCL communicators has failed, and what to do then: decisions only.
 *
 * NCCL reports asynchronously: a call returns at once and the communicator is "in progress" until
 * it has succeeded or failed, which may be never when a peer is gone. So every step has a deadline,
 * and whoever owns the communicators asks for their state and feeds the answers here. The first
 * failure of any one ends all of them, together: an abort may wait for the whole device, and so for
 * what hangs in another communicator (NVIDIA/nccl issue 1013). An abort can hang too; after
 * @abort_timeout_ns the process is to end, which ends everything.
 *
 *   OPEN --- a step is late, or an error, or told from outside ---> ABORTING
 *   ABORTING --- the abort returned ---> ABORTED
 *   ABORTING --- it did not in time ---> HOPELESS
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum nccl_phase { NCCL_OPEN, NCCL_ABORTING, NCCL_ABORTED, NCCL_HOPELESS };

enum nccl_event_type {
    NCCL_STEP,  /* something was begun that is to succeed by `deadline_ns` */
    NCCL_STATE, /* a communicator was asked for its state: `result` */
    NCCL_FAULT, /* told from outside: `text` */
    NCCL_ABORT_RETURNED,
    NCCL_TICK,
};

#define NCCL_RESULT_SUCCESS     0
#define NCCL_RESULT_IN_PROGRESS 7

struct nccl_event {
    enum nccl_event_type type;
    uint64_t now_ns, deadline_ns;
    int result;       /* as NCCL counts */
    const char *text; /* what the step is for, what the error means; borrowed */
};

enum nccl_action { NCCL_DO_NOTHING, NCCL_DO_ABORT, NCCL_DO_EXIT };

#define NCCL_TEXT_SIZE 256

struct nccl_watch {
    enum nccl_phase phase;
    uint64_t abort_timeout_ns;
    uint64_t deadline_ns; /* of the step under way or of the abort; UINT64_MAX: none */
    char step[64];        /* what is under way, for people; "": nothing */
    char reason[NCCL_TEXT_SIZE];
};

void nccl_watch_init(struct nccl_watch *watch, uint64_t abort_timeout_ns);

/** nccl_watch_feed() - what is to be done now; each action is asked for once */
enum nccl_action nccl_watch_feed(struct nccl_watch *watch, const struct nccl_event *event);
