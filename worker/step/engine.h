/*
 * One worker's part in one generation: its stage, its links, its gradient buffers.
 *
 * An engine is created when a plan takes over and freed with the next plan; the training state
 * outlives it. A step is engine_compute() (to HOLD), then commit_agreement_run() (to COMMIT), then
 * engine_apply() (to APPLIED). If the links break between them, the engine keeps the reduced
 * gradients until the next plan decides whether the step is kept.
 */
#pragma once

#include "elastic/job/job_evaluation.h"
#include "elastic/job/job_training.h"
#include "elastic/plan/pipeline_schedule.h"
#include "elastic/plan/plan.h"
#include "model/data/dataset.h"
#include "model/net/stage.h"
#include "protocol/checkpoint_calendar.h"
#include "protocol/step_division.h"
#include "worker/device/routes.h"
#include "worker/device/tensor_channel.h"
#include "worker/state/state.h"
#include "worker/step/frozen_prefix.h"
#include "worker/step/gradients.h"

struct handover;
struct kept_step;
struct lane_relay;
struct loss_ring;
struct moved_sums;
struct recorder;
struct reduction;
struct shadow;
struct state_digest;
struct sum_copies;
struct tied_embedding;
struct warm_up;

/* The progress of a rank in its part of a step: in the evaluation, which comes first, or in the
 * training. */
struct engine_progress {
    bool evaluates;
    unsigned done, count; /* micro-batches of the evaluation, operations of the training */
};

/* The measured times of a step, and the recorder of its spans. */
struct engine_timing {
    struct recorder *recorder;    /* borrowed; NULL: none */
    uint64_t compute_ns, wait_ns; /* of the last step: own, and waiting for others */
    uint64_t evaluation_ns;       /* of the last step, before it trains */
    uint64_t busy_ns; /* the part of compute_ns that grows with lanes: forward and backward */
    struct engine_progress progress; /* of the step in progress */
    uint64_t turn_began_ns;          /* of the operation in progress, its wait for others included;
                                      * 0: none has begun */
    uint64_t longest_turn_ns;        /* of the step in progress */
};

/** engine_turn_ns() - return the longest time of one operation, its wait for input included, in the
 * step in progress until @now_ns; 0: no step has begun */
static inline uint64_t engine_turn_ns(const struct engine_timing *timing, uint64_t now_ns)
{
    return timing->turn_began_ns ? MAX(timing->longest_turn_ns, now_ns - timing->turn_began_ns) : 0;
}

/* The part of a step that one rank computes. */
struct engine_part {
    unsigned rank, replica, stage_index;
    unsigned first_unit, unit_count;
    unsigned trained_from;      /* first trained unit of the model when the engine was created */
    unsigned micro_batch_count; /* of this replica in one step */
};

/* The lanes that this rank's replica computes. */
struct engine_share {
    struct step_division *division; /* owned */
    struct lane_run *runs;
    unsigned run_count;
    unsigned *loss_counts;     /* per lane: the number of micro-batches in hold.lane_losses */
    struct lane_relay *relay;  /* of the lanes that it shares with other replicas; NULL: none */
    struct sum_copies *copies; /* of its sums and of another replica's; NULL: none */
    struct kept_step *kept;    /* of the step that this engine begins with; NULL: none */
    bool computes;             /* a step has begun, and this rank does not hold it yet */
};

/* The channels to the previous and the next stage. */
struct engine_channels {
    struct send_queue *send_queue;           /* messages that leave over the links of this engine */
    struct tensor_channel *inputs, *outputs; /* per slot: from the previous stage, to the next */
    struct tensor_channel output_gradient,
        input_gradient; /* from the next stage, to the previous stage */
};

/* Callback at the boundaries of micro-batches, and at intervals while this rank waits for
 * others. */
struct engine_watch {
    /* Return true to leave the step: the function has failed the mesh. NULL: none */
    bool (*leaves)(void *context, const struct engine_progress *progress);
    void *context;
};

/* The samples of a micro-batch. */
struct engine_samples {
    const struct dataset *dataset; /* borrowed */
    int32_t *tokens, *targets;     /* (micro_batch, T) */
    float *rows;        /* (2, PLASTICITY_ROWS, C): of the stream before and after a layer's MLP */
    struct error error; /* a failure of this node's data; code 0: none */
};

struct engine_losses {
    struct loss_ring *ring; /* losses on their way to the host; NULL: they are read at once */
    float scale;            /* of the step: turns the sum of its token losses into their mean */
};

/* Units and sums that arrive while the first step is computed (protocol/unit_arrivals.h,
 * step_sums.h). */
struct engine_arrivals {
    struct handover *handover; /* borrowed; NULL: all are here */
    struct moved_sums *sums;   /* borrowed; NULL: all are here */
    int status;                /* of the waits in the stage's forward */
    uint64_t waited_ns;        /* in the step in progress */
};

struct engine {
    struct state *state;                        /* borrowed */
    const struct plan *plan;                    /* borrowed */
    const struct routes *routes;                /* borrowed */
    struct mesh *mesh;                          /* routes->mesh */
    const struct checkpoint_calendar *calendar; /* borrowed; NULL: no checkpoints */
    struct engine_watch watch;
    struct engine_part part;
    struct engine_share share;
    struct schedule_position position;
    struct stage *stage;
    struct gradients *gradients;
    void **weights;        /* unit_count, device */
    struct shadow *shadow; /* copies that this worker feeds or keeps; NULL: none */
    float **applied; /* per unit of the model: the gradient that a commit applies; NULL: none */
    struct gradient_norm *squares; /* square sums for the norm */
    struct state_digest *check;    /* digests of the state that replicas share */
    struct reduction *reduction;   /* across the replicas of the stage */
    struct engine_channels channels;
    struct tied_embedding *tie; /* NULL: no tied table here */
    struct engine_samples samples;
    struct engine_arrivals arrivals;
    struct frozen_prefix prefix;
    struct engine_losses losses;
    struct engine_timing timing;
};

struct engine_options {
    struct state *state;           /* borrowed; holds the stage's units */
    const struct dataset *dataset; /* borrowed */
    const struct plan *plan;       /* borrowed */
    const struct routes *routes;   /* borrowed */
    unsigned rank;
    const struct checkpoint_calendar *calendar; /* borrowed; NULL: no checkpoints */
    struct engine_watch watch;
    struct recorder *recorder;            /* borrowed; NULL: none */
    const struct step_division *division; /* copied; NULL: as the plan says */
    struct kept_step *kept;          /* consumed: what @division counts on here; NULL: nothing */
    const struct step_sums *offered; /* borrowed during the call: sums of other ranks, chosen under
                                        @division (worker/step/moved_sums.h); NULL: none */
    struct frozen_cache *frozen;     /* borrowed; NULL: none */
    struct handover *handover;       /* borrowed; NULL: no unit arrives */
    struct warm_up *warm; /* borrowed; NULL: nothing is warmed up (worker/step/warm_up.h) */
};

/** engine_new() - create an engine and the memory of a step */
int engine_new(const struct engine_options *options, struct engine **ret_engine,
               struct error *error) CHECK_RESULT;
void engine_free(struct engine *engine);
/** engine_close() - free the engine; return its sums and losses of a step in progress
 * (worker/step/kept_step.h), NULL: none */
struct kept_step *engine_close(struct engine *engine);

/** engine_stale() - true if the frozen boundary moved since engine_new(), or a newly divided step
 * is over: create a new engine on the same links */
bool engine_stale(const struct engine *engine);

/**
 * engine_compute() - run forward, backward and reduction of step applied_step + 1
 *
 * Waits for units that other workers hand over, before it uses them. Fills state->hold and computes
 * the digests of the state before that step.
 *
 * Return: 0: the state holds; -ECONNRESET, -ETIMEDOUT: the mesh failed; -EILSEQ: this node's data
 * has changed since it was checked, and this worker must leave; others: the device failed
 */
int engine_compute(struct engine *engine, struct error *error) CHECK_RESULT;

/**
 * engine_evaluate() - measure the validation loss of the parameters at applied_step, after the last
 * step: fills the lanes' sums of state->hold, numbered applied_step + 1; the state does not hold
 *
 * Errors as engine_compute()
 */
int engine_evaluate(struct engine *engine, struct error *error) CHECK_RESULT;

/** engine_look() - begin (@looks) or stop asking the watch at intervals while this rank waits for
 * others; engine_compute() does so itself */
void engine_look(struct engine *engine, bool looks);

/** engine_apply() - run the optimizer step of a complete record on the reduced gradients */
void engine_apply(struct engine *engine, const struct step_record *record);

/** engine_drop_others() - drop the held units that this rank neither computes nor shadows; memory
 * that is reserved for the next generation stays */
void engine_drop_others(struct engine *engine);

/** engine_is_last_stage() - return whether this rank has the last stage, and so the losses */
static inline bool engine_is_last_stage(const struct engine *engine)
{
    return engine->part.stage_index == engine->plan->layout.stage_count - 1;
}

/** engine_evaluates() - true if @step measures the validation loss, on the parameters before the
 * step */
bool engine_evaluates(const struct job_evaluation *evaluation, const struct job_training *training,
                      uint64_t step);
