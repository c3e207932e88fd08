#include "daemon/jobs/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define CONNECT_RETRY_US   5000      /* while the worker starts */
#define CONNECT_AGAIN_US   100000    /* after the worker closed the connection */
#define CONNECT_REFUSED_US 1000000   /* after another process was found at the socket */
#define LOG_KEEP_BYTES     (8 << 20) /* a larger log is started anew */

struct worker_process {
    sd_event *event;
    const struct config *config;
    const struct worker_process_callbacks *callbacks;
    void *context;
    char job[NAME_SIZE];
    unsigned slot;
    pid_t pid;
    bool child; /* a child, for which firnd must wait; an adopted worker is init's child */
    int pidfd, connection;
    char socket_path[CONFIG_TEXT_SIZE], log_path[CONFIG_TEXT_SIZE];
    sd_event_source *death, *retry, *readable, *writable;
    struct bytes received, unsent;
};

void worker_process_socket(const struct config *config, const char *job, unsigned slot,
                           char ret_path[CONFIG_TEXT_SIZE])
{
    snprintf(ret_path, CONFIG_TEXT_SIZE, "%.*s/workers/%.*s.%u.sock",
             CONFIG_TEXT_SIZE - NAME_SIZE - 32, config->run_dir, NAME_SIZE - 1, job, slot);
}

int worker_process_pid(const struct worker_process *process)
{
    return process->pid;
}

/* ---- the connection ---- */

static void disconnect(struct worker_process *process)
{
    process->readable = sd_event_source_disable_unref(process->readable);
    process->writable = sd_event_source_disable_unref(process->writable);
    if (process->connection >= 0)
        close(process->connection);
    process->connection = -1;
    process->received.size_bytes = process->unsent.size_bytes = 0;
}

static int connect_later(struct worker_process *process, uint64_t pause_us);

/*
 * Reconnect. The worker closes the connection to a firnd that was stopped for so long that it read
 * nothing. If the worker has exited, the pidfd reports it.
 */
static void connection_lost(struct worker_process *process)
{
    disconnect(process);
    int status = connect_later(process, CONNECT_AGAIN_US);
    if (status < 0)
        log_error("job %s, slot %u: cannot connect to the worker again: %s", process->job,
                  process->slot, strerror(-status));
}

static int on_readable(sd_event_source *source, int descriptor, uint32_t events, void *context)
{
    struct worker_process *process = context;
    uint8_t chunk[65536];
    ssize_t size = recv(descriptor, chunk, sizeof(chunk), MSG_DONTWAIT);

    (void)source;
    (void)events;
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (size <= 0 || bytes_append(&process->received, chunk, (size_t)size)) {
        connection_lost(process);
        return 0;
    }
    for (;;) {
        struct error error = {0};
        AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
        int status = message ? control_unpack(&process->received, message, &error) : -ENOMEM;
        if (status < 0) {
            log_error("job %s, slot %u: a message from the worker is not understood: %s",
                      process->job, process->slot, message ? error.text : "no memory");
            connection_lost(process);
        }
        if (status != 1)
            return 0;
        process->callbacks->message(process->context, process->job, process->slot, message);
        control_message_done(message);
    }
}

static void flush_unsent(struct worker_process *process)
{
    while (process->connection >= 0 && process->unsent.size_bytes > 0) {
        ssize_t sent = send(process->connection, process->unsent.data, process->unsent.size_bytes,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0)
            break;
        bytes_consume(&process->unsent, (size_t)sent);
    }
    if (process->writable)
        sd_event_source_set_enabled(process->writable,
                                    process->unsent.size_bytes ? SD_EVENT_ON : SD_EVENT_OFF);
}

static int on_writable(sd_event_source *source, int descriptor, uint32_t events, void *context)
{
    (void)source;
    (void)descriptor;
    (void)events;
    flush_unsent(context);
    return 0;
}

static int watch_connection(struct worker_process *process)
{
    int writer =
        fcntl(process->connection, F_DUPFD_CLOEXEC, 3); /* epoll accepts a descriptor only once */
    int status;

    if (writer < 0)
        return -errno;
    status = sd_event_add_io(process->event, &process->readable, process->connection, EPOLLIN,
                             on_readable, process);
    if (status >= 0)
        status = sd_event_add_io(process->event, &process->writable, writer, EPOLLOUT, on_writable,
                                 process);
    if (status < 0) {
        close(writer);
        return status;
    }
    sd_event_source_set_io_fd_own(process->writable, true);
    return sd_event_source_set_enabled(process->writable, SD_EVENT_OFF);
}

/* Check the socket's owner: any process that may write to the folder of sockets could put its
 * own socket there. */
static int check_peer(const struct worker_process *process)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(process->connection, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return -errno;
    if ((peer.uid == geteuid() || peer.uid == 0) && (!process->child || peer.pid == process->pid))
        return 0;
    log_error("%s: process %d of user %u listens there, not the worker; remove the socket and "
              "check the permissions of its folder",
              process->socket_path, (int)peer.pid, peer.uid);
    return -EPERM;
}

/* Return -EAGAIN if the worker accepts no connection, such as while it is stopped. */
static int connect_socket(struct worker_process *process)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int status = 0;

    if (connection < 0)
        return -errno;
    if (strlen(process->socket_path) >= sizeof(address.sun_path)) {
        close(connection);
        return -ENAMETOOLONG;
    }
    strcpy(address.sun_path, process->socket_path);
    if (connect(connection, (struct sockaddr *)&address, sizeof(address))) {
        status = -errno;
        close(connection);
        return status;
    }
    process->connection = connection;
    status = check_peer(process);
    if (status) {
        close(connection);
        process->connection = -1;
    }
    return status;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *context)
{
    struct worker_process *process = context;
    int status = connect_socket(process);

    (void)usec;
    if (status) { /* the worker is still starting; if it died, the pidfd reports it */
        sd_event_source_set_time_relative(source,
                                          status == -EPERM ? CONNECT_REFUSED_US : CONNECT_RETRY_US);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
    }
    status = watch_connection(process);
    if (status < 0) {
        log_error("job %s, slot %u: watching the worker's socket: %s", process->job, process->slot,
                  strerror(-status));
        connection_lost(process);
        return 0;
    }
    process->callbacks->connected(process->context, process->job, process->slot);
    return 0;
}

static int connect_later(struct worker_process *process, uint64_t pause_us)
{
    process->retry = sd_event_source_disable_unref(process->retry);
    return sd_event_add_time_relative(process->event, &process->retry, CLOCK_MONOTONIC, pause_us,
                                      1000, on_retry, process);
}

void worker_process_send(struct worker_process *process, const struct control_message *message)
{
    if (process->connection < 0)
        return;
    if (control_pack(message, &process->unsent)) {
        log_error("no memory for a message to a worker");
        return;
    }
    flush_unsent(process);
}

/* ---- the process ---- */

/* Use the pidfd: the number of an exited process may belong to another one. */
static int send_kill(const struct worker_process *process)
{
    if (process->pidfd >= 0 && pidfd_send_signal(process->pidfd, SIGKILL, NULL, 0) == 0)
        return 0;
    if (process->pidfd >= 0 && errno != ENOSYS)
        return -errno;
    return kill(process->pid, SIGKILL) ? -errno : 0;
}

/* Return the last line of the worker's log, the first thing that an operator wants to read. For
 * an error, return only the message: the events have its time and place. */
static void last_words(const struct worker_process *process, char *ret_words, size_t size)
{
    char tail[1024];
    AUTO_CLOSE int log = open(process->log_path, O_RDONLY | O_CLOEXEC);
    off_t end = log >= 0 ? lseek(log, 0, SEEK_END) : 0;
    off_t from = end > (off_t)sizeof(tail) - 1 ? end - ((off_t)sizeof(tail) - 1) : 0;
    ssize_t length = log >= 0 ? pread(log, tail, sizeof(tail) - 1, from) : 0;

    ret_words[0] = '\0';
    while (length > 0 && tail[length - 1] == '\n')
        length--;
    if (length <= 0)
        return;
    tail[length] = '\0';
    const char *line = strrchr(tail, '\n');
    line = line ? line + 1 : tail;
    const char *words = strstr(line, ": error: ");
    snprintf(ret_words, size, "%.*s", (int)size - 1, words ? words + strlen(": error: ") : line);
    for (char *at = ret_words; *at; at++) /* a log may contain any bytes, JSON may not */
        *at = *at >= ' ' && *at <= '~' ? *at : '?';
}

static int reap(struct worker_process *process)
{
    siginfo_t info = {0};

    if (!process->child || waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG) ||
        !info.si_pid)
        return process->child ? -SIGKILL : 0;
    return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

static int on_death(sd_event_source *source, int descriptor, uint32_t events, void *context)
{
    struct worker_process *process = context;
    char words[REPORT_TEXT_SIZE];
    int exit_code;

    (void)source;
    (void)descriptor;
    (void)events;
    if (process->readable && process->connection >= 0) /* read the last messages before the exit */
        on_readable(process->readable, process->connection, EPOLLIN, process);
    exit_code = reap(process);
    last_words(process, words, sizeof(words));
    process->callbacks->exited(process->context, process->job, process->slot, exit_code, words);
    worker_process_free(process);
    return 0;
}

static int watch_process(struct worker_process *process)
{
    int status;

    process->pidfd = pidfd_open(process->pid, 0);
    if (process->pidfd < 0)
        return -errno;
    status = sd_event_add_io(process->event, &process->death, process->pidfd, EPOLLIN, on_death,
                             process);
    return status < 0 ? status : 0;
}

static struct worker_process *process_new(const struct worker_process_options *options)
{
    struct worker_process *process = calloc(1, sizeof(*process));

    if (!process)
        return NULL;
    *process = (struct worker_process){
        .event = options->event,
        .config = options->config,
        .callbacks = options->callbacks,
        .context = options->context,
        .slot = options->slot,
        .pidfd = -1,
        .connection = -1,
    };
    snprintf(process->job, sizeof(process->job), "%s", options->job);
    worker_process_socket(options->config, options->job, options->slot, process->socket_path);
    snprintf(process->log_path, sizeof(process->log_path), "%s/worker-%u.log", options->job_dir,
             options->slot);
    return process;
}

void worker_process_free(struct worker_process *process)
{
    if (!process)
        return;
    disconnect(process);
    sd_event_source_disable_unref(process->death);
    sd_event_source_disable_unref(process->retry);
    if (process->pidfd >= 0)
        close(process->pidfd);
    bytes_done(&process->received);
    bytes_done(&process->unsent);
    free(process);
}

static int open_log(const struct worker_process *process)
{
    struct stat status;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;

    if (!stat(process->log_path, &status) && status.st_size > LOG_KEEP_BYTES)
        flags |= O_TRUNC;
    return open(process->log_path, flags, 0640);
}

/*
 * Run in the child. The child has its own session, so that a signal to firnd's group does not reach
 * it. Without a socket another firnd could not find the worker, so it is set to die with firnd. The
 * worker reverts that when its socket is up (worker/session/trainer.c).
 */
static void become_worker(const struct worker_process_options *options, pid_t parent, int log,
                          char *const arguments[])
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(126);
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(126);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    setenv("OMP_WAIT_POLICY", "passive", 0); /* slots may share cores: do not spin while waiting */
    if (options->device[0])                  /* restrict the worker to one GPU */
        setenv("CUDA_VISIBLE_DEVICES", options->device, 1);
    execve(options->config->worker, arguments, environ);
    dprintf(2, "cannot run %s: %s\n", options->config->worker, strerror(errno));
    _exit(127);
}

static int fork_worker(struct worker_process *process, const struct worker_process_options *options)
{
    const struct config *config = options->config;
    char slot[16], threads[16], listen[ADDRESS_SIZE + 8], timeout[32];
    char digests[CONFIG_TEXT_SIZE]; /* digests of the training data of all jobs */
    AUTO_CLOSE int log = open_log(process);

    if (log < 0)
        return -errno;
    snprintf(slot, sizeof(slot), "%u", options->slot);
    snprintf(threads, sizeof(threads), "%u", config->threads);
    snprintf(listen, sizeof(listen), "%s:%u", config->address, config->link_port + options->slot);
    snprintf(digests, sizeof(digests), "%.*s/data-digests", CONFIG_TEXT_SIZE - 16,
             config->data_dir);
    snprintf(timeout, sizeof(timeout), "%llu",
             (unsigned long long)(config->failure_timeout_ns / NS_PER_MS));
    const char *arguments[] = {
        "firn-worker",
        "--job",
        options->job,
        "--node",
        config->node,
        "--slot",
        slot,
        "--threads",
        threads,
        "--listen",
        listen,
        "--socket",
        process->socket_path,
        "--spec",
        options->spec_path,
        "--job-dir",
        options->job_dir,
        "--checkpoint-dir",
        options->checkpoint_dir,
        "--data-digests-dir",
        digests,
        "--failure-timeout-ms",
        timeout,
        NULL, /* room for optional arguments */
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
    };
    size_t count = 0;
    while (arguments[count])
        count++;
    if (config->link_checksums)
        arguments[count++] = "--link-checksums";
    if (config->link_any_address)
        arguments[count++] = "--link-any-address";
    if (config->device_digests)
        arguments[count++] = "--device-digests";
    if (options->device[0]) {
        arguments[count++] = "--device";
        arguments[count++] = "cuda";
    }
    pid_t self = getpid();
    process->pid = fork();
    if (process->pid < 0)
        return -errno;
    if (process->pid == 0)
        become_worker(options, self, log, (char *const *)(uintptr_t)arguments);
    process->child = true;
    return 0;
}

int worker_process_spawn(const struct worker_process_options *options,
                         struct worker_process **ret_process, struct error *error)
{
    struct worker_process *process = process_new(options);
    int status = process ? 0 : -ENOMEM;

    if (!status) {
        unlink(process->socket_path);
        status = fork_worker(process, options);
    }
    if (!status)
        status = watch_process(process);
    if (!status && (status = connect_later(process, CONNECT_RETRY_US)) >= 0) {
        *ret_process = process;
        return 0;
    }
    if (process && process->pid > 0)
        (void)send_kill(process);
    worker_process_free(process);
    return error_set(error, status, "starting a worker on slot %u: %s", options->slot,
                     strerror(-status));
}

static int peer_pid(int connection, pid_t *ret_pid)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return -errno;
    *ret_pid = peer.pid;
    return 0;
}

static bool is_connected(int connection)
{
    struct pollfd state = {.fd = connection};

    return poll(&state, 1, 0) >= 0 && !(state.revents & (POLLHUP | POLLERR));
}

int worker_process_adopt(const struct worker_process_options *options,
                         struct worker_process **ret_process, struct error *error)
{
    struct worker_process *process = process_new(options);
    int status = process ? connect_socket(process) : -ENOMEM;

    if (!status)
        status = peer_pid(process->connection, &process->pid);
    if (!status)
        status = watch_process(process);
    if (!status) /* the process is alive, so the pidfd refers to the worker */
        status = is_connected(process->connection) ? watch_connection(process) : -ECONNRESET;
    if (status < 0) {
        worker_process_free(process);
        return error_set(error, status, "taking over the worker on slot %u: %s", options->slot,
                         strerror(-status));
    }
    *ret_process = process;
    return 0;
}

void worker_process_kill(struct worker_process *process)
{
    int status = send_kill(process);

    if (status && status != -ESRCH)
        log_error("killing worker %d: %s", process->pid, strerror(-status));
}
