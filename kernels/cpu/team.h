/*
 * A team of threads that share the rows or columns of one operation.
 *
 * Problem: an operation takes microseconds, so starting it on all threads must too. Several workers
 * may share a machine's cores, so an idle thread must not occupy a core. OpenMP's runtime spins by
 * an environment variable and sizes its teams by state that other code may change.
 *
 * Design: member 0 is the caller. The others spin for a short while after each task and then sleep
 * on a condition. A task is a function called once on every member; the work of a member follows
 * from its number alone, so no result depends on timing.
 *
 * Invariants: one task at a time; team_run() returns after every member has finished.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

struct team;

#define TEAM_MEMBERS_MAX 1024

typedef void (*team_task)(void *context, unsigned member, unsigned member_count);

/**
 * team_new() - start @member_count - 1 threads
 * @member_count: 1 to TEAM_MEMBERS_MAX; with 1 there are no threads and team_run() is a plain call
 *
 * Return: 0; -ENOMEM; -EAGAIN when the system's limit of threads is reached.
 */
int team_new(unsigned member_count, struct team **ret_team, struct error *error) CHECK_RESULT;

/** team_free() - end the threads; NULL is allowed */
void team_free(struct team *team);

/** team_size() - return the number of members, the caller included */
unsigned team_size(const struct team *team);

/** team_run() - call @task on every member; one caller at a time */
void team_run(struct team *team, team_task task, void *context);
