/*
 * Open the node's folder of a job: metrics, events, logs. It belongs to one submission. When a job
 * was removed and another job takes its name, the old folder is renamed to <folder>.<revision of
 * its submission>, so that the new run is not compared with the old run's metrics.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/**
 * job_folder_open() - ensure that @dir is the folder of the submission at revision @created
 * @ret_was_its: whether it already was; if not, running workers of this name belong to an earlier
 * job
 */
int job_folder_open(const char *dir, int64_t created, bool *ret_was_its,
                    struct error *error) CHECK_RESULT;
