/*
 * Remember the jobs that could not be opened on this node, because its disk is full or its firnd
 * does not know a key of their specification. Each is retried after a pause, and logged once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/name.h"

#define UNOPENED_REST_NS (10 * NS_PER_SECOND)

struct unopened_job {
    char name[NAME_SIZE];
    int64_t created; /* etcd revision of its submission */
    uint64_t until_ns;
    char why[ERROR_TEXT_SIZE];
};

/* All zero: none. */
struct unopened_jobs {
    struct unopened_job *list; /* owned */
    unsigned count;
};

/** unopened_jobs_note() - note that the submission @created of job @name could not be opened at
 * @now_ns. Return: whether this failure is new */
bool unopened_jobs_note(struct unopened_jobs *unopened, const char *name, int64_t created,
                        const char *why, uint64_t now_ns);
/** unopened_jobs_forget() - forget job @name, which is open or removed */
void unopened_jobs_forget(struct unopened_jobs *unopened, const char *name);
/** unopened_jobs_rests() - return whether it is too early to try that submission again */
bool unopened_jobs_rests(const struct unopened_jobs *unopened, const char *name, int64_t created,
                         uint64_t now_ns);
/** unopened_jobs_next_ns() - return the time of the next retry; UINT64_MAX: none */
uint64_t unopened_jobs_next_ns(const struct unopened_jobs *unopened, uint64_t now_ns);
void unopened_jobs_done(struct unopened_jobs *unopened);
