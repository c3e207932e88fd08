#include "daemon/jobs/left_workers.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"
#include "daemon/config/config.h"

/* Connect to the socket of a worker. The socket of a dead worker refuses the connection; -EAGAIN:
 * the worker is stopped and its queue of connections is full. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (connection < 0)
        return -errno;
    if (strlen(path) >= sizeof(address.sun_path)) {
        close(connection);
        return -ENAMETOOLONG;
    }
    strcpy(address.sun_path, path);
    if (!connect(connection, (struct sockaddr *)&address, sizeof(address)))
        return connection;
    int status = -errno;
    close(connection);
    return status;
}

/* Return the worker's process id, valid as long as the connection; 0: no worker. */
static pid_t worker_at(int connection)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return connection >= 0 && !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size)
               ? peer.pid
               : 0;
}

/* Return whether a worker lives at the socket @path. */
static bool look_at(const char *path, bool kills)
{
    int status = connect_to(path);
    AUTO_CLOSE int connection = status < 0 ? -1 : status;
    pid_t pid = worker_at(connection);

    if (kills && status == -EAGAIN)
        log_error(
            "the worker at %s does not respond and its process id is unknown; it is left running",
            path);
    if (kills && pid > 0 && kill(pid, SIGKILL) && errno != ESRCH)
        log_error("killing worker %d: %s", pid, strerror(errno));
    return pid > 0 || status == -EAGAIN;
}

static unsigned go_over(const struct config *config, bool kills)
{
    char folder[CONFIG_TEXT_SIZE + 16], path[sizeof(folder) + NAME_MAX + 1];
    unsigned count = 0;

    snprintf(folder, sizeof(folder), "%s/workers", config->run_dir);
    DIR *sockets = opendir(folder);
    for (const struct dirent *entry; sockets && (entry = readdir(sockets));) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        count += look_at(path, kills);
    }
    if (sockets)
        closedir(sockets);
    return count;
}

unsigned left_workers_count(const struct config *config)
{
    return go_over(config, false);
}

void left_workers_kill(const struct config *config)
{
    go_over(config, true);
}
