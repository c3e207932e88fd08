#include "ctl/local/local_stop.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/local/local_workers.h"

#define GRACE_NS        (5 * NS_PER_SECOND) /* between asking and killing */
#define REMOVE_OPEN_MAX 16

static int await_end(const struct process *process, const char *what, uint64_t deadline_ns,
                     struct error *error)
{
    if (!process_wait(process, deadline_ns))
        return 0;
    return error_set(error, -ETIMEDOUT, "%s (process %d) does not end", what, (int)process->pid);
}

int local_kill_daemon(const struct local_node *node, uint64_t deadline_ns, struct error *error)
{
    int status = process_signal(&node->process, SIGKILL);

    if (status)
        return error_set(error, status, "node %s: %s", node->name,
                         status == -ESRCH ? "its firnd is not running" : strerror(-status));
    return await_end(&node->process, "firnd", deadline_ns, error);
}

int local_kill_workers(const struct local_cluster *cluster, const char *node, int slot,
                       uint64_t deadline_ns, unsigned *ret_count, struct error *error)
{
    AUTO_FREE struct local_worker *workers = calloc(LOCAL_WORKERS_MAX, sizeof(*workers));
    unsigned killed = 0;
    int status = workers ? 0 : error_set(error, -ENOMEM, "no memory");

    /* Look again: a worker that was just being started appears only at the second look. */
    for (bool found = true; found && !status;) {
        unsigned count = local_workers_find(cluster, node, workers);
        found = false;
        for (unsigned i = 0; i < count && !status; i++) {
            if (slot >= 0 && workers[i].slot != (unsigned)slot)
                continue;
            found = slot < 0;
            killed += process_signal(&workers[i].process, SIGKILL) == 0;
            status = await_end(&workers[i].process, "a worker", deadline_ns, error);
        }
    }
    *ret_count = killed;
    return status;
}

/* Wait a short time for the process to end, then send SIGKILL. */
static int end_process(const struct process *process, const char *what, uint64_t deadline_ns,
                       struct error *error)
{
    uint64_t grace_ns = MIN(clock_monotonic_ns() + GRACE_NS, deadline_ns);

    if (process_wait(process, grace_ns) && process_signal(process, SIGKILL) == -EPERM)
        return error_set(error, -EPERM,
                         "%s (process %d) belongs to another user and cannot be ended here", what,
                         (int)process->pid);
    return await_end(process, what, deadline_ns, error);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

int local_stop_all(const struct local_cluster *cluster, uint64_t deadline_ns, struct error *error)
{
    unsigned killed;
    int status = 0;

    for (unsigned i = 0; i < cluster->node_count; i++)
        if (process_signal(&cluster->nodes[i].process, SIGTERM) == -EPERM)
            return error_set(error, -EPERM, "this cluster belongs to another user");
    for (unsigned i = 0; i < cluster->node_count && !status; i++)
        status = end_process(&cluster->nodes[i].process, "firnd", deadline_ns, error);
    for (unsigned i = 0; i < cluster->node_count && !status; i++)
        status =
            local_kill_workers(cluster, cluster->nodes[i].name, -1, deadline_ns, &killed, error);
    if (!status && process_signal(&cluster->etcd, SIGTERM) == 0)
        status = end_process(&cluster->etcd, "etcd", deadline_ns, error);
    if (!status)
        status = local_state_remove(cluster, error);
    if (!status)
        nftw(cluster->run_root, remove_entry, REMOVE_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
    return status;
}
