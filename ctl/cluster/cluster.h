/*
 * The state of a cluster, decoded from its keys at one moment: nodes, jobs, leader. Every command
 * that shows or changes a cluster begins by loading it.
 *
 * Keys that do not decode are skipped and counted in `damaged`: one bad value must not hide the
 * rest from the operator who has to repair it.
 */
#pragma once

#include "ctl/cluster/cluster_client.h"
#include "elastic/plan/plan.h"
#include "membership/kv/records.h"

struct cluster_node {
    char name[NAME_SIZE];
    struct node_record record;
    bool drained; /* an operator drained the node */
};

struct cluster_job {
    char name[NAME_SIZE];
    struct {
        int64_t spec, desired, state, generation,
            next; /* when these keys were written; 0: absent */
    } revisions;
    struct job_spec *spec;
    struct desired_record desired;
    struct submission_record submission; /* id "": an older firnctl submitted the job */
    struct state_record state;           /* state "": not written yet */
    bool has_progress;
    struct progress_record progress;
    struct plan *plan, *next;              /* in force, being prepared; NULL: none */
    struct checkpoint_record *checkpoints; /* newest first */
    size_t checkpoint_count;
    struct object_record *objects; /* in the object store or being uploaded; newest first */
    size_t object_count;
};

struct cluster {
    struct cluster_node *nodes; /* by name */
    size_t node_count;
    struct cluster_job *jobs; /* by name */
    size_t job_count;
    char leader[NAME_SIZE]; /* "": no leader */
    unsigned damaged;
    char damage[256]; /* about the first of them */
};

/** cluster_parse() - decode the keys below the cluster's prefix, in any order; 0 or -ENOMEM */
int cluster_parse(const char *name, const struct kv_entry *entries, size_t count,
                  struct cluster *ret_cluster, struct error *error) CHECK_RESULT;
/** cluster_load() - read the cluster from etcd */
int cluster_load(struct cluster_client *client, struct cluster *ret_cluster,
                 struct error *error) CHECK_RESULT;
/** cluster_open() - open a client as @arguments say and load its cluster. If only the load
 * fails, the caller closes the client */
int cluster_open(const struct arguments *arguments, struct cluster_client *ret_client,
                 struct cluster *ret_cluster, struct error *error) CHECK_RESULT;
void cluster_done(struct cluster *cluster);

/** cluster_sound_checkpoint() - return the newest checkpoint that is not known to be damaged; NULL:
 * none */
const struct checkpoint_record *cluster_sound_checkpoint(const struct cluster_job *job);

/** cluster_find_job() - find a job; NULL, with -ENOENT in @error (and the nearest name): none */
struct cluster_job *cluster_find_job(const struct cluster *cluster, const char *name,
                                     struct error *error);
struct cluster_node *cluster_find_node(const struct cluster *cluster, const char *name,
                                       struct error *error);

/** cluster_job_state() - return "waiting", "running", ...; "submitted" until a leader sees it */
const char *cluster_job_state(const struct cluster_job *job);
/** cluster_job_over() - return whether the job is completed, cancelled or failed */
bool cluster_job_over(const struct cluster_job *job);
/** cluster_job_change_waits() - return whether the generation before the plan in force trains: the
 * planned change to that plan has not begun, and may wait for the end of a long step */
bool cluster_job_change_waits(const struct cluster_job *job);
/** cluster_job_word_age() - return the age in seconds of the newest progress of a job that trains;
 * 0: it is not overdue. Overdue progress means that etcd, or the way to it, accepts none. */
double cluster_job_word_age(const struct cluster_job *job, uint64_t now_unix_ns);
/** cluster_job_switch_seconds() - return the measured pause of the job's newest planned switch of
 * layouts; 0: none yet */
double cluster_job_switch_seconds(const struct cluster_job *job);
/** cluster_job_check_open() - refuse changes of a job that is over: -EALREADY, and @error says how
 * to continue from its checkpoints */
int cluster_job_check_open(const struct cluster_job *job, struct error *error) CHECK_RESULT;
/** cluster_job_words() - describe the state and its reason in one sentence */
void cluster_job_words(const struct cluster_job *job, char *ret_text, size_t size);
