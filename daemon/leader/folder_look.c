#include "daemon/leader/folder_look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/read/reader.h"

#define FOLDER_PATH_SIZE 1024
#define FRESH_NS         (10 * NS_PER_SECOND) /* an older result is not taken */

struct look {
    char path[FOLDER_PATH_SIZE];
    int status;
    struct error error;
};

struct folder_look {
    struct errand *errand;
    char path[FOLDER_PATH_SIZE]; /* of the look under way */
};

static void run(void *load)
{
    struct look *look = load;

    look->status = checkpoint_look(look->path, &look->error);
}

static int begin(struct folder_look *folder, const char *path)
{
    static const struct errand_work work = {.run = run, .drop = free};
    struct look *look = calloc(1, sizeof(*look));

    if (!look)
        return -ENOMEM;
    snprintf(look->path, sizeof(look->path), "%s", path);
    snprintf(folder->path, sizeof(folder->path), "%s", path);
    return errand_start(folder->errand, &work, look);
}

struct folder_look *folder_look_new(const struct loop *loop, void (*ended)(void *user), void *user)
{
    struct folder_look *folder = calloc(1, sizeof(*folder));

    if (folder)
        folder->errand = errand_new(loop, ended, user);
    if (folder && folder->errand)
        return folder;
    free(folder);
    return NULL;
}

void folder_look_free(struct folder_look *folder)
{
    if (folder)
        errand_free(folder->errand);
    free(folder);
}

bool folder_look_at(struct folder_look *folder, const char *path, int *ret_status,
                    struct error *error)
{
    struct errand *errand = folder->errand;
    const struct look *seen = errand_result(errand);

    if (seen && (strcmp(seen->path, path) != 0 || errand_age_ns(errand) > FRESH_NS)) {
        errand_forget(errand);
        seen = NULL;
    }
    if (!seen && !errand_runs(errand)) {
        *ret_status = begin(folder, path);
        if (*ret_status) {
            error_set(error, *ret_status, "looking at %s: %s", path, strerror(-*ret_status));
            return true;
        }
        seen = errand_result(errand);
    }
    if (seen) {
        *ret_status = seen->status;
        *error = seen->error;
        errand_forget(errand);
        return true;
    }
    if (errand_age_ns(errand) < ERRAND_PATIENCE_NS)
        return false;
    *ret_status =
        error_set(error, -ETIMEDOUT, "%s: its disk or file server has not answered for %.0f s",
                  folder->path, (double)errand_age_ns(errand) / 1e9);
    return true;
}
