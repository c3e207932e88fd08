#include "worker/session/restored_folder.h"

#include <stdio.h>

#include "checkpoint/format/folder.h"
#include "worker/session/trainer.h"

void restored_folder_format(const struct trainer *trainer, char ret_folder[JOB_PATH_SIZE])
{
    const struct plan *plan = trainer->plan;

    if (plan->start.restore_sha256[0])
        checkpoint_path(trainer->options->checkpoint_dir, plan->start.resume_step, ret_folder);
    else
        snprintf(ret_folder, JOB_PATH_SIZE, "%s", plan->start.restore_path);
}
