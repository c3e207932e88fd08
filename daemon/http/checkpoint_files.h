/*
 * Which file of a checkpoint an HTTP request may have: the decision behind
 * GET /v1/jobs/JOB/checkpoints/FOLDER/FILE?at=OFFSET&bytes=COUNT (checkpoint/remote/remote.h).
 *
 * Only files of complete and of half-written checkpoints of this job, by plain names, and only for
 * somebody who knows the link key of a plan: the one in force, the one that is being prepared, or
 * the one before, whose workers may still be on their way to a planned switch.
 */
#pragma once

#include "checkpoint/remote/remote.h"
#include "daemon/jobs/job.h"

struct checkpoint_request {
    const char *rest; /* of the address, behind .../checkpoints/ */
    uint64_t offset, size_bytes;
    const char *proof; /* NULL: none came */
};

/**
 * checkpoint_files_allow() - the path of what is asked for
 *
 * Return: 0; -ENOENT (no such page, or this node knows no such job); -EINVAL; -EACCES: no proof, or
 * not under a key that is known here. @error is for the one who asks.
 */
int checkpoint_files_allow(const struct job *job, const struct checkpoint_request *request,
                           char *ret_path, size_t path_size, struct error *error) CHECK_RESULT;
