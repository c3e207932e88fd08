#include "daemon/jobs/job_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/jobs/frozen_folder.h"

#define FOLDER_PATH_SIZE  1024
#define REVISION_TEXT_MAX 64

/* Return the revision in the file; 0: no such file (a new folder, or one of an earlier firnd). */
static int64_t read_revision(const char *path)
{
    struct bytes text = {0};
    int64_t revision = 0;

    if (!file_read(path, REVISION_TEXT_MAX, &text, NULL))
        revision = strtoll((const char *)text.data, NULL, 10);
    bytes_done(&text);
    return revision;
}

static int set_aside(const char *dir, int64_t revision, struct error *error)
{
    char aside[FOLDER_PATH_SIZE];

    snprintf(aside, sizeof(aside), "%s.%" PRId64, dir, revision);
    if (rename(dir, aside))
        return error_set(error, -errno, "setting %s aside as %s: %s", dir, aside, strerror(errno));
    log_info("the folder of an earlier job of this name is now %s", aside);
    frozen_folder_remove(aside);
    return 0;
}

int job_folder_open(const char *dir, int64_t created, bool *ret_was_its, struct error *error)
{
    char path[FOLDER_PATH_SIZE], text[REVISION_TEXT_MAX];
    int64_t revision;
    int status = 0;

    snprintf(path, sizeof(path), "%s/submission", dir);
    revision = read_revision(path);
    *ret_was_its = revision == created;
    if (revision && revision != created)
        status = set_aside(dir, revision, error);
    if (!status)
        status = file_make_directories(dir, 0755, error);
    if (status || revision == created)
        return status;
    snprintf(text, sizeof(text), "%" PRId64 "\n", created);
    return file_replace(path, text, strlen(text), 0644, error);
}
