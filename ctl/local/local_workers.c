#include "ctl/local/local_workers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_LINE_SIZE 16384

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool local_workers_parse(const char *text, size_t size_bytes, const char *socket_prefix,
                         struct local_worker *ret_worker)
{
    const char *socket_path = NULL, *slot = NULL, *job = NULL, *flag = "";

    if (size_bytes == 0 || text[size_bytes - 1] || strcmp(last_part(text), "firn-worker"))
        return false;
    for (const char *word = text; word < text + size_bytes; word += strlen(word) + 1) {
        if (!strcmp(flag, "--socket"))
            socket_path = word;
        else if (!strcmp(flag, "--slot"))
            slot = word;
        else if (!strcmp(flag, "--job"))
            job = word;
        flag = word;
    }
    if (!socket_path || !slot || strncmp(socket_path, socket_prefix, strlen(socket_prefix)))
        return false;
    ret_worker->slot = (unsigned)strtoul(slot, NULL, 10);
    snprintf(ret_worker->job, sizeof(ret_worker->job), "%s", job ? job : "");
    return true;
}

static bool look_at(pid_t pid, const char *socket_prefix, struct local_worker *ret_worker)
{
    char path[64], text[COMMAND_LINE_SIZE];

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text));
    return length > 0 && local_workers_parse(text, (size_t)length, socket_prefix, ret_worker) &&
           !process_identify(pid, &ret_worker->process);
}

unsigned local_workers_find(const struct local_cluster *cluster, const char *node,
                            struct local_worker ret_workers[LOCAL_WORKERS_MAX])
{
    char prefix[LOCAL_PATH_SIZE + NAME_SIZE + 2];
    unsigned count = 0;
    DIR *proc = opendir("/proc");

    snprintf(prefix, sizeof(prefix), "%s/%s/", cluster->run_root, node);
    for (struct dirent *entry; proc && (entry = readdir(proc)) && count < LOCAL_WORKERS_MAX;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && look_at(pid, prefix, &ret_workers[count]))
            count++;
    }
    if (proc)
        closedir(proc);
    return count;
}
