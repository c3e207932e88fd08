/* The memory of a job's workers: planned, and as they measured it. */
#pragma once

#include <jansson.h>

#include "ctl/cluster/cluster.h"
#include "ctl/cluster/worker_list.h"

struct job_memory {
    char node[NAME_SIZE];
    unsigned slot, rank, stage, replica;
    uint64_t planned_bytes;
    uint64_t measured_bytes; /* 0: no answer of its node, or no step applied since */
};

/** job_memory_of() - return the memory of each worker of the plan of @job, by rank; @list: the
 * workers reported by nodes.
 * @ret_memory: malloc'ed, plan->worker_count of them. -ENOMEM */
int job_memory_of(const struct cluster *cluster, const struct cluster_job *job,
                  const struct worker_list *list, struct job_memory **ret_memory) CHECK_RESULT;

/** job_memory_json() - return a new reference; NULL: memory is short */
json_t *job_memory_json(const struct job_memory *memory, unsigned count);

/** job_memory_append() - append the first rows as a table. Return: 0 or -ENOMEM */
int job_memory_append(const struct job_memory *memory, unsigned count,
                      struct bytes *into) CHECK_RESULT;
