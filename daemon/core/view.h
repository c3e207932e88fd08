/*
 * A job's view for the leader, taken from the mirror (elastic/leader/leader.h says what it means).
 * It is valid until the mirror changes.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "daemon/core/refused.h"
#include "elastic/leader/leader.h"
#include "membership/kv/records.h"

struct view {
    struct leader_view view;
    struct job_spec spec;
    struct plan *plan, *next;
    int64_t plan_revision, next_revision; /* mod revisions; 0: absent */
    int64_t checkpoint_revision;          /* of the record of view.checkpoint */
    struct member *nodes;                 /* by name */
    char (*holders)[NAME_SIZE];           /* as view.holders */
    const struct node_report **reports;   /* each borrowed from the mirror */
    char *shares;                         /* of view.checkpoint */
    struct state_record state;            /* empty state: none written yet */
};

/** view_make() - @refused: checkpoints that are passed over, may be NULL. 0; -ENOENT (the job has
 * no spec any more); -EINVAL (damaged keys, @error); -ENOMEM
 */
int view_make(const struct mirror *mirror, const char *cluster, const char *job, uint64_t now_ns,
              uint64_t failure_timeout_ns, const struct refused_checkpoints *refused,
              struct view **ret_view, struct error *error) CHECK_RESULT;
void view_free(struct view *view);

/** view_find_node() - of that name, by bisection; NULL: it is not registered */
struct member *view_find_node(const struct view *view, const char *name);

/** view_job_over() - the state says that the job neither runs nor waits to */
bool view_job_over(const char *state);
/** view_job_rests() - it is over, and nobody asks that it go on: there is nothing to decide. Quick,
 * because such jobs stay for days (daemon/leader/retiring_choice.h) */
bool view_job_rests(const struct mirror *mirror, const char *cluster, const char *job);
/** view_job_cancelled() - somebody has asked that it end */
bool view_job_cancelled(const struct mirror *mirror, const char *cluster, const char *job);
