#include "daemon/core/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/http_url.h"
#include "base/log.h"
#include "base/secrecy.h"
#include "daemon/cluster.h"
#include "daemon/core/ending.h"
#include "daemon/http/http_server.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/left_workers.h"
#include "daemon/node/link_ports.h"
#include "daemon/reconcile.h"

#define STOP_MARGIN_NS (30 * NS_PER_SECOND) /* after drain_timeout_s, to end remaining workers */

/* ---- signals ---- */

static int on_drain_deadline(sd_event_source *source, uint64_t usec, void *context)
{
    struct daemon *daemon = context;

    (void)source;
    (void)usec;
    if (!daemon->node.registry) /* deregistration is under way */
        return 0;
    log_warning("handover did not finish within %llu s; killing the remaining workers",
                daemon->config->drain_timeout_ns / NS_PER_SECOND);
    for (struct job *job = daemon->jobs; job; job = job->next)
        for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++)
            if (job->workers.processes[slot])
                worker_process_kill(job->workers.processes[slot]);
    left_workers_kill(daemon->config);
    ending_say_goodbye(daemon, EXIT_FAILURE);
    return 0;
}

static int on_stop_signal(sd_event_source *source, const struct signalfd_siginfo *info,
                          void *context)
{
    struct daemon *daemon = context;

    (void)source;
    if (info->ssi_signo == SIGUSR2) {
        log_info(
            "exiting for an upgrade; the workers keep running and the next firnd takes them over");
        daemon->ending.abandoning = true;
        ending_leave(daemon, EXIT_SUCCESS);
        return 0;
    }
    if (daemon->ending.stopping) {
        log_warning("received a second stop signal; not waiting any longer");
        return on_drain_deadline(NULL, 0, daemon);
    }
    unsigned left = daemon->keys.mirror.revision == 0 ? left_workers_count(daemon->config) : 0;
    if (left)
        log_warning("stopping: %u %s of an earlier firnd cannot hand over %s work before etcd "
                    "answers; without an answer %s ended after drain_timeout_s (%llu s)",
                    left, left == 1 ? "worker" : "workers", left == 1 ? "its" : "their",
                    left == 1 ? "it is" : "they are",
                    daemon->config->drain_timeout_ns / NS_PER_SECOND);
    else
        log_info("stopping: this node's work is handed over at the next step boundary");
    /* systemd's own limit suits only the default drain_timeout_s */
    sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%llu",
               (daemon->config->drain_timeout_ns + STOP_MARGIN_NS) / NS_PER_US);
    daemon->ending.stopping = true;
    daemon->ending.deadline_unix_ns = clock_unix_ns() + daemon->config->drain_timeout_ns;
    if (sd_event_add_time_relative(daemon->loop.event, &daemon->ending.drain_deadline,
                                   CLOCK_MONOTONIC, daemon->config->drain_timeout_ns / NS_PER_US, 0,
                                   on_drain_deadline, daemon) < 0)
        return on_drain_deadline(NULL, 0, daemon);
    if (daemon->keys.mirror.revision == 0 && !left)
        ending_leave(daemon, EXIT_SUCCESS);
    daemon_wake(daemon);
    return 0;
}

static int watch_signals(struct daemon *daemon)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR2};
    sigset_t set;
    int status = 0;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_COUNT(signals); i++)
        sigaddset(&set, signals[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL))
        return -errno;
    for (size_t i = 0; status >= 0 && i < ARRAY_COUNT(signals); i++)
        status = sd_event_add_signal(daemon->loop.event, NULL, signals[i], on_stop_signal, daemon);
    return status < 0 ? status : 0;
}

/* ---- start and end ---- */

/* Use a lock of the process (fcntl), not flock(): a child forked for a worker that has not
 * called exec yet would hold a flock() for a moment after the daemon's death, and an immediate
 * restart would fail. */
static bool take_lock(int file)
{
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(file, F_SETLK, &whole) == 0;
}

/*
 * Allow one firnd per data folder. The lock proves that the daemon which wrote the incarnation file
 * is dead, so its registration may be taken over at once instead of after its lease expires.
 */
static int lock_data_dir(struct daemon *daemon, uint64_t *ret_takeover, int *ret_lock,
                         struct error *error)
{
    const struct config *config = daemon->config;
    char path[CONFIG_TEXT_SIZE + 32], text[32] = "";

    int status = file_make_directories(config->data_dir, 0755, error);
    if (status)
        return status;
    snprintf(path, sizeof(path), "%s/incarnation", config->data_dir);
    *ret_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*ret_lock < 0)
        return error_set(error, -errno, "opening %s: %s", path, strerror(errno));
    if (!take_lock(*ret_lock))
        return error_set(error, -EBUSY, "another firnd uses %s: one data_dir a daemon",
                         config->data_dir);
    if (pread(*ret_lock, text, sizeof(text) - 1, 0) > 0)
        *ret_takeover = strtoull(text, NULL, 16) & REGISTRY_INCARNATION_MAX;
    snprintf(text, sizeof(text), "%016" PRIx64, daemon->node.incarnation);
    if (pwrite(*ret_lock, text, 16, 0) != 16)
        return error_set(error, -errno, "writing %s: %s", path, strerror(errno));
    return 0;
}

/* Allow one firnd per folder of sockets: a second one would adopt this one's workers. */
static int lock_run_dir(const struct config *config, int *ret_lock, struct error *error)
{
    char path[CONFIG_TEXT_SIZE + 16];

    snprintf(path, sizeof(path), "%s/workers", config->run_dir);
    int status = file_make_directories(path, 0750, error);
    if (status)
        return status;
    snprintf(path, sizeof(path), "%s/lock", config->run_dir);
    *ret_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (*ret_lock < 0)
        return error_set(error, -errno, "opening %s: %s", path, strerror(errno));
    if (!take_lock(*ret_lock))
        return error_set(error, -EBUSY, "another firnd uses %s: one run_dir a daemon",
                         config->run_dir);
    return 0;
}

/* Set the certificate authorities for firnd's requests to other nodes, and for its workers. */
static int name_authorities(const struct config *config, struct error *error)
{
    if (config->http_authorities[0] && setenv(HTTP_AUTHORITIES, config->http_authorities, 1))
        return error_set(error, -ENOMEM, "no memory for the environment");
    return 0;
}

static int read_token(struct daemon *daemon, struct error *error)
{
    const char *path = daemon->config->http_token;

    if (!path[0])
        return 0;
    secrecy_warn_of_file(path, "the HTTP token");
    int status = http_token_read(path, daemon->http_token, error);
    if (status)
        error_prefix(error, "http_token: ");
    return status;
}

static int daemon_open(struct daemon *daemon, int *ret_data_lock, int *ret_run_lock,
                       struct error *error)
{
    uint64_t takeover = 0;
    int status = event_loop_init(&daemon->loop);

    if (status)
        return error_set(error, status, "no event loop: %s", strerror(-status));
    if (getrandom(&daemon->node.incarnation, sizeof(daemon->node.incarnation), 0) !=
        sizeof(daemon->node.incarnation))
        return error_set(error, -EIO, "no random numbers from the kernel");
    daemon->node.incarnation = MAX(daemon->node.incarnation & REGISTRY_INCARNATION_MAX, 1ul);
    status = lock_data_dir(daemon, &takeover, ret_data_lock, error);
    if (!status)
        status = lock_run_dir(daemon->config, ret_run_lock, error);
    if (!status)
        status = watch_signals(daemon);
    if (!status)
        status = reconcile_init(daemon);
    if (status < 0)
        return error->code ? status : error_set(error, status, "starting: %s", strerror(-status));
    sd_event_set_watchdog(daemon->loop.event, true);
    status = name_authorities(daemon->config, error);
    if (!status)
        status = read_token(daemon, error);
    if (!status)
        status = http_server_start(daemon, &daemon->http, error);
    if (!status)
        status = cluster_join(daemon, takeover, error);
    return status ? status : link_ports_check(daemon->config, daemon->node.self.slot_count, error);
}

static void daemon_done(struct daemon *daemon)
{
    while (daemon->jobs) {
        struct job *job = daemon->jobs;
        daemon->jobs = job->next;
        job_close(job);
    }
    http_server_stop(daemon->http);
    cluster_part(daemon);
    reconcile_done(daemon);
    sd_event_source_disable_unref(daemon->ending.drain_deadline);
    event_loop_done(&daemon->loop);
    explicit_bzero(daemon->http_token, sizeof(daemon->http_token));
}

int daemon_run(const struct config *config)
{
    AUTO_FREE struct daemon *daemon = calloc(1, sizeof(*daemon));
    AUTO_CLOSE int data_lock = -1, run_lock = -1;
    struct error error = {0};
    int status;

    if (!daemon)
        return EXIT_FAILURE;
    daemon->config = config;
    status = daemon_open(daemon, &data_lock, &run_lock, &error);
    if (status) {
        log_error("%s", error.text[0] ? error.text : strerror(-status));
        daemon->ending.exit_code = EXIT_FAILURE;
    } else {
        if (config->etcd_key[0])
            secrecy_warn_of_file(config->etcd_key, "the key of a certificate");
        if (config->http_key[0])
            secrecy_warn_of_file(config->http_key, "the key of a certificate");
        log_info("firnd %s starts: node %s, cluster %s, etcd %s", FIRN_VERSION, config->node,
                 config->cluster, config->endpoints);
        if (event_loop_run(&daemon->loop) < 0)
            daemon->ending.exit_code = EXIT_FAILURE;
    }
    daemon_done(daemon);
    return daemon->ending.exit_code;
}
