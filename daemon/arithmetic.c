#include "daemon/arithmetic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

/* Until the line is whole, the worker ends, or time is up. */
static size_t read_line(int descriptor, uint64_t patience_ns, char *line, size_t size)
{
    uint64_t deadline_ns = clock_monotonic_ns() + patience_ns;
    size_t used = 0;

    while (used + 1 < size && !memchr(line, '\n', used)) {
        uint64_t now_ns = clock_monotonic_ns();
        struct pollfd news = {.fd = descriptor, .events = POLLIN};
        if (now_ns >= deadline_ns ||
            poll(&news, 1, (int)((deadline_ns - now_ns) / NS_PER_MS) + 1) < 1)
            break;
        ssize_t got = read(descriptor, line + used, size - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    return used;
}

static int spawn_worker(const char *program, const char *question, const char *device, int output,
                        pid_t *ret_pid)
{
    const char *const arguments[] = {program, question, device, NULL};
    posix_spawn_file_actions_t actions;
    int status = posix_spawn_file_actions_init(&actions);

    if (status)
        return -status;
    status = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (!status)
        status = posix_spawn(ret_pid, program, &actions, NULL, (char *const *)(uintptr_t)arguments,
                             environ);
    posix_spawn_file_actions_destroy(&actions);
    return -status;
}

void arithmetic_ask(const char *program, const char *question, const char *device,
                    uint64_t patience_ns, char *ret_line, size_t size)
{
    int ends[2], outcome = 0;
    pid_t pid = -1;

    ret_line[0] = '\0';
    if (pipe2(ends, O_CLOEXEC))
        return;
    int status = spawn_worker(program, question, device, ends[1], &pid);
    close(ends[1]);
    if (!status && pid > 0) {
        size_t length = read_line(ends[0], patience_ns, ret_line, size);
        ret_line[length] = '\0';
        kill(pid, SIGKILL); /* it has said what it was asked, or hangs */
        while (waitpid(pid, &outcome, 0) < 0 && errno == EINTR)
            ;
        bool whole = ret_line[strcspn(ret_line, "\n")] == '\n';
        ret_line[whole ? strcspn(ret_line, "\n") : 0] = '\0';
    }
    close(ends[0]);
}

void arithmetic_describe(const struct config *config, const char *device, struct node_record *self)
{
    char kernels[ARITHMETIC_SIZE];

    self->arithmetic[0] = '\0';
    if (!self->slot_count || !config->worker[0])
        return;
    arithmetic_ask(config->worker, "identity", device, ARITHMETIC_ANSWER_NS, kernels,
                   sizeof(kernels));
    if (!kernels[0])
        log_warning("%s does not say what it computes with: this node shares jobs only with others "
                    "that do not, either",
                    config->worker);
    else if (strcmp(device, "cpu") != 0)
        snprintf(self->arithmetic, sizeof(self->arithmetic), "%s", kernels);
    else
        snprintf(self->arithmetic, sizeof(self->arithmetic), "%s, %u thread%s", kernels,
                 config->threads, config->threads == 1 ? "" : "s");
}
