/*
 * The life of a worker: get ready, join generations as plans come, train in each until it ends,
 * leave.
 *
 * Two threads matter here. The main thread trains; it looks for messages at step boundaries and
 * while it waits. The control thread (worker/control_server.h) calls trainer_observe() the moment a
 * message arrives: an order that cannot wait for a boundary (stop, a plan after a failure) breaks
 * the links, so that the main thread comes back from whatever it waits for.
 *
 * How a generation ends for a worker:
 *   switch    the commit said so: everything is at one step boundary, the next plan follows
 *   broken    the links failed: STUCK is reported with what is held, then the next plan is waited
 * for left      the plan has no place for this worker, or it was a donor and is released finished
 * all steps are committed and checkpointed
 */
#pragma once

#include "worker/options.h"

/** trainer_run() - until the worker's end. Return: 0 left or finished, -ECANCELED stopped by order,
 * negative failed */
int trainer_run(const struct worker_options *options, struct error *error) CHECK_RESULT;
