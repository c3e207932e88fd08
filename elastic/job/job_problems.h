/*
 * The list of problems of a job file, one line each: "demo.yaml:12: train.lanes: ...". The user
 * sees all problems at once, in the order of the file.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"

#define JOB_KEYS_MAX       128
#define JOB_PROBLEMS_SHOWN 8

struct job_problems {
    const char *where;
    unsigned (*line_of)(void *context, const char *key_path); /* may be NULL */
    void *context;
    struct error *error; /* may be NULL */
    unsigned count;
    unsigned skip;                      /* number of problems already reported */
    unsigned told;                      /* problems in @error; later ones are only counted */
    unsigned lines[JOB_PROBLEMS_SHOWN]; /* of those; ascending, 0: unknown */
    bool full;
    bool bad[JOB_KEYS_MAX]; /* by the key's index in the schema: the key has no usable value */
};

/** job_problem_is_told() - return whether the next problem is listed or only counted */
bool job_problem_is_told(const struct job_problems *problems);

/**
 * job_problem() - add a problem of @key_path; the line number is that of the key or of its section
 */
void job_problem(struct job_problems *problems, const char *key_path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * job_problems_good() - return whether every key whose path begins with @prefix has a usable value
 */
bool job_problems_good(const struct job_problems *problems, const char *prefix);

/** job_problems_result() - return 0 without problems, else -EINVAL; adds the last line of @error */
int job_problems_result(struct job_problems *problems) CHECK_RESULT;
