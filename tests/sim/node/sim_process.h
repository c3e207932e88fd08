/*
 * firnd's view of a worker process (daemon/jobs/worker_process.h), on simulated processes. A new
 * firnd finds the processes of the old firnd if their sockets exist.
 */
#pragma once

#include "daemon/jobs/worker_process.h"

/** sim_process_hear() - Deliver @message of the worker (copied; it has no plan) */
void sim_process_hear(struct worker_process *process, const struct control_message *message);
/** sim_process_exited() - Deliver the exit status, after all earlier messages of the process */
void sim_process_exited(struct worker_process *process, int exit_code);
