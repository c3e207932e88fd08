/* firnctl job submit --from: a job that begins where a checkpoint ends. */
#pragma once

#include "elastic/job_spec.h"
#include "membership/records.h"

/**
 * job_from_checkpoint() - the commit record that makes a new job of @spec begin from @path
 * @path: of a checkpoint, or of a folder of them, of which the newest is taken; reachable under the
 * same absolute path from the nodes
 *
 * The model must be the checkpoint's. What else differs from the job that wrote it (data, training,
 * freezing) is allowed, but said on stderr: the run is not that run then.
 * Return: 0; -ENOENT, -EINVAL (another model, or nothing is left to train), -EBADMSG (damaged)
 */
int job_from_checkpoint(const char *path, const struct job_spec *spec,
                        struct checkpoint_record *ret_record, struct error *error) CHECK_RESULT;
