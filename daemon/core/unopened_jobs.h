/*
 * Jobs that could not be opened on this node: its disk is full, or its firnd does not know a key of
 * their specification. Each is tried again after a while, and said once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/name.h"

#define UNOPENED_REST_NS (10 * NS_PER_SECOND)

struct unopened_job {
    char name[NAME_SIZE];
    int64_t created; /* the store's revision of its submission */
    uint64_t until_ns;
    char why[ERROR_TEXT_SIZE];
};

/* All zero: none. */
struct unopened_jobs {
    struct unopened_job *list; /* owned */
    unsigned count;
};

/** unopened_jobs_note() - the submission @created of job @name could not be opened at @now_ns.
 * Return: whether that is news */
bool unopened_jobs_note(struct unopened_jobs *unopened, const char *name, int64_t created,
                        const char *why, uint64_t now_ns);
/** unopened_jobs_forget() - job @name is open, or gone */
void unopened_jobs_forget(struct unopened_jobs *unopened, const char *name);
/** unopened_jobs_rests() - return whether it is too early to try that submission again */
bool unopened_jobs_rests(const struct unopened_jobs *unopened, const char *name, int64_t created,
                         uint64_t now_ns);
/** unopened_jobs_next_ns() - return when the next one is to be tried; UINT64_MAX: there is none */
uint64_t unopened_jobs_next_ns(const struct unopened_jobs *unopened, uint64_t now_ns);
void unopened_jobs_done(struct unopened_jobs *unopened);
