#include "daemon/jobs/fencing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core/daemon.h"
#include "daemon/core/events.h"
#include "daemon/jobs/neighbours.h"
#include "elastic/agent/isolation.h"
#include "membership/kv/keys.h"

#define ASK_NS (500 * NS_PER_MS) /* between checks while the lease is in doubt */
/* After a successful reading of the plan, no other node can take the job over for this long: a
 * leader waits longer for a node whose registration has just ended. */
#define READ_NS NS_PER_SECOND

struct fencing {
    struct daemon *daemon;
    struct neighbours *neighbours;
    struct loop_timer *timer;
    /* reading of the plan of `read_job`; NULL: none in flight */
    struct kv_request *reading;
    uint64_t asked_ns; /* time at which it was sent */
    struct job *read_job;
};

static bool runs_alone(const struct job *job)
{
    const char *node = job->plans.plan ? plan_layout_lone_node(&job->plans.plan->layout) : NULL;
    return node && !strcmp(node, job->daemon->config->node);
}

/*
 * Find the slot of the root that commits on this node alone. Until the root has left for a planned
 * generation, this is the root of the generation before.
 */
static bool find_root(struct job *job, unsigned *ret_slot)
{
    const struct plan *plan = job->plans.plan;
    struct job_lone_root *lone = &job->fence.lone;
    if (plan && plan->change.planned && lone->is_known && plan->follows == lone->generation &&
        job->workers.statuses[lone->slot].generation < plan->generation) {
        *ret_slot = lone->slot;
        return true;
    }
    if (!plan || !runs_alone(job))
        return false;
    *lone = (struct job_lone_root){
        .is_known = true, .generation = plan->generation, .slot = plan->layout.workers[0].slot};
    *ret_slot = lone->slot;
    return true;
}

/*
 * Find the root of the generation that the plan follows. A new firnd never saw that generation, and
 * the earlier firnd may have held its root: without a command to go on, the root would never reach
 * the switch.
 */
static bool find_left_behind(const struct job *job, unsigned *ret_slot)
{
    const struct plan *plan = job->plans.plan;
    if (!plan || !plan->change.planned || !job->workers.statuses || job->fence.lone.is_known)
        return false;
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++) {
        const struct worker_report *status = &job->workers.statuses[slot];
        if (job->workers.processes[slot] && status->root && status->generation == plan->follows) {
            *ret_slot = slot;
            return true;
        }
    }
    return false;
}

/* Return whether the plan has a worker on this node. */
static bool takes_part(const struct job *job)
{
    const struct plan *plan = job->plans.plan;
    for (unsigned i = 0; plan && i < plan->layout.worker_count; i++)
        if (!strcmp(plan->layout.workers[i].node, job->daemon->config->node))
            return true;
    return false;
}

static bool is_cleared(const struct job *job)
{
    return job->fence.standing == JOB_GOES_ON &&
           job->fence.generation == job->plans.plan->generation;
}

bool fencing_holds(const struct job *job)
{
    return job->plans.plan && job->fence.standing == JOB_HELD &&
           job->fence.generation == job->plans.plan->generation;
}

bool fencing_holds_slot(const struct job *job, unsigned slot)
{
    return fencing_holds(job) && job->fence.lone.slot == slot;
}

static uint64_t now_of(const struct fencing *fencing)
{
    const struct loop *loop = &fencing->daemon->loop.loop;
    return loop->now_ns(loop->context);
}

static void send_command(struct job *job, unsigned slot, enum control_type type)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    if (!message) {
        log_error("job %s: no memory to command the worker on slot %u", job->name, slot);
        return; /* the next check tries again */
    }
    message->type = type;
    message->progress.generation = job->plans.plan->generation;
    if (job->workers.processes[slot])
        worker_process_send(job->workers.processes[slot], message);
    job->fence.standing = type == CONTROL_HOLD ? JOB_HELD : JOB_GOES_ON;
    job->fence.generation = job->plans.plan->generation;
}

static void say(struct job *job, unsigned slot, const char *text)
{
    const struct event_facts facts = {.job = job->name,
                                      .node = job->daemon->config->node,
                                      .generation = job->plans.plan->generation,
                                      .step = job->workers.progress[slot].step,
                                      .pause_seconds = -1};
    log_warning("job %s: %s", job->name, text);
    events_append(job->folders.dir, &facts, "fencing", text);
}

static void hold(struct job *job, unsigned slot)
{
    if (fencing_holds(job))
        return;
    say(job, slot,
        "this node is cut off from etcd and another node may take the job over; the job holds "
        "before its next commit");
    send_command(job, slot, CONTROL_HOLD);
}

/* ---- resuming ---- */

static void on_read(void *context, const struct kv_result *result)
{
    struct fencing *fencing = context;
    struct job *job = fencing->read_job;
    unsigned slot;

    fencing->reading = NULL;
    fencing->read_job = NULL;
    /* The watch delivers the new plan. */
    if (result->status || !job || result->entry_count != 1 ||
        result->entries[0].mod_revision != job->plans.revision ||
        (!find_root(job, &slot) && !find_left_behind(job, &slot)))
        return;
    job->fence.plan_read_ns = fencing->asked_ns;
    if (!registry_holds_key(fencing->daemon->node.registry))
        return; /* valid for READ_NS, but no command to go on */
    if (job->fence.standing == JOB_HELD)
        say(job, slot,
            "etcd is reachable again and no other node has taken the job over; the job continues");
    send_command(job, slot, CONTROL_GO_ON);
    fencing_look(fencing);
}

static void read_plan(struct fencing *fencing, struct job *job)
{
    const struct kv *kv = fencing->daemon->keys.kv;
    char key[KV_KEY_MAX];

    if (fencing->reading)
        return;
    keys_job(key, fencing->daemon->config->cluster, job->name, "generation");
    fencing->read_job = job;
    fencing->asked_ns = now_of(fencing);
    if (kv->range(kv->context, key, false, on_read, fencing, &fencing->reading))
        fencing->reading = NULL;
}

/* ---- checking ---- */

static enum isolation judge(const struct fencing *fencing)
{
    const struct registry *registry = fencing->daemon->node.registry;
    struct isolation_view view = {.left_ns = registry_left_ns(registry),
                                  .ttl_ns = registry_safe_ns(registry),
                                  .knows_neighbours = neighbours_known(fencing->neighbours),
                                  .neighbour_count = neighbours_count(fencing->neighbours)};
    neighbours_answers(fencing->neighbours, &view.reaching, &view.away);
    return isolation_judge(&view);
}

/*
 * Return whether a recent reading of the plan lets the job continue. A firnd that is not registered
 * yet, because the registration of the earlier firnd still stands, has no lease that shows whether
 * it is isolated.
 */
static bool goes_by_reading(struct fencing *fencing, struct job *job)
{
    if (registry_holds_key(fencing->daemon->node.registry))
        return false;
    if (job->fence.plan_read_revision != job->plans.revision) { /* the plan has just arrived */
        job->fence.plan_read_revision = job->plans.revision;
        job->fence.plan_read_ns = now_of(fencing);
    }
    read_plan(fencing, job);
    return now_of(fencing) < job->fence.plan_read_ns + READ_NS;
}

static void look_at(struct fencing *fencing, struct job *job, unsigned slot,
                    enum isolation isolation)
{
    if (goes_by_reading(fencing, job))
        return;
    if (isolation == ISOLATION_ALONE)
        hold(job, slot);
    else if (isolation == ISOLATION_NONE && !is_cleared(job))
        read_plan(fencing, job);
    else if (isolation == ISOLATION_SHARED && fencing_holds(job) &&
             registry_left_ns(fencing->daemon->node.registry) > 0)
        send_command(job, slot, CONTROL_GO_ON); /* the lease still holds: no takeover yet */
}

/* Release a root that was held when it was about to leave for a generation that spans nodes:
 * links fence that generation. */
static void let_go(struct job *job)
{
    if (job->plans.plan && job->fence.standing == JOB_HELD)
        send_command(job, job->fence.lone.slot, CONTROL_GO_ON);
}

/* Return the earliest time at which the result can change without an event. */
static uint64_t next_look_ns(struct fencing *fencing, enum isolation isolation, uint64_t now_ns)
{
    uint64_t left_ns = registry_left_ns(fencing->daemon->node.registry);
    uint64_t doubt_ns =
        registry_safe_ns(fencing->daemon->node.registry) / 100 * ISOLATION_DOUBT_PERCENT;

    if (isolation != ISOLATION_NONE) {
        if (!neighbours_known(fencing->neighbours))
            (void)neighbours_refresh(fencing->neighbours);
        neighbours_ask(fencing->neighbours);
        return now_ns + ASK_NS;
    }
    neighbours_forget(fencing->neighbours);
    return MIN(neighbours_refresh(fencing->neighbours), now_ns + left_ns - doubt_ns);
}

void fencing_look(struct fencing *fencing)
{
    struct daemon *daemon = fencing->daemon;
    const struct loop *loop = &daemon->loop.loop;
    uint64_t at_ns = UINT64_MAX, now_ns = loop->now_ns(loop->context);
    bool alone = false, spans = false;

    if (!daemon->node.registry)
        return; /* this node is leaving, its workers first */
    enum isolation isolation = judge(fencing);
    for (struct job *job = daemon->jobs; job; job = job->next) {
        unsigned slot;
        if (!find_root(job, &slot)) {
            let_go(job);
            spans |= takes_part(job);
            if (find_left_behind(job, &slot) && !is_cleared(job)) {
                read_plan(fencing, job);
                at_ns = MIN(at_ns, now_ns + ASK_NS);
            }
            continue;
        }
        alone = true;
        look_at(fencing, job, slot, isolation);
        if (!is_cleared(job))
            at_ns = MIN(at_ns, now_ns + ASK_NS);
    }
    if (alone)
        at_ns = MIN(at_ns, next_look_ns(fencing, isolation, now_ns));
    else if (spans) /* the other nodes may leave the job while etcd is away */
        at_ns = MIN(at_ns, neighbours_refresh(fencing->neighbours));
    if (loop->timer_set(loop->context, fencing->timer, at_ns))
        log_error("a timer failed: this node may not notice that it is cut off");
}

void fencing_connected(struct job *job, unsigned slot)
{
    unsigned root;

    if (!find_root(job, &root) || root != slot)
        return;
    if (fencing_holds(job))
        send_command(job, slot, CONTROL_HOLD);
    else
        job->fence.standing = JOB_UNKNOWN;
    fencing_look(job->daemon->fencing);
}

void fencing_forget(struct fencing *fencing, const struct job *job)
{
    if (fencing && fencing->read_job == job)
        fencing->read_job = NULL;
}

/* ---- start and end ---- */

static void on_timer(void *context)
{
    fencing_look(context);
}

int fencing_new(struct daemon *daemon, struct fencing **ret_fencing)
{
    const struct loop *loop = &daemon->loop.loop;
    struct fencing *fencing = calloc(1, sizeof(*fencing));
    int status;

    if (!fencing)
        return -ENOMEM;
    fencing->daemon = daemon;
    status = loop->timer_add(loop->context, UINT64_MAX, on_timer, fencing, &fencing->timer);
    if (!status)
        status = neighbours_new(daemon, on_timer, fencing, &fencing->neighbours);
    if (status)
        fencing_free(fencing);
    else
        *ret_fencing = fencing;
    return status;
}

void fencing_free(struct fencing *fencing)
{
    if (!fencing)
        return;
    const struct loop *loop = &fencing->daemon->loop.loop;
    fencing->daemon->keys.kv->cancel(fencing->daemon->keys.kv->context, fencing->reading);
    neighbours_free(fencing->neighbours);
    if (fencing->timer)
        loop->timer_remove(loop->context, fencing->timer);
    free(fencing);
}
