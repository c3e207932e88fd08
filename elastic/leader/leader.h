/*
 * The leader's decisions about one job: a pure function of etcd's content and of the time.
 *
 * The leader is level-triggered: the caller rebuilds the view after every change and calls
 * leader_decide(); a new leader that calls it with the same view decides the same. Only
 * `leader_memory` is kept between calls: the times (monotonic) and counts of observations. Its
 * loss, as when another node becomes the leader, costs time but never steps.
 *
 *     the view                                   the decision
 *     no plan, enough slots                      publish generation 1, from the newest checkpoint
 *                                                if there is one
 *     no plan, too few slots                     nothing; the text says why the job waits
 *     a better layout, a new scale, a drain      prepare it as `next`; publish it when the new
 *                                                processes are prepared
 *     a worker or a node of the plan failed      wait for the survivors' reports, but not forever;
 *                                                publish a plan that recovers
 *     desired paused or cancelled                publish the empty plan
 *     the empty plan, and all workers have left  finish
 */
#pragma once

#include "base/instant.h"
#include "elastic/copies/copies.h"
#include "elastic/copies/member.h"
#include "elastic/leader/slot_queue.h"
#include "elastic/plan/straggler.h"
#include "elastic/plan/versions.h"
#include "elastic/planner/planner.h"
#include "elastic/recovery/recovery.h"

#define LEADER_NODES_MAX 4096

enum job_state {
    JOB_WAITING,
    JOB_PREPARING,
    JOB_RUNNING,
    JOB_RECOVERING,
    JOB_PAUSING,
    JOB_PAUSED,
    JOB_COMPLETED,
    JOB_CANCELLED,
    JOB_FAILED
};
enum job_desired { JOB_DESIRED_RUNNING, JOB_DESIRED_PAUSED, JOB_DESIRED_CANCELLED };

struct leader_checkpoint {
    uint64_t step;       /* 0: none */
    uint64_t generation; /* that wrote it; numbers continue after it, even if etcd has no plan */
    char path[JOB_PATH_SIZE];
    char manifest_sha256[65];
    uint64_t write_ns;      /* until it was complete; 0: not known */
    unsigned frozen_layers; /* of its state; 0 also if unknown */
    const char *shares;     /* places of its copies; NULL: in one shared folder */
    char missing[256];      /* a newer checkpoint out of reach, and the nodes with it; "": none */
    unsigned damaged_count; /* newer ones known to be damaged, and the newest of them: */
    char damaged[256];
    /* For the case that the plan in force begins from this checkpoint: */
    uint64_t before_step;    /* of the newest older checkpoint within reach; 0: none */
    bool before_is_away;     /* there is an older checkpoint, but its nodes are away */
    unsigned given_up_count; /* passed over because they were out of reach for too long */
};

/** leader_checkpoint_exists() - return whether there is a checkpoint to begin from */
static inline bool leader_checkpoint_exists(const struct leader_checkpoint *checkpoint)
{
    return checkpoint->step > 0;
}

/** leader_checkpoint_has_before() - return whether an older checkpoint is within reach */
static inline bool leader_checkpoint_has_before(const struct leader_checkpoint *checkpoint)
{
    return checkpoint->before_step > 0;
}

/* The user's wish for the state and the size of the job. */
struct leader_wish {
    enum job_desired desired;
    unsigned devices;          /* at most; 0: as the specification says */
    unsigned stages, replicas; /* 0: free */
};

/* The progress of the job, and its pace. */
struct leader_progress {
    uint64_t step;
    uint64_t generation;      /* newest that reported committed steps; 0: none */
    unsigned frozen_layers;   /* newest known */
    struct planner_kept kept; /* outputs of frozen layers that rank 0 found last */
    double step_seconds;      /* measured, of the plan in force; 0: unknown */
    double last_step_seconds; /* of the last plan that trained; 0: unknown */
    double switch_seconds;    /* pause before the plan in force, a planned change; 0: unknown */
};

/* Stragglers among the workers of the plan in force. */
struct leader_stragglers {
    unsigned count;
    struct straggler_judgement judgements[STRAGGLER_JUDGEMENTS_MAX];
};

struct leader_view {
    uint64_t now_ns;
    uint64_t failure_timeout_ns;
    const struct job_spec *spec;
    struct leader_wish wish;
    const struct plan *plan;    /* in force; NULL before the first */
    const struct plan *next;    /* being prepared; NULL */
    bool finished;              /* the job's last step is committed and checkpointed */
    const struct member *nodes; /* alive (leased) */
    unsigned node_count;
    const char (*holders)[NAME_SIZE]; /* jobs that have slots, as slots name them */
    unsigned holder_count;
    struct slot_queue_place queue; /* slots that this job leaves to other jobs */
    /* Of the plan in force, of `next`, and of the generation from whose state that plan
     * continues */
    const struct node_report *const *reports;
    unsigned report_count;
    struct leader_checkpoint checkpoint; /* the newest committed */
    struct leader_progress progress;
    struct leader_stragglers stragglers;
};

#define LEADER_AVOIDED_MAX 16

/* A slot where preparing failed or whose worker was silent: not used for a while. */
struct leader_avoided {
    char node[NAME_SIZE];
    unsigned slot;
    uint64_t incarnation; /* of its firnd: a new one may try again */
    unsigned timeouts;    /* the duration; doubled if it happens again soon; 0: no entry */
    uint64_t until_ns;
};

struct leader_avoidance {
    struct leader_avoided slots[LEADER_AVOIDED_MAX]; /* the oldest is forgotten first */
    unsigned next;                                   /* entry that is written next */
};

/* The time since which a slow slot is out of the plan in force, or in it again. */
struct leader_slow_seen {
    char node[NAME_SIZE];
    unsigned slot, times; /* as the plan has them */
    bool used;
    uint64_t since_ns;
};

struct leader_slow_slots {
    struct leader_slow_seen seen[PLAN_SLOW_MAX];
    unsigned count;
};

#define LEADER_NETSPLITS_MAX 64

/* A cut between two nodes that did not reach each other (elastic/leader/leader_netsplit.h). */
struct leader_netsplit {
    char nodes[2][NAME_SIZE]; /* ascending */
    uint64_t incarnations[2];
    uint64_t generation; /* the last one that missed the pair; 0: no entry */
    uint64_t seen_ns;
    unsigned times;    /* how often the pair was missed again */
    uint64_t until_ns; /* the cut is believed until then; 0: not yet believed */
};

#define LEADER_READERS_MAX 16

/* A node that could not read a checkpoint (elastic/leader/leader_readers.h). */
struct leader_reader {
    char node[NAME_SIZE];
    uint64_t incarnation, step;
    uint64_t until_ns; /* the entry is believed until then; 0: no entry */
};

/* Generations that failed to begin (elastic/leader/leader_retry.h). */
struct leader_retries {
    /* Failed attempts to begin from the checkpoint of this step (0: the job's beginning), and the
     * generation of the last one. */
    uint64_t step, generation;
    unsigned attempts;
    /* Generations from memory in a row that failed to begin, and the last of them. */
    uint64_t memory_generation;
    unsigned memory_attempts;
    struct instant away_seen; /* since when the job waits for nodes with a newer checkpoint */
    struct instant unread;    /* since when nodes with the checkpoint do not answer */
};

/* The wait for nodes that have lost each other (elastic/leader/leader_pair_loss.h). */
struct leader_pair_wait {
    struct instant seen; /* since when the job waits */
    uint64_t until_ns;   /* how long it waits */
    uint64_t refused_ns; /* going back is not tried again until then */
};

#define LEADER_PACE_STEPS 15

/* Measured steps of the plan in force (elastic/leader/leader_pace.h). */
struct leader_pace {
    uint64_t generation;
    unsigned frozen_layers;
    uint64_t step;  /* the last one */
    unsigned count; /* measured so far; the last LEADER_PACE_STEPS are known */
    double seconds[LEADER_PACE_STEPS];
    double before_freeze; /* their median before the last layers froze; 0: unknown */
};

struct leader_memory {
    uint64_t generation; /* of the plan in force, to which the times below belong */
    struct instant failure_seen, finished_seen;
    uint64_t next_generation; /* of the plan being prepared, to which next_seen_ns belongs */
    uint64_t next_seen_ns;
    struct instant published; /* when the plan in force was first seen */
    uint64_t starting_mark,
        starting_ns; /* last progress of starting workers, and when it changed */
    struct instant better_seen;
    struct leader_pace pace;
    double prediction_factor; /* of the plan in force, at its number of frozen layers; 0: unknown */
    struct instant gone_seen; /* since when a planned change waits for a lost node */
    uint64_t generation_last; /* the highest number seen: numbers are never reused */
    struct leader_retries retry;
    struct leader_avoidance avoided;
    struct leader_slow_slots slow;
    struct leader_netsplit netsplits[LEADER_NETSPLITS_MAX]; /* the oldest is forgotten first */
    struct leader_reader readers[LEADER_READERS_MAX];       /* the same */
    struct leader_pair_wait pair_loss;
};

enum leader_action {
    LEADER_NOTHING,
    LEADER_PREPARE, /* write `plan` to the key `next` */
    LEADER_PUBLISH, /* write `plan` to the key `generation`, delete `next` */
    LEADER_DROP_NEXT,
    LEADER_FINISH, /* write `state` (completed, cancelled, paused, failed), release the slots;
                      repeated on every call as long as nothing changes */
};

struct leader_decision {
    enum leader_action action;
    struct plan *plan; /* owned by the caller afterwards; NULL: none. The caller fills an empty key
                          with random bytes; a prepared plan is published with the key that it was
                          prepared with */
    enum job_state state;
    char text[512];         /* for people: the reason why the job waits, or the latest event */
    uint64_t wake_at_ns;    /* call again by then; UINT64_MAX: only on change */
    bool misses_checkpoint; /* the job waits for nodes that have the only checkpoints */
    /* The view's checkpoint has been out of reach for too long: the caller refuses it, and calls
     * again with the previous checkpoint. */
    bool gives_up_checkpoint;
    /* No checkpoint is left in place of the given-up ones: the caller no longer refuses them, and
     * calls again. */
    bool takes_back_checkpoints;
};

/**
 * leader_decide() - decide the next action for one job
 * @memory: zeroed before the first call of a leader for a job
 *
 * An empty plan lists the workers that must leave as donors; the job is over when their nodes have
 * reported that they left, or are gone. The caller writes under its leadership, rebuilds the view
 * and calls again. If it cannot write a plan yet, it calls again later with @memory as it was
 * before: a plan that nobody has seen has no effect.
 *
 * Return: 0; -ENOMEM, -EINVAL (the spec cannot be planned; @error says why): nothing decided, and
 * only times in @memory changed.
 */
int leader_decide(const struct leader_view *view, struct leader_memory *memory,
                  struct leader_decision *ret_decision, struct error *error) CHECK_RESULT;
