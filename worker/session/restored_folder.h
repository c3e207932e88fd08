/* The folder of the checkpoint that the plan in force restores. */
#pragma once

#include "elastic/job/job_spec.h"

struct trainer;

/** restored_folder_format() - format the folder; with copies, of this node's part */
void restored_folder_format(const struct trainer *trainer, char ret_folder[JOB_PATH_SIZE]);
