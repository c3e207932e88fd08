/*
 * The list of what is wrong with a job file, one line each: "demo.yaml:12: train.lanes: ...". A
 * user sees them all at once rather than one a try.
 */
#pragma once

#include "elastic/job/job_spec.h"

#define JOB_KEYS_MAX 128

struct job_problems {
    const char *where;
    unsigned (*line_of)(void *context, const char *key_path); /* may be NULL */
    void *context;
    struct error *error; /* may be NULL */
    unsigned count;
    unsigned skip; /* so many have been told before */
    unsigned told; /* in the error; those after them are only counted */
    bool full;
    bool bad[JOB_KEYS_MAX]; /* by the key's index in the schema: it has no value to go by */
};

#define JOB_PROBLEMS_SHOWN 8

/** job_problem_is_told() - whether the next one is, or is only counted */
bool job_problem_is_told(const struct job_problems *problems);

/** job_problem() - one more line about @key_path; its line is the key's, or its section's */
void job_problem(struct job_problems *problems, const char *key_path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** job_problems_good() - whether each key whose path begins with @prefix has a value to go by */
bool job_problems_good(const struct job_problems *problems, const char *prefix);

/** job_problems_result() - 0 when there are none, else -EINVAL with the last line added */
int job_problems_result(struct job_problems *problems) CHECK_RESULT;
