#include "ctl/local/program_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The default PATH, with the sbin folders, where Debian installs daemons. */
#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

static bool beside_us(const char *name, char ret_path[PROCESS_PATH_SIZE])
{
    char self[PROCESS_PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash = length > 0 ? memrchr(self, '/', (size_t)length) : NULL;

    return slash &&
           snprintf(ret_path, PROCESS_PATH_SIZE, "%.*s/%s", (int)(slash - self), self, name) <
               PROCESS_PATH_SIZE &&
           !access(ret_path, X_OK);
}

static bool on_path(const char *folders, const char *name, char ret_path[PROCESS_PATH_SIZE])
{
    for (const char *at = folders; at && *at;) {
        size_t length = strcspn(at, ":");
        if (length && at[0] == '/' &&
            snprintf(ret_path, PROCESS_PATH_SIZE, "%.*s/%s", (int)length, at, name) <
                PROCESS_PATH_SIZE &&
            !access(ret_path, X_OK))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

int program_path_find(const char *name, char ret_path[PROCESS_PATH_SIZE], struct error *error)
{
    if (beside_us(name, ret_path) || on_path(getenv("PATH"), name, ret_path) ||
        on_path(PATH_DEFAULT, name, ret_path))
        return 0;
    return error_set(error, -ENOENT, "the program %s is neither beside firnctl nor on PATH%s", name,
                     strcmp(name, "etcd") ? "" : " (on Debian: apt install etcd-server)");
}
