/*
 * Build a job's view for the leader from the mirror (elastic/leader/leader.h defines the members).
 * It is valid until the mirror changes.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "daemon/core/refused.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader.h"
#include "membership/kv/records.h"

struct view {
    struct leader_view view;
    struct job_spec spec;
    struct plan *plan, *next;
    int64_t plan_revision, next_revision; /* mod revisions; 0: absent */
    int64_t checkpoint_revision;          /* of the record of view.checkpoint */
    struct member *nodes;                 /* sorted by name */
    char (*holders)[NAME_SIZE];           /* as view.holders */
    const struct node_report **reports;   /* each borrowed from the mirror */
    char *shares;                         /* of view.checkpoint */
    struct state_record state;            /* empty state: none written yet */
};

/** view_make() - build the view of @job
 * @refused: checkpoints to skip, may be NULL
 * Return: 0; -ENOENT (the job has no spec any more); -EINVAL (malformed keys, @error); -ENOMEM */
int view_make(const struct mirror *mirror, const char *cluster, const char *job, uint64_t now_ns,
              uint64_t failure_timeout_ns, const struct refused_checkpoints *refused,
              struct view **ret_view, struct error *error) CHECK_RESULT;
void view_free(struct view *view);

/** view_find_node() - find a node by name, by bisection; NULL: not registered */
struct member *view_find_node(const struct view *view, const char *name);

/** view_job_over() - return whether @state means that the job neither runs nor waits to run */
bool view_job_over(const char *state);
/** view_job_rests() - return whether the job is over and no resume is requested: nothing to
 * decide. Cheap, because such jobs stay for days (daemon/leader/retiring_choice.h) */
bool view_job_rests(const struct mirror *mirror, const char *cluster, const char *job);
/** view_job_cancelled() - return whether a user has asked for the job's end */
bool view_job_cancelled(const struct mirror *mirror, const char *cluster, const char *job);
