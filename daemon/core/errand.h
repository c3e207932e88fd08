/*
 * Work on files in a separate thread: a slow file server may take longer to answer than firnd may
 * be silent, and a hung one never answers.
 *
 * The loop and the thread own the work together. Work that exceeds its time is left running, and no
 * other work begins until it has ended: a hung server holds one thread per errand.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "membership/transport/loop.h"

#define ERRAND_PATIENCE_NS (3 * NS_PER_SECOND) /* callers wait no longer than this */

struct errand;

struct errand_work {
    void (*run)(void *load);  /* called in the thread */
    void (*drop)(void *load); /* frees the load, in the last thread to release it; NULL allowed */
};

/** errand_new() - @ended is called on @loop when work has ended. Return: NULL: no memory */
struct errand *errand_new(const struct loop *loop, void (*ended)(void *user), void *user);
void errand_free(struct errand *errand); /* NULL allowed; a running thread ends by itself */

/** errand_start() - start work; no other may be under way. Takes ownership of @load, also on
 * failure. Return: 0; -ENOMEM or the error of starting a thread */
int errand_start(struct errand *errand, const struct errand_work *work, void *load) CHECK_RESULT;
/** errand_runs() - return whether work is under way */
bool errand_runs(const struct errand *errand);
/** errand_age_ns() - return the time since the start of the work under way, or since the end of
 * the work whose result is available */
uint64_t errand_age_ns(const struct errand *errand);
/** errand_result() - return the load of work that has ended, borrowed until errand_forget() or
 * errand_start(). NULL: no work, or it is still under way */
void *errand_result(const struct errand *errand);
/** errand_take() - as errand_result(), but the caller owns the load from now on */
void *errand_take(struct errand *errand);
/** errand_forget() - drop the result, or abandon the work under way to its thread */
void errand_forget(struct errand *errand);
