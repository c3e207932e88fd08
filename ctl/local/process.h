/*
 * Processes that outlive firnctl: started in their own session, and identified again later.
 *
 * The kernel may have reused a process id, so an identity is the id, the start time and the
 * program. No process is signalled before all three have been compared. The signal then goes
 * through a pidfd, so that it cannot hit a successor either.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/error.h"

#define PROCESS_PATH_SIZE 1024

struct process {
    pid_t pid;            /* 0: none */
    uint64_t start_ticks; /* since boot, as in /proc/<pid>/stat */
    char program[PROCESS_PATH_SIZE];
};

/**
 * process_spawn() - run @program detached: own session, no descriptor of ours, output appended to
 * @log_path
 * @arguments: argv with its NULL
 *
 * Return: 0: the program is running (exec succeeded); -ENOENT, -EACCES, ...: it could not be
 * started, @error says why.
 */
int process_spawn(const char *program, const char *const *arguments, const char *log_path,
                  struct process *ret_process, struct error *error) CHECK_RESULT;

/** process_identify() - return the identity of process @pid now; -ESRCH: it is gone or a zombie */
int process_identify(pid_t pid, struct process *ret_process) CHECK_RESULT;
/** process_alive() - return whether this very process still exists */
bool process_alive(const struct process *process);
/** process_signal() - send a signal. Return: 0; -ESRCH: the process is gone; -EPERM */
int process_signal(const struct process *process, int signal) CHECK_RESULT;
/** process_wait() - wait until the process is gone; -ETIMEDOUT at @deadline_ns (monotonic) */
int process_wait(const struct process *process, uint64_t deadline_ns) CHECK_RESULT;
