/*
 * Run one worker's training without firnd and without peers: the state, the engine and the exchange
 * of firn-worker itself, on a plan of one stage and one replica. The timed calls are exactly the
 * calls of a worker.
 *
 * Any failure ends the program.
 */
#pragma once

#include "bench/lib/scratch.h"
#include "elastic/job/job_spec.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/step/commit_round.h"
#include "worker/step/engine.h"
#include "worker/step/warm_up.h"

struct rig {
    struct job_spec spec;
    const struct kernel *kernel;
    struct kernel_device *device;
    struct state *state;
    struct dataset *dataset;
    struct plan *plan;
    struct mesh *mesh;
    struct routes routes;
    struct nccl_use nccl; /* none: there is one worker */
    struct mesh_listener listener;
    struct engine *engine;
    struct warm_up warm, *warms; /* NULL: engines are not warmed up */
    struct step_commit_up *up;
    struct step_commit_down *down;
    struct scratch scratch; /* a folder of its own, removed by rig_close() */
};

struct rig_options {
    unsigned layers, width, heads, context, vocab, micro_batch;
    unsigned lanes; /* of one micro-batch a step; 0: one */
    unsigned thread_count;
    const struct kernel *kernel; /* NULL: kernel_cpu() */
    bool warm;                   /* engines are warmed up, as a worker's */
    const char *folder;          /* parent of its folder; NULL: TMPDIR, else /tmp */
};

/** rig_gpt2_124m() - return the shapes of GPT-2 124M, batch 4 x 64 tokens */
struct rig_options rig_gpt2_124m(unsigned thread_count);

struct rig *rig_open(const struct rig_options *options);
void rig_close(struct rig *rig);

/**
 * rig_step() - run one training step, from the samples to the updated parameters
 * @snapshot: NULL, or a checkpoint that may be in flight: the step waits for its copy of the state
 * before the optimizer runs, as worker/session/session.c does
 * Return: the seconds of that wait
 */
double rig_step(struct rig *rig, struct snapshot *snapshot);

/** rig_renew() - make a new engine after a restore, for the units' new addresses and their step */
void rig_renew(struct rig *rig);
