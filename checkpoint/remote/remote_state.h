/* Internal state of a remote, shared by its requests (remote.c) and its text form
 * (source_text.c). */
#pragma once

#include <curl/curl.h>
#include <pthread.h>

#include "checkpoint/remote/remote.h"

#define POOL_MAX 16

struct checkpoint_remote {
    char job[NAME_SIZE];
    uint8_t key[CHECKPOINT_KEY_SIZE];
    struct checkpoint_remote_node *nodes;
    unsigned node_count;
    uint64_t *away_until_ns; /* of each node, monotonic; atomic */
    bool *silent;            /* of each node: no connection was made; atomic */
    uint64_t timeout_ns;
    long timeout_ms;
    const atomic_bool *stop;
    pthread_mutex_t lock; /* guards the pool */
    CURL *pool[POOL_MAX];
    unsigned pool_count;
};
