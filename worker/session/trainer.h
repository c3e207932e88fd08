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

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/job/job_spec.h"
#include "worker/session/commands.h"
#include "worker/session/metrics_writer.h"
#include "worker/session/options.h"
#include "worker/session/reserve.h"
#include "worker/session/session.h"
#include "worker/session/session_links.h"
#include "worker/session/slot_device.h"
#include "worker/session/start_watch.h"
#include "worker/session/status_report.h"
#include "worker/session/step_watch.h"
#include "worker/step/engine.h"

struct handover;
struct moved_sums;
struct recorder;

/* The members of one worker process. */
struct trainer {
    const struct worker_options *options;
    struct job_spec spec;
    uint64_t instance;
    struct mesh_listener listener;
    struct mesh_doorman *doorman; /* at the listener */
    struct start_watch *start_watch;
    struct slot_device device;
    struct state *state;
    struct dataset *dataset;

    struct plan *plan; /* of the current generation, or the last one; NULL before the first */
    struct engine *engine;
    struct handover *handover; /* of the current generation; NULL: none */
    struct kept_step *kept;    /* of the step in which the last generation ended; NULL: nothing */
    struct moved_sums *sums;   /* of the step in which the current one began; NULL: none */
    struct session_links links;
    struct step_watch watch;
    struct reserve reserve;
    struct frozen_cache frozen; /* of the outputs of frozen layers, for all engines */
    struct session_commit commit;
    struct session_checkpoints checkpoints;
    struct commands commands;
    struct status_report report;
    struct metrics_writer metrics;
    struct recorder *recorder; /* NULL: no trace */
};

/** trainer_run() - run until the worker's end. Return: 0 left or finished, -ECANCELED stopped by
 * command, negative failed */
int trainer_run(const struct worker_options *options, struct error *error) CHECK_RESULT;
