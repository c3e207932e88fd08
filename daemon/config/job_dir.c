#include "daemon/config/job_dir.h"

#include <stdio.h>

void job_dir_format(const struct config *config, const char *job, char ret_path[CONFIG_TEXT_SIZE])
{
    snprintf(ret_path, CONFIG_TEXT_SIZE, "%.*s/jobs/%.*s", CONFIG_TEXT_SIZE - NAME_SIZE - 16,
             config->data_dir, NAME_SIZE - 1, job);
}
