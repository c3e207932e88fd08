/*
 * A fake firnd for readers of checkpoint files: it serves one node's folder over HTTP on its own
 * port, checks proofs, and misbehaves on request.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "checkpoint/remote/remote.h"

struct file_server {
    char folder[64]; /* the job's */
    uint8_t key[CHECKPOINT_KEY_SIZE];
    int listener;
    pthread_t thread;
    struct checkpoint_remote_node node;
    atomic_uint flips;   /* so many answers with files of tensors, or with a seal, come with a
                          * wrong bit */
    atomic_uint refuses; /* so many requests are answered with 403 */
    atomic_ullong bytes; /* given away */
    atomic_uint requests;
    uint8_t *buffer; /* taken at the start: later allocations may fail (fault_memory.h) */
};

/** file_server_start() - serve the files below @folder as the node @name */
void file_server_start(struct file_server *server, const char *name, const char *folder);

/* Stop: from now on the port refuses connections. */
void file_server_stop(struct file_server *server);
