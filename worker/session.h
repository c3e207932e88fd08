/*
 * What one worker process has (struct trainer), and training within one generation (session_*).
 *
 * worker/trainer.c goes from generation to generation; this is what happens inside one: step after
 * step, with metrics, progress, checkpoints, until the commit announces a switch, the links break,
 * or the job ends.
 */
#pragma once

#include <pthread.h>

#include "worker/alarms.h"
#include "worker/algorithms.h"
#include "worker/control_server.h"
#include "worker/engine.h"
#include "worker/exchange.h"
#include "worker/metrics.h"
#include "worker/options.h"
#include "worker/snapshot.h"

struct trainer {
    const struct worker_options *options;
    struct job_spec spec;
    const struct kernel *kernel;
    struct kernel_device *device;
    struct nccl_use nccl;
    struct algorithms algorithms;
    struct state *state;
    struct dataset *dataset;
    struct snapshot *snapshot;
    struct control_server *control;
    struct metrics *metrics; /* this node's scribe only, else NULL */
    int listener, cancel;    /* cancel: an eventfd that interrupts mesh_open() */
    uint64_t instance;
    enum worker_phase phase;

    struct plan *plan;    /* of the generation that runs, or ran last; NULL before the first */
    struct plan *pending; /* newer than plan; NULL when none has come */
    struct engine *engine;
    uint64_t prepared;                   /* generation of the last plan that PREPARE named */
    bool first_commit;                   /* of this generation is still to come */
    struct exchange_readiness readiness; /* rank 0: as of the last commit */
    struct straggler *straggler;         /* rank 0, if stragglers are evicted; else NULL */
    uint64_t recorded_step;              /* of the newest checkpoint that firnd has recorded */
    uint64_t refused_step;   /* of a checkpoint that firnd did not record: another generation is in
                                force */
    uint64_t last_commit_ns; /* monotonic; 0 before the first step */
    struct alarms alarms;
    double pause_seconds;   /* between the last commit of a generation and the next one's first
                               compute */
    uint64_t progress_ns;   /* when progress was last told */
    double validation_loss; /* the newest known; NaN: none yet */

    pthread_mutex_t lock; /* guards mesh against the control thread */
    struct mesh *mesh;
    struct mesh_unreached unreached; /* while the links of this generation were made */
    struct routes routes;            /* over the mesh, while there is an engine */
    /* Written by one thread, read by the other, atomically: */
    bool stopping;
    uint64_t generation;      /* plan's */
    uint64_t announced;       /* the newest planned generation that firnd has told of */
    uint64_t held_generation; /* up to which firnd lets commit nothing more; 0: none */
};

enum session_outcome {
    SESSION_SWITCH,
    SESSION_BROKEN,
    SESSION_LEFT,
    SESSION_FINISHED,
    SESSION_STOPPED
};

/** session_dataset() - open the job's training data */
int session_dataset(const struct job_spec *spec, struct dataset **ret_dataset,
                    struct error *error) CHECK_RESULT;
/** session_describe() - what this worker is and holds, for firnd and the leader */
void session_describe(const struct trainer *trainer, enum worker_phase phase, const char *text,
                      struct worker_report *ret_report);

/** session_open() - the engine and, on the node's scribe, the metrics; links are up and state is
 * held */
int session_open(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;
/** session_exchange_histories() - metrics to nodes that have none; session_open() does it for
 * workers, a donor calls it alone, because its node may be the only one that has them */
int session_exchange_histories(struct trainer *trainer, unsigned rank, struct error *error);
/** session_train() - until the generation ends; SESSION_BROKEN leaves code and text in @error */
enum session_outcome session_train(struct trainer *trainer, struct error *error);
/** session_finish() - write and record the checkpoint of the present boundary, all ranks together
 */
enum session_outcome session_finish(struct trainer *trainer, enum session_outcome then,
                                    struct error *error);
/** session_record() - the metrics line of state->committed, which took @step_ns
 * @slowest: of each stage; NULL: not known */
void session_record(struct trainer *trainer, uint64_t step_ns,
                    const struct straggler_stage *slowest);
/** session_tell_checkpoint() - pass on the outcome of a commit, if there is one */
void session_tell_checkpoint(struct trainer *trainer);
/** session_alarm() - something that an operator must see; "" clears it */
void session_alarm(struct trainer *trainer, enum alarm_about about, const char *text);
/** session_checkpoint_alarm() - this worker's part in a checkpoint has failed */
void session_checkpoint_alarm(struct trainer *trainer, const struct error *error);

/* In trainer.c: */
void session_messages(struct trainer *trainer, uint64_t deadline_ns);
bool session_stopping(const struct trainer *trainer);
/** session_announced_plan() - the plan that a commit announced; borrowed, NULL when it does not
 * come */
const struct plan *session_announced_plan(struct trainer *trainer);
