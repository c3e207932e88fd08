/*
 * A simulated worker: sends at once the messages that a firn-worker sends to its firnd when it
 * starts, is prepared, switches, and loses a link. It replaces daemon/jobs/worker_process.c in the
 * program that links it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/jobs/worker_process.h"

/** paper_workers_running() - return the number of this process's workers in @generation */
unsigned paper_workers_running(uint64_t generation);
/** paper_workers_newest() - return the newest generation in which a worker of this process runs */
uint64_t paper_workers_newest(void);
/** paper_workers_break() - make every worker of @generation stuck because a worker on node @victim
 * has died; the worker on @victim dies. Once per generation */
void paper_workers_break(uint64_t generation, const char *victim);
