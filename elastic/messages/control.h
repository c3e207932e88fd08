/*
 * Messages between firnd and its workers, over the worker's UNIX stream socket: a little-endian u32
 * length and JSON. The worker listens (so a new firnd finds it), firnd connects; the latest
 * connection wins.
 */
#pragma once

#include "base/bytes.h"
#include "elastic/copies/copies.h"
#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"
#include "elastic/plan/straggler.h"
#include "elastic/planner/planner.h"

#define CONTROL_MESSAGE_MAX (16u << 20)
#define CONTROL_TEXT_SIZE   512

enum control_type {
    /* firnd -> worker */
    CONTROL_PREPARE, /* `plan`: get ready for it (spawned for it, or told early); answer STATUS
                        prepared */
    CONTROL_SWITCH,  /* `plan` is in force: switch at the next boundary if planned, else now */
    CONTROL_STOP,    /* leave at once (cancelled or fenced); nothing is saved */
    CONTROL_HOLD,    /* rank 0: commit nothing more up to the generation in `progress` */
    CONTROL_GO_ON,   /* rank 0: no node has taken the job over */
    /* worker -> firnd */
    CONTROL_STATUS,     /* `status`: at hello, and at every change of phase or generation */
    CONTROL_PROGRESS,   /* `progress`: after steps, at most four a second */
    CONTROL_EVENT,      /* `event`: one line for people, and fields in `progress` */
    CONTROL_CHECKPOINT, /* rank 0: `checkpoint` is complete on disk, commit it */
    CONTROL_ALARM, /* `text`: a fault that an operator must see (disk full); empty text clears it */
};

struct control_progress {
    uint64_t generation, step;
    unsigned frozen_layers;
    struct planner_kept kept;                /* outputs of frozen layers that this worker found */
    double loss, grad_norm, validation_loss; /* NaN when unknown */
    double step_seconds, tokens_per_second;  /* less this rank's part of an evaluation */
    double compute_seconds,
        wait_seconds;         /* per step, own work and waiting for others, to find stragglers */
    double pause_seconds;     /* of the last switch of generation */
    uint64_t memory_bytes;    /* peak memory of this generation (worker/state/footprint.h); 0: not
                                 known */
    unsigned judgement_count; /* rank 0: on stragglers */
    struct straggler_judgement judgements[STRAGGLER_JUDGEMENTS_MAX];
};

struct control_checkpoint {
    uint64_t generation, step;
    unsigned frozen_layers; /* of its state */
    char path[JOB_PATH_SIZE];
    char manifest_sha256[65];
    uint64_t size_bytes;
    double stall_seconds, write_seconds;
    char *shares; /* owned: places of its copies (elastic/copies/copies.h); NULL: in one folder for
                     all nodes */
    bool is_unproven;     /* no later step has been computed from it yet */
    uint64_t kept_from;   /* in firnd's answer: checkpoints before this step no longer have a record
                             and may be removed; 0: none */
    uint64_t spared_step; /* except this one, whose record stays; 0: none */
};

struct control_message {
    enum control_type type;
    struct plan *plan; /* owned by the message */
    struct worker_report status;
    /* CONTROL_STATUS: the worker's control protocols (elastic/plan/versions.h); written by
     * control_pack(). */
    unsigned protocol_oldest, protocol;
    struct control_progress progress;
    struct control_checkpoint checkpoint;
    char text[CONTROL_TEXT_SIZE];
    bool committed; /* firnd's answer to CONTROL_CHECKPOINT: whether etcd committed it */
};

/** control_checkpoint_copy() - make *@ret_copy a deep copy; -ENOMEM (*@ret_copy is unchanged) */
int control_checkpoint_copy(const struct control_checkpoint *checkpoint,
                            struct control_checkpoint *ret_copy) CHECK_RESULT;
/** control_checkpoint_done() - free its members, and zero it (step 0: none) */
void control_checkpoint_done(struct control_checkpoint *checkpoint);

/** control_message_done() - free plan and checkpoint; the structure may be used again */
void control_message_done(struct control_message *message);

/**
 * control_pack() - append the framed message
 *
 * Writes only the sections of the message's type (see enum control_type), and with a status the
 * control protocols that this program speaks. PREPARE and SWITCH need a plan.
 *
 * Return: 0; -EMSGSIZE (over CONTROL_MESSAGE_MAX), -ENOMEM (both: @into is unchanged).
 */
int control_pack(const struct control_message *message, struct bytes *into) CHECK_RESULT;

/**
 * control_unpack() - take one whole message off the front of @from
 * @ret_message: written only with 1; the caller then owns its plan and its checkpoint
 *
 * Return: 1 a message was taken; 0 more bytes are needed; -EBADMSG (empty, too long, not JSON,
 * wrong keys: the caller must close the stream); -ENOMEM (@from is unchanged, may be retried).
 * Unknown keys are ignored, so a newer firnd can speak to older workers.
 */
int control_unpack(struct bytes *from, struct control_message *ret_message,
                   struct error *error) CHECK_RESULT;
