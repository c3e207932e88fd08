/*
 * This node's part of one job: its worker processes, the actions that the agent
 * (elastic/agent/agent.h) wants for them, and the workers' messages.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"
#include "daemon/config/config.h"
#include "daemon/jobs/slot_alarms.h"
#include "daemon/jobs/upload_memory.h"
#include "daemon/jobs/worker_process.h"
#include "elastic/agent/agent.h"
#include "elastic/job/job_spec.h"
#include "membership/kv/kv.h"

struct daemon;

/* Inputs of the last check for expired checkpoints (daemon/jobs/retention_rule.h). */
struct retention_rule_seen {
    uint64_t count, readings;
    int64_t revision, plan_revision;
};

/* The last command to the root of a generation on this node alone. */
enum job_standing { JOB_UNKNOWN, JOB_GOES_ON, JOB_HELD };

#define JOB_CHECKPOINT_NAME_SIZE (NAME_SIZE + RECORD_SUBMISSION_SIZE)
#define JOB_CHECKPOINT_DIR_SIZE  (JOB_PATH_SIZE + JOB_CHECKPOINT_NAME_SIZE + 1)

/* The folders of the job on this node, and its checkpoints' name in the object store. */
struct job_folders {
    char dir[CONFIG_TEXT_SIZE], spec_path[CONFIG_TEXT_SIZE];
    char checkpoint_dir[JOB_CHECKPOINT_DIR_SIZE]; /* of this submission only */
    char checkpoint_name[JOB_CHECKPOINT_NAME_SIZE];
};

/* The generation that a planned plan in force follows, and which may still train; 0: none. */
struct job_plan_before {
    uint64_t generation;
    char key[PLAN_KEY_HEX_SIZE];
    unsigned stages, replicas, workers;
};

/* The job's plans as they are in etcd. */
struct job_plans {
    struct plan *plan, *prepared; /* keys `generation` and `next` in the mirror; NULL: absent */
    int64_t revision, prepared_revision;
    int64_t unread_revision; /* of a plan that cannot be decoded; logged */
    struct job_plan_before before;
};

/* The root of the last generation that ran on this node alone. */
struct job_lone_root {
    bool is_known;
    uint64_t generation;
    unsigned slot;
};

/* Whether the root of a generation on this node alone may commit (daemon/jobs/fencing.h). */
struct job_fence {
    enum job_standing standing; /* last command to the root, under the plan of `generation` */
    uint64_t generation;
    int64_t plan_read_revision; /* plan to which plan_read_ns applies */
    uint64_t plan_read_ns;      /* when fencing last found it in etcd */
    struct job_lone_root lone;
};

/* The job's workers on this node, and their last messages. */
struct job_workers {
    struct agent *agent;           /* with `actions`, `statuses`: NULL while the job rests here */
    struct agent_actions *actions; /* actions that the agent wants now */
    struct worker_process *processes[REPORT_WORKERS_MAX];
    bool killed[REPORT_WORKERS_MAX];       /* killed by firnd: its exit is no event */
    struct worker_report *statuses;        /* by slot: last status of each worker */
    uint64_t unstarted;                    /* bit mask of slots whose worker could not be started */
    char unstarted_text[REPORT_TEXT_SIZE]; /* reason for the last of them */
    struct control_progress progress[REPORT_WORKERS_MAX];
    struct slot_alarms alarms;
    uint64_t progress_written_ns;
};

/* The recording of checkpoints in etcd (daemon/jobs/checkpoint_record.h). */
struct job_record {
    uint64_t step; /* newest recorded step */
    /* A checkpoint that a worker has written and that is not recorded yet; step 0: none. */
    struct control_checkpoint unrecorded;
    unsigned slot;  /* of that worker */
    bool keeps_all; /* recording it expires no older one, because their marks are unknown */
    struct kv_request *request;
    struct loop_timer *retry;
};

/** job_record_waits() - return whether a checkpoint waits to be recorded */
static inline bool job_record_waits(const struct job_record *record)
{
    return record->unrecorded.step != 0;
}

/* The removal of expired checkpoints (daemon/jobs/retention_sweep.h). */
struct job_expiry {
    struct mark_look *marks;
    struct retention *retention; /* removes this node's expired checkpoints; NULL: not started */
    size_t swept_count;
    int64_t swept_revision;     /* of the records used by the last sweep */
    uint64_t swept_generation;  /* before which the last sweep removed parts */
    struct kv_request *request; /* deletion of expired records in flight */
    struct retention_rule_seen seen;
    bool due; /* a change since the last choice */
};

struct job {
    struct job *next;
    struct daemon *daemon;
    char name[NAME_SIZE];
    int64_t created;                         /* revision of the job's submission */
    char submission[RECORD_SUBMISSION_SIZE]; /* submission id; "": an earlier firnctl */
    struct job_spec spec;
    struct job_folders folders;
    struct job_plans plans;
    struct job_workers workers;
    struct job_fence fence;
    struct job_record record;
    struct job_expiry expiry;
    struct upload_memory upload;
    struct copying *copying; /* makes missing copies; NULL: not started */
    struct loop_timer *tick;
    bool gone;    /* logged that etcd no longer has the job */
    bool is_over; /* the job is over, with no worker left here (daemon/jobs/frozen_folder.h) */
};

/** job_open() - open a job and connect to its workers that an earlier firnd left running
 * @spec: decoded
 * @created: the store's revision of the job's submission */
int job_open(struct daemon *daemon, const char *name, const struct job_spec *spec, int64_t created,
             struct job **ret_job, struct error *error) CHECK_RESULT;
/** job_close() - release the workers without ending them */
void job_close(struct job *job);
/** job_sync() - bring the agent in line with the mirror */
void job_sync(struct job *job);
/** job_slot_mended() - tell the agent that @slot of this node is in service again */
void job_slot_mended(struct job *job, unsigned slot);
/** job_gone() - stop the workers that still run, because the job's keys were removed */
void job_gone(struct job *job);
bool job_idle(const struct job_workers *workers);
