/* Take keys of `model` that a job file leaves out from the folder of `model.from`. */
#pragma once

#include <jansson.h>

#include "base/compiler.h"
#include "base/error.h"

/**
 * job_pretrained_fill() - fill the keys that the job file leaves out from the folder's config.json
 * @root: a job's tree, changed; no effect without model.from
 * @folder: base of relative paths
 *
 * -EINVAL: config.json contradicts the job file, or describes a model that firn does not support;
 * errors of reading it; -ENOMEM.
 */
int job_pretrained_fill(json_t *root, const char *folder, struct error *error) CHECK_RESULT;
