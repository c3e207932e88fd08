/* How often an operation on the store is tried again, and after how long. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OBJECT_TRIES_MAX   8
#define OBJECT_WAIT_MIN_NS 500000000ull
#define OBJECT_WAIT_MAX_NS 30000000000ull

/** object_may_pass() - is it worth trying again? -EAGAIN, and an answer that made no sense */
bool object_may_pass(int status);
/** object_wait_ns() - after @tries failures in a row, from 1: twice as long each time, bounded */
uint64_t object_wait_ns(unsigned tries);

/* How long operations tell what they do, wait, and are stopped. */
struct object_watch {
    /* Sleep; -ECANCELED: told to stop. NULL: no waiting */
    int (*pause)(void *context, uint64_t wait_ns);
    void (*progress)(void *context, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void (*trouble)(void *context, const char *text); /* it is tried again; may be NULL */
    void *context;
};

/** object_pause() - before the next try, with word of why. 0 or -ECANCELED */
int object_pause(const struct object_watch *watch, uint64_t wait_ns, const char *why);
