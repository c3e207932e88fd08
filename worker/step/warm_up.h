/*
 * One micro-batch of zeros through a new engine's stage, before its first step: forward without and
 * with backward. The results are not used.
 *
 * The driver loads a kernel at its first use, and may wait for the device for that. In a step it
 * would wait behind an NCCL kernel, which waits for a peer, which may wait for this worker.
 * Libraries choose the algorithm of a shape at its first use too: after the warm-up the workers can
 * compare their choices (worker/session/numerics_agreement.h).
 *
 * A kind of unit is warmed up once in the life of a process. Backends in host memory load nothing
 * and need no warm-up.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

struct engine;

/* Of a worker process. Zeroed: nothing was warmed up. */
struct warm_up {
    unsigned kinds; /* a bit for each enum unit_kind, and further ones for frozen units */
};

/**
 * warm_up_run() - warm up the kinds of the stage's units that are not in @warm; NULL: do nothing
 *
 * The engine is complete and has begun no step. An engine that continues a step is not warmed up:
 * its gradients are in use, and its worker has computed before.
 *
 * Return: 0, or the failure of the device
 */
int warm_up_run(struct engine *engine, struct warm_up *warm, struct error *error) CHECK_RESULT;
