/*
 * Decide which file of a checkpoint, or of kept outputs, an HTTP request may read:
 * GET /v1/jobs/JOB/checkpoints/FOLDER/FILE?at=OFFSET&bytes=COUNT (checkpoint/remote/remote.h).
 *
 * Allow only plain names of files in this job's checkpoints, complete or half-written, and in its
 * kept outputs of frozen layers. The client must prove that it knows the link key of a plan: the
 * plan in force, the prepared plan, or the plan before, whose workers may still be about to make a
 * planned switch.
 */
#pragma once

#include "checkpoint/remote/remote.h"
#include "daemon/jobs/job.h"

struct checkpoint_request {
    const char *rest; /* part of the path after .../checkpoints/ */
    uint64_t offset, size_bytes;
    const char *proof; /* NULL: none sent */
};

/**
 * checkpoint_files_allow() - return the path of the requested file
 * @ret_key: under which the proof is valid, for the seal of the answer
 *
 * Return: 0; -ENOENT (no such page, or this node knows no such job); -EINVAL; -EACCES: no proof, or
 * a proof under an unknown key. @error is for the client.
 */
int checkpoint_files_allow(const struct job *job, const struct checkpoint_request *request,
                           char *ret_path, size_t path_size, uint8_t ret_key[CHECKPOINT_KEY_SIZE],
                           struct error *error) CHECK_RESULT;
