/*
 * One worker process: start, enter generations as plans arrive, train in each until it ends, exit.
 *
 *     trainer.c           start and end, and the loop over generations
 *     generation.c        enter a generation: its state, its links; and leave it
 *     session.c           within a generation: step after step
 *     final_checkpoint.c  the checkpoint at the end of a stay
 *     commands.c          messages from firnd
 *     status_report.c     reports to firnd
 *     metrics_writer.c    the metrics of the node
 *
 * Two threads matter here. The main thread trains; it handles messages at step boundaries and while
 * it waits. The control thread (worker/session/control_server.h) calls commands_observe() the
 * moment a message arrives: a command that cannot wait for a boundary (stop, a plan after a
 * failure) breaks the links, so that the main thread returns from any wait.
 *
 * The end of a generation for a worker:
 *
 *     switch    a commit announced it: all state is at one step boundary, the next plan follows
 *     broken    the links failed: the worker reports STUCK with the units held, then waits for the
 *               next plan
 *     diverged  a step's loss or gradient norm is not finite: no worker applies it, all stop
 *     left      the plan has no place for this worker, or it was a donor and is released
 *     finished  all steps are committed and checkpointed
 */
#pragma once

#include <pthread.h>

#include "elastic/job/job_spec.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/device/numerics_log.h"
#include "worker/metrics/metrics.h"
#include "worker/session/alarms.h"
#include "worker/session/control_server.h"
#include "worker/session/divergence.h"
#include "worker/session/options.h"
#include "worker/session/start_watch.h"
#include "worker/state/footprint.h"
#include "worker/step/engine.h"
#include "worker/step/step_commit.h"

/* The members of one worker process. */
struct trainer {
    const struct worker_options *options;
    struct job_spec spec;
    const struct kernel *kernel;
    struct kernel_device *device;
    struct footprint footprint;
    struct nccl_use nccl;
    struct numerics_log algorithms;
    struct state *state;
    struct dataset *dataset;
    struct snapshot *snapshot;
    struct control_server *control;
    struct start_watch *start_watch;
    struct metrics *metrics; /* this node's scribe only, else NULL */
    int listener, cancel;    /* cancel: an eventfd that interrupts mesh_open() */
    uint64_t instance;
    enum worker_phase phase;

    struct plan *plan;    /* of the current generation, or the last one; NULL before the first */
    struct plan *pending; /* newer than plan; NULL: none has arrived */
    uint64_t awaited;     /* the generation that a commit has announced; 0: none */
    struct engine *engine;
    uint64_t prepared;                      /* generation of the last plan that PREPARE named */
    bool first_commit;                      /* of this generation is still to come */
    struct step_commit_readiness readiness; /* on rank 0: as of the last commit */
    struct checkpoint_writers writers;      /* ranks that can write, the same at all ranks */
    struct straggler *straggler;            /* on rank 0, if stragglers are evicted; else NULL */
    struct dispute_memory disputes;
    uint64_t agreed_step;   /* the last boundary at which all units were compared, and were equal */
    uint64_t recorded_step; /* of the newest checkpoint that firnd has recorded */
    uint64_t refused_step;  /* of a checkpoint that firnd did not record: another generation is in
                               force */
    uint64_t last_commit_ns; /* monotonic; 0 before the first step */
    struct alarms alarms;
    struct divergence divergence;
    double pause_seconds; /* from the last commit of a generation to the next one's first compute */
    uint64_t progress_ns; /* time of the last progress report */
    uint64_t untold_ns;   /* duration of the last step, if not reported; else 0 */
    double validation_loss; /* the newest known; NaN: none yet */
    bool final_known;       /* the finished model was evaluated in this generation: */
    double final_loss;      /* its validation loss */
    uint64_t last_step_ns;  /* duration of the last step, while its line waits for that; else 0 */

    pthread_mutex_t lock; /* guards mesh against the control thread */
    struct mesh *mesh;
    struct mesh_unreached unreached; /* since the links of this generation were opened */
    struct routes routes;            /* over the mesh, while there is an engine */
    /* Written by one thread, read by the other, atomically: */
    bool stopping;
    uint64_t generation;      /* of plan */
    uint64_t announced;       /* the newest planned generation that firnd has announced */
    bool waits_for_switch;    /* the main thread waits for workers that still compute their step */
    uint64_t held_generation; /* firnd forbids commits of generations up to this one; 0: none */
};

/** trainer_run() - run until the worker's end. Return: 0 left or finished, -ECANCELED stopped by
 * command, negative failed */
int trainer_run(const struct worker_options *options, struct error *error) CHECK_RESULT;
