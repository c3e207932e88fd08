/*
 * Real firn-worker processes without firnd: a test hands out plans itself and sees every status.
 * For tests of layouts' numerics and of the protocol of generations, to which a cluster would only
 * add time.
 */
#pragma once

#include <sys/types.h>

#include "elastic/job/job_spec.h"
#include "elastic/messages/control.h"

#define CREW_MAX 16

/* The training text: the system's files, so that no change of firn's own files changes a result. */
#define CREW_TEXT "/usr/include/asm-generic"

struct crew_worker {
    pid_t pid;
    int socket; /* -1: not connected, or gone */
    struct bytes received;
    struct worker_report status; /* the last report */
    struct control_progress progress;
    bool exited;
    int exit_status;
};

struct crew {
    char dir[256];
    struct job_spec spec;
    unsigned port; /* of slot 0's links */
    int port_lock; /* the lock of its block of ports */
    unsigned count;
    const char *device;  /* of all workers: --device; "cpu" at first */
    uint64_t generation; /* of the last plan */
    struct crew_worker workers[CREW_MAX];
};

/**
 * crew_is_large() - Return whether CREW_LARGE is set: heads of GPT-2 then have 64 or 128 columns
 * and 64 positions, so that a GPU computes them as it does the heads of real models (docs/GPU.md)
 */
bool crew_is_large(void);

/**
 * crew_job() - Make a job: three layers of width 32 (large: 256), in steps of micro-batches of two,
 * on CREW_TEXT as bytes; no checkpoint but the last unless spec.checkpoint.every is set @name: also
 * of its folders @family: members of "model": its family, its heads and the other members of that
 * family
 */
#define CREW_GPT2 "\"family\":\"gpt2\",\"heads\":2,\"tied\":true"
struct job_spec crew_job(const char *name, const char *family, unsigned steps, unsigned lanes,
                         unsigned micro_batches_per_lane);
/** crew_init() - make an empty crew in a new temporary folder; @spec's data must exist */
void crew_init(struct crew *crew, const struct job_spec *spec);
/** crew_done() - Kill the remaining workers and remove the folder */
void crew_done(struct crew *crew);

/** crew_spawn() - start the worker of @slot (on its own node, "n<slot>") and wait for its socket */
void crew_spawn(struct crew *crew, unsigned slot);
/** crew_plan() - plan K x R over slots [0, K*R) with even units and lanes, the next generation and
 * no moves */
struct plan *crew_plan(struct crew *crew, unsigned stage_count, unsigned replica_count);
/** crew_share_lanes() - let the replicas of @plan share lanes; fail if that shares none */
void crew_share_lanes(const struct crew *crew, struct plan *plan);
/** crew_send() - send the plan to every worker, as PREPARE or SWITCH */
void crew_send(struct crew *crew, const struct plan *plan, enum control_type type);
/** crew_pump() - Take the workers' messages until @done returns true. Fail the test, with the end
 * of the workers' logs, after @seconds, several times as many on a GPU */
void crew_pump(struct crew *crew, bool (*done)(const struct crew *crew, void *context),
               void *context, unsigned seconds);
/** crew_finished() - return, for crew_pump(), whether every worker that is not killed has exited */
bool crew_finished(const struct crew *crew, void *context);
void crew_kill(struct crew *crew, unsigned slot, int signal);
/** crew_exact() - return slot's metrics as lines `step loss_bits grad_norm_bits frozen_layers`;
 * malloc'ed */
char *crew_exact(const struct crew *crew, unsigned slot);
/** crew_count_lines() - return how many of slot's lines of metrics have a @key that is not 0 */
unsigned crew_count_lines(const struct crew *crew, unsigned slot, const char *key);
/** crew_count_turns() - count the steps of @exact after which more layers are frozen than after the
 * step before, and fewer */
void crew_count_turns(const char *exact, unsigned *ret_frozen, unsigned *ret_thawed);
/** crew_expect_same() - Compare crew_exact() and crew_digest() of a worker alone and of another
 * run; the message names the first step that differs */
void crew_expect_same(const char *alone, const char *exact, const char *digest_alone,
                      const char *digest);
/** crew_digest() - write the state_digest of the checkpoint of @step, a text of 33 bytes */
void crew_digest(const struct crew *crew, uint64_t step, char ret_text[33]);
