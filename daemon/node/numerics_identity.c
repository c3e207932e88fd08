#include "daemon/node/numerics_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/config/config.h"

#define WORKS_MAX_NS (100 * NS_PER_SECOND) /* limit for a worker that works but never answers */

static uint64_t processor_ns(pid_t pid)
{
    struct timespec used = {0};
    clockid_t clock;

    if (!clock_getcpuclockid(pid, &clock))
        (void)clock_gettime(clock, &used);
    return (uint64_t)used.tv_sec * NS_PER_SECOND + (uint64_t)used.tv_nsec;
}

/* Wait for output of the worker as long as it uses CPU time: a GPU's libraries may load from a slow
 * disk. */
static bool has_news(pid_t pid, int descriptor, uint64_t patience_ns)
{
    uint64_t worked_ns = processor_ns(pid), waited_ns = 0;

    do {
        struct pollfd news = {.fd = descriptor, .events = POLLIN};
        if (poll(&news, 1, (int)(patience_ns / NS_PER_MS) + 1) > 0)
            return true;
        uint64_t now_ns = processor_ns(pid);
        if (now_ns == worked_ns)
            return false;
        worked_ns = now_ns;
        waited_ns += patience_ns;
    } while (waited_ns < WORKS_MAX_NS);
    return false;
}

/* Read until the line is complete, the worker ends, or it is idle for @patience_ns. */
static size_t read_line(pid_t pid, int descriptor, uint64_t patience_ns, char *line, size_t size)
{
    size_t used = 0;

    while (used + 1 < size && !memchr(line, '\n', used)) {
        if (!has_news(pid, descriptor, patience_ns)) {
            log_warning("firn-worker did not answer in time");
            break;
        }
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
    pid_t pid = 0;
    int status = posix_spawn_file_actions_init(&actions);

    if (status)
        return -status;
    status = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (!status)
        status = posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)arguments,
                             environ);
    if (!status)
        *ret_pid = pid;
    posix_spawn_file_actions_destroy(&actions);
    return -status;
}

int numerics_identity_begin(const char *program, const char *question, const char *device,
                            pid_t *ret_pid, int *ret_output)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC))
        return -errno;
    int status = spawn_worker(program, question, device, ends[1], ret_pid);
    close(ends[1]);
    if (status) {
        close(ends[0]);
        return status;
    }
    *ret_output = ends[0];
    return 0;
}

void numerics_identity_end(pid_t pid)
{
    int outcome;

    kill(pid, SIGKILL); /* it has answered, or hangs */
    while (waitpid(pid, &outcome, 0) < 0 && errno == EINTR)
        ;
}

void numerics_identity_ask(const char *program, const char *question, const char *device,
                           uint64_t patience_ns, char *ret_line, size_t size)
{
    int output = -1;
    pid_t pid = 0;

    ret_line[0] = '\0';
    if (numerics_identity_begin(program, question, device, &pid, &output))
        return;
    size_t length = read_line(pid, output, patience_ns, ret_line, size);
    ret_line[length] = '\0';
    numerics_identity_end(pid);
    bool whole = ret_line[strcspn(ret_line, "\n")] == '\n';
    ret_line[whole ? strcspn(ret_line, "\n") : 0] = '\0';
    close(output);
}

/* Return 0 if @kernels is the node's numerics identity, i for one of the others, and more than
 * RECORD_OTHERS_MAX if there is no room, or no text to publish. */
static unsigned place_of(struct node_record *self, const char *kernels)
{
    unsigned place = 0;

    if (!kernels[0])
        return RECORD_OTHERS_MAX + 1;
    if (!self->numerics_identity[0])
        snprintf(self->numerics_identity, sizeof(self->numerics_identity), "%s", kernels);
    if (!strcmp(self->numerics_identity, kernels))
        return 0;
    while (place < RECORD_OTHERS_MAX && self->other_numerics_identities[place][0] &&
           strcmp(self->other_numerics_identities[place], kernels) != 0)
        place++;
    if (place < RECORD_OTHERS_MAX)
        snprintf(self->other_numerics_identities[place], RECORD_NUMERICS_SIZE, "%s", kernels);
    return place + 1;
}

static void take_out(struct node_record *self, unsigned slot, const char *kernels)
{
    char *bad = self->slots[slot].bad;

    if (self->slots[slot].computes > RECORD_OTHERS_MAX && !bad[0])
        snprintf(bad, sizeof(self->slots[slot].bad), "%s",
                 kernels[0] ? "one kind of GPU too many for one node"
                            : "firn-worker does not report its numerics");
}

void numerics_identity_describe_gpus(const struct config *config, const struct gpu_list *list,
                                     struct node_record *self)
{
    char kernels[RECORD_SLOTS_MAX][NUMERICS_IDENTITY_SIZE], device[GPU_UUID_SIZE + 8];

    self->numerics_identity[0] = '\0';
    memset(self->other_numerics_identities, 0, sizeof(self->other_numerics_identities));
    for (unsigned slot = 0; slot < self->slot_count; slot++) {
        unsigned alike = 0;
        while (strcmp(list->gpus[alike].name, list->gpus[slot].name) != 0)
            alike++;
        snprintf(device, sizeof(device), "cuda:%s", list->gpus[slot].uuid);
        if (alike < slot)
            memcpy(kernels[slot], kernels[alike], NUMERICS_IDENTITY_SIZE);
        else
            numerics_identity_ask(config->worker, "identity", device, NUMERICS_IDENTITY_ANSWER_NS,
                                  kernels[slot], NUMERICS_IDENTITY_SIZE);
        self->slots[slot].computes = place_of(self, kernels[slot]);
        take_out(self, slot, kernels[slot]);
    }
}

void numerics_identity_describe_cpu(const struct config *config, struct node_record *self)
{
    char kernels[NUMERICS_IDENTITY_SIZE];

    self->numerics_identity[0] = '\0';
    if (!self->slot_count || !config->worker[0])
        return;
    numerics_identity_ask(config->worker, "identity", "cpu", NUMERICS_IDENTITY_ANSWER_NS, kernels,
                          sizeof(kernels));
    if (!kernels[0])
        log_warning(
            "%s does not report its numerics: this node shares jobs only with other nodes whose "
            "worker does not report them",
            config->worker);
    else
        snprintf(self->numerics_identity, sizeof(self->numerics_identity), "%s, %u thread%s",
                 kernels, config->threads, config->threads == 1 ? "" : "s");
}
