/* Name the folder of a job on a node, with its metrics, events and logs. */
#pragma once

#include "daemon/config/config.h"

/** job_dir_format() - format <data_dir>/jobs/<job> */
void job_dir_format(const struct config *config, const char *job, char ret_path[CONFIG_TEXT_SIZE]);
