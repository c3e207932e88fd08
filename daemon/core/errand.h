/*
 * Work on files, in a thread of its own: a file server that is slow takes longer than firnd may be
 * silent, and one that hangs never answers.
 *
 * The loop and the thread own the work together. Work that is given up is left alone, and no other
 * begins before it has ended: a server that hangs holds one thread for each errand.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "membership/transport/loop.h"

#define ERRAND_PATIENCE_NS (3 * NS_PER_SECOND) /* after that nobody waits for an errand */

struct errand;

struct errand_work {
    void (*run)(void *load);  /* in the thread */
    void (*drop)(void *load); /* free it, in whichever thread lets go last; NULL allowed */
};

/** errand_new() - @ended is called on @loop when work has ended; NULL: no memory */
struct errand *errand_new(const struct loop *loop, void (*ended)(void *user), void *user);
void errand_free(struct errand *errand); /* NULL allowed; a thread ends by itself */

/** errand_start() - begin; none may be under way. @load is taken in any case. Return: 0; -ENOMEM or
 * the error of starting a thread */
int errand_start(struct errand *errand, const struct errand_work *work, void *load) CHECK_RESULT;
/** errand_runs() - return whether work is under way */
bool errand_runs(const struct errand *errand);
/** errand_age_ns() - return the time since work began that is under way, or since work ended whose
 * result is there */
uint64_t errand_age_ns(const struct errand *errand);
/** errand_result() - return the load of work that has ended, borrowed until errand_forget() or the
 * next begins; NULL: there is none, or it is under way */
void *errand_result(const struct errand *errand);
/** errand_take() - as errand_result(), but the caller owns the load from now on */
void *errand_take(struct errand *errand);
/** errand_forget() - drop the result, or leave the work that is under way alone */
void errand_forget(struct errand *errand);
