#include "daemon/leader/queueing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/core/decode_cache.h"
#include "membership/kv/keys.h"

#define BELIEVED_NS (600 * NS_PER_SECOND) /* how long a learned need stays valid */

struct look {
    const struct mirror *mirror;
    const char *cluster;
    const struct queueing_need *(*need_of)(const void *context, const char *job);
    const void *context;
    uint64_t now_ns;
    struct queueing queueing;
};

static const struct mirror_entry *find_leaf(const struct look *look, const char *job,
                                            const char *leaf)
{
    char key[KV_KEY_MAX];

    return mirror_find(look->mirror, keys_job(key, look->cluster, job, leaf));
}

static bool is_over(const struct look *look, const char *job)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(look->mirror, keys_said(key, look->cluster, job, "state"));
    const struct state_record *state = entry ? decode_cache_state(look->mirror, entry) : NULL;

    return state && view_job_over(state->state);
}

/* The job's desired state decides its minimum number of slots. */
static void take_desired(const struct look *look, struct slot_queue_job *job, bool *ret_wanted)
{
    const struct mirror_entry *entry = find_leaf(look, job->name, "desired");
    const struct desired_record *desired = entry ? decode_cache_desired(look->mirror, entry) : NULL;

    *ret_wanted = !desired || desired->wish == RECORD_RUNNING;
    if (!desired)
        return;
    if (desired->devices)
        job->least = MIN(job->least, desired->devices);
    job->least = MAX(job->least, MAX(desired->stages, 1u) * MAX(desired->replicas, 1u));
    job->fixed = desired->stages && desired->replicas;
}

static int take_plan(const struct look *look, struct slot_queue_job *job, bool *ret_refused)
{
    const struct mirror_entry *entry = find_leaf(look, job->name, "generation");
    struct plan *plan = NULL;
    int status = entry ? decode_cache_plan(look->mirror, entry, &plan, NULL) : 0;

    *ret_refused = false;
    if (status == -ENOMEM)
        return status;
    if (plan) {
        job->workers = plan->layout.worker_count;
        *ret_refused = plan->layout.worker_count == 0 && plan->change.reason == PLAN_REASON_REFUSED;
    }
    plan_free(plan);
    return 0;
}

static void take_need(const struct look *look, struct slot_queue_job *job)
{
    const struct queueing_need *need = look->need_of(look->context, job->name);

    if (need && need->total == look->queueing.total && look->now_ns < need->until_ns)
        job->least = MAX(job->least, need->slots);
}

static int add_job(struct look *look, const char *name, const struct mirror_entry *spec)
{
    struct slot_queue_job job = {.submitted = spec->create_revision,
                                 .least = decode_cache_devices_min(look->mirror, spec)};
    bool wanted, refused;

    snprintf(job.name, sizeof(job.name), "%s", name);
    int status = take_plan(look, &job, &refused);
    if (status || job.least == 0)
        return status;
    take_desired(look, &job, &wanted);
    job.waits = wanted && !refused && job.workers == 0;
    if (job.waits)
        take_need(look, &job);
    look->queueing.jobs[look->queueing.count++] = job;
    return 0;
}

/* Free slots of a node are a bit mask. */
static_assert(REPORT_WORKERS_MAX <= 64, "a node's slots fit a word");

static void note_workers(const struct view *view, const struct plan *plan, uint64_t *used)
{
    for (unsigned rank = 0; plan && rank < plan->layout.worker_count; rank++) {
        const struct plan_worker *worker = &plan->layout.workers[rank];
        const struct member *node = view_find_node(view, worker->node);
        if (node && worker->slot < node->slot_count)
            used[node - view->nodes] |= (uint64_t)1 << worker->slot;
    }
}

static int count_slots(const struct view *view, struct queueing *queueing)
{
    AUTO_FREE uint64_t *used = calloc((size_t)view->view.node_count + 1, sizeof(*used));

    if (!used)
        return -ENOMEM;
    note_workers(view, view->plan, used);
    note_workers(view, view->next, used);
    for (unsigned i = 0; i < view->view.node_count; i++) {
        const struct member *node = &view->nodes[i];
        for (unsigned slot = 0; slot < node->slot_count; slot++) {
            const struct member_slot *its = &node->slots[slot];
            if (node->draining || its->bad)
                continue;
            bool is_used = (its->busy && !its->leaves) || (used[i] >> slot & 1);
            queueing->total++;
            queueing->free += !is_used;
            queueing->free_now += !is_used && !its->busy;
        }
    }
    return 0;
}

static int add_jobs(struct look *look, const char *job)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(look->mirror, keys_jobs(prefix, look->cluster), &entries);
    int status = 0;

    look->queueing.jobs = calloc(count + 1, sizeof(*look->queueing.jobs));
    if (!look->queueing.jobs)
        return -ENOMEM;
    for (size_t i = 0; !status && i < count; i++) {
        char name[NAME_SIZE], leaf[128];
        if (!keys_match_job(entries[i].key, look->cluster, name, leaf) || strcmp(leaf, "spec") ||
            (strcmp(name, job) && is_over(look, name)))
            continue;
        if (!strcmp(name, job))
            look->queueing.index = look->queueing.count;
        status = add_job(look, name, &entries[i]);
    }
    return status;
}

int queueing_look(const struct mirror *mirror, const char *cluster, const char *job,
                  const struct view *view,
                  const struct queueing_need *(*need_of)(const void *context, const char *job),
                  const void *context, struct queueing *ret_queueing)
{
    struct look look = {.mirror = mirror,
                        .cluster = cluster,
                        .need_of = need_of,
                        .context = context,
                        .now_ns = view->view.now_ns};

    int status = count_slots(view, &look.queueing);
    if (!status)
        status = add_jobs(&look, job);
    if (status)
        queueing_done(&look.queueing);
    else
        *ret_queueing = look.queueing;
    return status;
}

void queueing_done(struct queueing *queueing)
{
    free(queueing->jobs);
    *queueing = (struct queueing){0};
}

struct slot_queue_place queueing_place(const struct queueing *queueing)
{
    if (queueing->index >= queueing->count) /* its specification is malformed */
        return (struct slot_queue_place){0};
    return slot_queue_place(queueing->jobs, queueing->count, queueing->index, queueing->total,
                            queueing->free);
}

void queueing_learn(const struct queueing *queueing, uint64_t now_ns, struct queueing_need *need)
{
    if (queueing->index >= queueing->count)
        return;
    const struct slot_queue_job *job = &queueing->jobs[queueing->index];
    unsigned kept = queueing_place(queueing).kept_before;
    unsigned had = queueing->free_now > kept ? queueing->free_now - kept : 0;
    if (job->waits && had >= job->least)
        *need = (struct queueing_need){
            .slots = had + 1, .total = queueing->total, .until_ns = now_ns + BELIEVED_NS};
}
