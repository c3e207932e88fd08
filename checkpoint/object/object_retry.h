/* Number of retries of a store operation, and the backoff between them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OBJECT_TRIES_MAX   8
#define OBJECT_WAIT_MIN_NS 500000000ull
#define OBJECT_WAIT_MAX_NS 30000000000ull

/** object_may_pass() - return whether to retry: -EAGAIN, and an invalid answer (-EBADMSG) */
bool object_may_pass(int status);
/**
 * object_wait_ns() - return the backoff after @tries consecutive failures, from 1: doubled each
 * time, bounded
 */
uint64_t object_wait_ns(unsigned tries);

/* Callbacks of long operations for progress, backoff and cancellation. */
struct object_watch {
    /* Sleep; -ECANCELED: cancelled. NULL: do not wait */
    int (*pause)(void *context, uint64_t wait_ns);
    void (*progress)(void *context, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void (*trouble)(void *context, const char *text); /* reason of a retry; may be NULL */
    void *context;
};

/** object_pause() - report @why and wait before the next try; 0 or -ECANCELED */
int object_pause(const struct object_watch *watch, uint64_t wait_ns, const char *why);
