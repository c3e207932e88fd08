#include "daemon/jobs/frozen_folder.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/config/config.h"

#define PATH_SIZE (CONFIG_TEXT_SIZE + 300)

static void *remove_folder(void *argument)
{
    AUTO_FREE char *folder = argument;
    DIR *directory = opendir(folder);

    if (!directory)
        return NULL;
    /* Use the open folder: the job's folder may be renamed meanwhile. */
    for (const struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    if (rmdir(folder) && errno != ENOENT)
        log_warning("outputs of frozen layers cannot be removed: %s: %s", folder, strerror(errno));
    return NULL;
}

void frozen_folder_remove(const char *job_dir)
{
    sigset_t all, before;
    pthread_t thread;
    char *folder = NULL;

    if (asprintf(&folder, "%s/frozen", job_dir) < 0)
        return;
    if (access(folder, F_OK)) {
        free(folder);
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the main thread */
    if (pthread_create(&thread, NULL, remove_folder, folder)) {
        log_warning("no thread to remove %s", folder);
        free(folder);
    } else {
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void frozen_folder_sweep(const char *jobs_dir, bool (*is_known)(void *context, const char *job),
                         void *context)
{
    char path[PATH_SIZE];
    DIR *directory = opendir(jobs_dir);

    if (!directory)
        return;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.' || is_known(context, entry->d_name))
            continue;
        snprintf(path, sizeof(path), "%s/%s", jobs_dir, entry->d_name);
        frozen_folder_remove(path);
    }
    closedir(directory);
}
