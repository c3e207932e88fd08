/*
 * A worker on paper: says at once what a firn-worker would say to its firnd when it starts, is
 * prepared, switches, and loses a link. It stands in for daemon/jobs/worker_process.c in the
 * program that links it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/jobs/worker_process.h"

/** paper_workers_running() - of this process's workers, how many are in @generation */
unsigned paper_workers_running(uint64_t generation);
/** paper_workers_newest() - the newest generation that one of them runs in */
uint64_t paper_workers_newest(void);
/** paper_workers_break() - every worker of @generation is stuck, for @victim has died; on that node
    one of them has. Once a generation */
void paper_workers_break(uint64_t generation, const char *victim);
