/*
 * One firn-worker process of this node: spawned or adopted, watched by pidfd, controlled over its
 * UNIX socket. Workers survive firnd: their output goes to a file, not to a pipe, and a new firnd
 * connects to the sockets that it finds.
 */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/config/config.h"
#include "elastic/messages/control.h"

struct worker_process;

struct worker_process_callbacks {
    void (*connected)(void *context, const char *job, unsigned slot);
    void (*message)(void *context, const char *job, unsigned slot, struct control_message *message);
    /* Called when the process has exited. @exit_code: negative for a signal; @words: the last
     * line of its log. The object is freed afterwards. */
    void (*exited)(void *context, const char *job, unsigned slot, int exit_code, const char *words);
};

struct worker_process_options {
    sd_event *event;
    const struct config *config;
    const struct worker_process_callbacks *callbacks;
    void *context;
    const char *job, *spec_path, *job_dir, *checkpoint_dir;
    unsigned slot;
    const char *device; /* UUID of the GPU; "": a CPU slot */
};

/** worker_process_spawn() - start a worker; connected() follows when its socket is up */
int worker_process_spawn(const struct worker_process_options *options,
                         struct worker_process **ret_process, struct error *error) CHECK_RESULT;
/** worker_process_adopt() - connect to a worker that an earlier firnd started. Return: 0;
 * -ENOENT and -ECONNREFUSED: no worker there; -EAGAIN: it accepts no connection, such as while
 * it is stopped */
int worker_process_adopt(const struct worker_process_options *options,
                         struct worker_process **ret_process, struct error *error) CHECK_RESULT;
/** worker_process_free() - free the object; the process itself continues */
void worker_process_free(struct worker_process *process);

/** worker_process_send() - send @message; dropped without a connection, because everything is sent
 * again after a reconnection */
void worker_process_send(struct worker_process *process, const struct control_message *message);
void worker_process_kill(struct worker_process *process); /* SIGKILL */
int worker_process_pid(const struct worker_process *process);
/** worker_process_socket() - return the path of the socket of (job, slot) */
void worker_process_socket(const struct config *config, const char *job, unsigned slot,
                           char ret_path[CONFIG_TEXT_SIZE]);
