/*
 * firnd's view of a worker process (daemon/jobs/worker_process.h), on simulated ones. A new firnd
 * finds what an old one has left, if its socket is there.
 */
#pragma once

#include "daemon/jobs/worker_process.h"

/** sim_process_hear() - the worker wrote @message (copied; it has no plan) */
void sim_process_hear(struct worker_process *process, const struct control_message *message);
/** sim_process_exited() - the kernel says so, after what it wrote before */
void sim_process_exited(struct worker_process *process, int exit_code);
