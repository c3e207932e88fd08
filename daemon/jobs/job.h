/*
 * This node's part in one job: its worker processes, what the agent (elastic/agent/agent.h) says to
 * do with them, and what they say in return.
 */
#pragma once

#include "daemon/core/daemon.h"
#include "daemon/jobs/slot_alarms.h"
#include "daemon/jobs/worker_process.h"
#include "elastic/agent/agent.h"

/* What the last look for checkpoints that are too many went by (daemon/jobs/expiring.h). */
struct expiring_seen {
    uint64_t count, readings;
    int64_t revision, plan_revision;
};

/* May the root of a generation that is on this node alone commit (daemon/jobs/fencing.h)? */
enum job_standing { JOB_UNKNOWN, JOB_GOES_ON, JOB_HELD };

#define JOB_CHECKPOINT_NAME_SIZE (NAME_SIZE + RECORD_SUBMISSION_SIZE)
#define JOB_CHECKPOINT_DIR_SIZE  (JOB_PATH_SIZE + JOB_CHECKPOINT_NAME_SIZE + 1)

struct job {
    struct job *next;
    struct daemon *daemon;
    char name[NAME_SIZE];
    char dir[CONFIG_TEXT_SIZE], spec_path[CONFIG_TEXT_SIZE];
    int64_t created;                              /* revision of its submission */
    char submission[RECORD_SUBMISSION_SIZE];      /* its id; "": of an earlier firnctl */
    char checkpoint_dir[JOB_CHECKPOINT_DIR_SIZE]; /* of this submission alone: its last part is */
    char checkpoint_name[JOB_CHECKPOINT_NAME_SIZE];
    struct job_spec spec;
    struct agent *agent;           /* NULL while the job rests here, the next two as well */
    struct agent_actions *actions; /* what it wants now */
    struct plan *plan, *prepared;  /* keys `generation` and `next` as last seen; NULL: absent */
    int64_t plan_revision, prepared_revision;
    char key_before[PLAN_KEY_HEX_SIZE]; /* of the plan before, which a planned one lets go on */
    struct loop_timer *tick;
    struct worker_process *processes[REPORT_WORKERS_MAX];
    enum job_standing standing; /* what the root was told under the plan `standing_generation` */
    uint64_t standing_generation;
    int64_t plan_read_revision;      /* of the plan that the time below is about */
    uint64_t plan_read_ns;           /* when etcd still had it, as far as fencing asked */
    uint64_t alone_generation;       /* the last one that was on this node alone; 0: none */
    unsigned alone_slot;             /* of its root */
    bool killed[REPORT_WORKERS_MAX]; /* on our order: its end is no event */
    struct worker_report *statuses;  /* by slot: what each worker said last */
    uint64_t unstarted;              /* slots, by bit, whose worker could not be started just now */
    char unstarted_text[REPORT_TEXT_SIZE]; /* why, of the last of them */
    struct control_progress progress[REPORT_WORKERS_MAX];
    struct slot_alarms alarms;
    uint64_t progress_written_ns;
    uint64_t checkpoint_step; /* newest recorded */
    /* A checkpoint that a worker has made and that is not recorded yet; step 0: none. */
    struct control_checkpoint unrecorded;
    unsigned unrecorded_slot;
    struct kv_request *recording;
    struct loop_timer *record_retry;
    bool gone;                 /* said already that etcd does not know it any more */
    struct sweeping *sweeping; /* of this node's part of checkpoints with copies; NULL: none yet */
    struct copying *copying;   /* of copies that are missing; NULL: none yet */
    size_t swept_count;
    int64_t swept_revision;      /* of the records that the last sweep went by */
    struct kv_request *expiring; /* the deletion of records that are too many, in flight */
    struct expiring_seen expiring_seen;
    bool store_tried; /* whether its checkpoints can go to the object store */
};

/** job_open() - @spec: decoded, @created: the store's revision of its submission; finds workers of
   it that an earlier firnd left running */
int job_open(struct daemon *daemon, const char *name, const struct job_spec *spec, int64_t created,
             struct job **ret_job, struct error *error) CHECK_RESULT;
/** job_close() - lets go of its workers without ending them */
void job_close(struct job *job);
/** job_sync() - bring the agent in line with the mirror */
void job_sync(struct job *job);
/** job_write_progress() - the job's, by what the worker on @slot said last, who is rank 0 */
void job_write_progress(struct job *job, unsigned slot);
/** job_slot_mended() - @slot of this node is in service again */
void job_slot_mended(struct job *job, unsigned slot);
/** job_gone() - its keys were removed: stop what still runs */
void job_gone(struct job *job);
bool job_idle(const struct job *job);
