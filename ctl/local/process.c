#include "ctl/local/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* ---- starting ---- */

/* Run in the child, which keeps no descriptor of ours but @log, and @report until exec. */
static void become(const char *program, const char *const *arguments, int log, int report)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setsid();
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0 && dup2(null, 0) >= 0 && dup2(log, 1) >= 0 && dup2(log, 2) >= 0 &&
        dup3(report, 3, O_CLOEXEC) >= 0) {
        close_range(4, ~0u, 0);
        setenv("FIRN_DUMPABLE", "1", 0); /* else only root could identify it by its program */
        execv(program, (char *const *)(uintptr_t)arguments);
        report = 3;
    }
    int reason = errno;
    if (write(report, &reason, sizeof(reason)) < 0)
        _exit(126);
    _exit(127);
}

/* Wait for exec: the pipe closes by itself on success, and carries errno after a failure. */
static int await_exec(int report)
{
    int reason = 0;
    ssize_t got;

    do
        got = read(report, &reason, sizeof(reason));
    while (got < 0 && errno == EINTR);
    return got == sizeof(reason) ? -reason : 0;
}

int process_spawn(const char *program, const char *const *arguments, const char *log_path,
                  struct process *ret_process, struct error *error)
{
    AUTO_CLOSE int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    AUTO_CLOSE int read_end = -1, write_end = -1;
    int ends[2];

    if (log < 0)
        return error_set(error, -errno, "%s: %s", log_path, strerror(errno));
    /* Stay above the descriptors that the child rearranges. */
    int high_log = fcntl(log, F_DUPFD_CLOEXEC, 10);
    if (high_log < 0 || pipe2(ends, O_CLOEXEC))
        return error_set(error, -errno, "starting %s: %s", program, strerror(errno));
    close(log);
    log = high_log;
    read_end = ends[0];
    write_end = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    close(ends[1]);
    pid_t pid = fork();
    if (pid == 0)
        become(program, arguments, log, write_end);
    close(write_end);
    write_end = -1;
    int status = pid < 0 ? -errno : await_exec(read_end);
    if (!status)
        status = process_identify(pid, ret_process);
    if (status)
        return error_set(error, status, "starting %s: %s; see %s", program, strerror(-status),
                         log_path);
    return 0;
}

/* ---- finding again ---- */

/* Read field 22 of stat; the name in field 2 may have any bytes, so count from its last bracket. */
static int read_stat(pid_t pid, char *ret_state, uint64_t *ret_start_ticks)
{
    char path[64], text[1024];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
    if (length <= 0)
        return -ESRCH;
    text[length] = '\0';
    const char *at = strrchr(text, ')');
    if (!at || !at[1])
        return -ESRCH;
    *ret_state = at[2];
    for (unsigned field = 2; field < 22 && at; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return -ESRCH;
    *ret_start_ticks = strtoull(at + 1, NULL, 10); /* always a number */
    return 0;
}

static int read_program(pid_t pid, char ret_program[PROCESS_PATH_SIZE])
{
    static const char deleted[] = " (deleted)"; /* the file was replaced by a newer build */
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(path, ret_program, PROCESS_PATH_SIZE - 1);
    if (length <= 0)
        return -ESRCH;
    ret_program[length] = '\0';
    char *end = ret_program + length - (ssize_t)strlen(deleted);
    if (end > ret_program && !strcmp(end, deleted))
        *end = '\0';
    return 0;
}

int process_identify(pid_t pid, struct process *ret_process)
{
    struct process process = {.pid = pid};
    char state;

    if (pid <= 0 || read_stat(pid, &state, &process.start_ticks) || state == 'Z' || state == 'X' ||
        read_program(pid, process.program))
        return -ESRCH;
    *ret_process = process;
    return 0;
}

bool process_alive(const struct process *process)
{
    struct process now;

    return process->pid > 0 && !process_identify(process->pid, &now) &&
           now.start_ticks == process->start_ticks && !strcmp(now.program, process->program);
}

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int process_signal(const struct process *process, int signal)
{
    AUTO_CLOSE int descriptor = process->pid > 0 ? open_pidfd(process->pid) : -1;

    /* Compare only now that the descriptor pins the process. */
    if (!process_alive(process))
        return -ESRCH;
    if (descriptor < 0)
        return -errno;
    return syscall(SYS_pidfd_send_signal, descriptor, signal, NULL, 0) ? -errno : 0;
}

int process_wait(const struct process *process, uint64_t deadline_ns)
{
    AUTO_CLOSE int descriptor = process->pid > 0 ? open_pidfd(process->pid) : -1;

    while (process_alive(process)) {
        uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= deadline_ns)
            return -ETIMEDOUT;
        struct pollfd watched = {.fd = descriptor, .events = POLLIN};
        uint64_t left_ms = (deadline_ns - now_ns) / NS_PER_MS + 1;
        poll(&watched, descriptor >= 0, (int)MIN(left_ms, descriptor >= 0 ? 60000ul : 20ul));
        if (descriptor >= 0 && watched.revents)
            waitpid(process->pid, NULL, WNOHANG); /* in case it is our own child */
    }
    return 0;
}
