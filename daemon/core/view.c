#include "daemon/core/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/core/decode_cache.h"
#include "elastic/job/job_spec.h"
#include "membership/kv/keys.h"

bool view_job_over(const char *state)
{
    return !strcmp(state, "completed") || !strcmp(state, "cancelled") || !strcmp(state, "failed");
}

static int parse_entry(const struct mirror_entry *entry, json_t **ret_tree, struct error *error)
{
    return json_parse(entry->value, strlen(entry->value), entry->key, ret_tree, error);
}

static const struct mirror_entry *find_leaf(const struct mirror *mirror, const char *cluster,
                                            const char *job, const char *leaf)
{
    char key[KV_KEY_MAX];

    return mirror_find(mirror, keys_job(key, cluster, job, leaf));
}

static const struct mirror_entry *find_said(const struct mirror *mirror, const char *cluster,
                                            const char *job, const char *leaf)
{
    char key[KV_KEY_MAX];

    return mirror_find(mirror, keys_said(key, cluster, job, leaf));
}

static int read_spec(const struct mirror *mirror, const char *cluster, const char *job,
                     struct job_spec *ret_spec, struct error *error)
{
    const struct mirror_entry *entry = find_leaf(mirror, cluster, job, "spec");
    AUTO_JSON json_t *tree = NULL;
    int status = entry ? parse_entry(entry, &tree, error) : -ENOENT;

    return status ? status : job_spec_decode(tree, entry->key, NULL, NULL, ret_spec, error);
}

static int read_plan(const struct mirror *mirror, const char *cluster, const char *job,
                     const char *leaf, struct plan **ret_plan, int64_t *ret_revision,
                     struct error *error)
{
    const struct mirror_entry *entry = find_leaf(mirror, cluster, job, leaf);

    if (!entry)
        return 0;
    *ret_revision = entry->mod_revision;
    return decode_cache_plan(mirror, entry, ret_plan, error);
}

static int find_desired(const struct mirror *mirror, const char *cluster, const char *job,
                        struct desired_record *ret_desired, struct error *error)
{
    const struct mirror_entry *entry = find_leaf(mirror, cluster, job, "desired");
    AUTO_JSON json_t *tree = NULL;
    int status;

    *ret_desired = (struct desired_record){.wish = RECORD_RUNNING};
    if (!entry)
        return 0;
    status = parse_entry(entry, &tree, error);
    return status ? status : desired_record_decode(tree, ret_desired, error);
}

static int read_desired(struct view *view, const struct mirror *mirror, const char *cluster,
                        const char *job, struct error *error)
{
    static const enum job_desired wishes[] = {
        [RECORD_RUNNING] = JOB_DESIRED_RUNNING,
        [RECORD_PAUSED] = JOB_DESIRED_PAUSED,
        [RECORD_CANCELLED] = JOB_DESIRED_CANCELLED,
    };
    struct desired_record desired;
    int status = find_desired(mirror, cluster, job, &desired, error);

    if (status)
        return status;
    view->view.wish = (struct leader_wish){.desired = wishes[desired.wish],
                                           .devices = desired.devices,
                                           .stages = desired.stages,
                                           .replicas = desired.replicas};
    return 0;
}

/*
 * Return whether @progress is of the generation in force, or of the generation whose state the plan
 * took over. Progress of lost steps is invalid, both the step and the frozen layers. Steps are lost
 * when the job goes back to a checkpoint, and when a single node that computed them dies with the
 * state. A report of such steps may arrive late, after the plan made on the failure has resumed at
 * an earlier step.
 */
static bool speaks_of(const struct progress_record *progress, const struct plan *plan)
{
    if (progress->generation >= plan->generation)
        return true;
    return plan->start.source == PLAN_SOURCE_MEMORY && progress->generation >= plan->follows &&
           (plan->change.planned || progress->step <= plan->start.resume_step);
}

/* Return the state that the leader wrote for the job; NULL: absent or malformed. */
static const struct state_record *find_state(const struct mirror *mirror, const char *cluster,
                                             const char *job)
{
    const struct mirror_entry *entry = find_said(mirror, cluster, job, "state");

    return entry ? decode_cache_state(mirror, entry) : NULL;
}

bool view_job_rests(const struct mirror *mirror, const char *cluster, const char *job)
{
    const struct state_record *state = find_state(mirror, cluster, job);
    struct desired_record desired;

    if (!state || !view_job_over(state->state))
        return false;
    return !strcmp(state->state, "completed") ||
           (!find_desired(mirror, cluster, job, &desired, NULL) && desired.wish != RECORD_RUNNING);
}

bool view_job_cancelled(const struct mirror *mirror, const char *cluster, const char *job)
{
    struct desired_record desired;

    return !find_desired(mirror, cluster, job, &desired, NULL) && desired.wish == RECORD_CANCELLED;
}

/* Fill in the job's progress and its stragglers from the report of the root. */
static void read_progress(struct leader_view *view, const struct plan *plan,
                          const struct progress_record *record)
{
    struct leader_progress *progress = &view->progress;

    progress->last_step_seconds = record->step_seconds;
    if (plan && !speaks_of(record, plan))
        return;
    progress->kept = (struct planner_kept){record->kept_units, record->kept_share};
    progress->frozen_layers = record->frozen_layers;
    progress->step = record->step;
    progress->generation = record->generation;
    if (!plan || record->generation != plan->generation)
        return;
    progress->step_seconds = record->step_seconds;
    if (plan->change.planned && record->pause_seconds > 0) /* not NaN */
        progress->switch_seconds = record->pause_seconds;
    view->stragglers.count = record->straggler_count;
    for (unsigned i = 0; i < record->straggler_count; i++)
        view->stragglers.judgements[i] =
            (struct straggler_judgement){record->stragglers[i].rank, record->stragglers[i].speed};
}

/* State and progress are informational: treat a malformed record as absent. */
static void read_words(struct view *view, const struct mirror *mirror, const char *cluster,
                       const char *job)
{
    const struct state_record *state = find_state(mirror, cluster, job);
    const struct mirror_entry *progress = find_said(mirror, cluster, job, "progress");
    AUTO_JSON json_t *progress_tree = NULL;
    struct progress_record record;

    if (state)
        view->state = *state;
    if (view->plan) {
        view->view.progress.frozen_layers = view->plan->layout.frozen_layers;
        view->view.progress.step = view->plan->start.resume_step;
    }
    if (progress && !parse_entry(progress, &progress_tree, NULL) &&
        !progress_record_decode(progress_tree, &record, NULL))
        read_progress(&view->view, view->plan, &record);
}

/* Return the generation from which @plan takes over the state. That generation trains until a
 * planned switch, and some nodes may not have heard of its end. 0: none. */
static uint64_t generation_before(const struct plan *plan)
{
    return plan && plan->start.source == PLAN_SOURCE_MEMORY ? plan->follows : 0;
}

static bool is_gone(const struct worker_report *worker)
{
    return worker->phase == WORKER_LEFT || worker->phase == WORKER_DEAD;
}

/* Return whether the worker on @slot of @node, which generation @generation of @job releases,
 * has exited according to its node's report. */
static bool has_left(const struct mirror *mirror, const char *cluster, const char *job,
                     const struct plan *plan, const struct plan_worker *worker)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(mirror, keys_report(key, cluster, job, plan->generation, worker->node));
    const struct node_report *report = entry ? decode_cache_report(mirror, entry) : NULL;

    for (unsigned i = 0; report && i < report->worker_count; i++)
        if (report->workers[i].slot == worker->slot)
            return is_gone(&report->workers[i]);
    return false;
}

static int compare_node(const void *name, const void *node)
{
    return strcmp(name, ((const struct member *)node)->name);
}

struct member *view_find_node(const struct view *view, const char *name)
{
    return bsearch(name, view->nodes, view->view.node_count, sizeof(*view->nodes), compare_node);
}

static struct member_slot *find_slot(const struct view *view, const struct plan_worker *worker)
{
    struct member *node = view_find_node(view, worker->node);

    return node && worker->slot < node->slot_count ? &node->slots[worker->slot] : NULL;
}

/* Another job that is not over, and the slots that it uses: the slots of its plan's workers, and
 * those of released workers until they have exited. */
struct holding {
    const struct mirror *mirror;
    const char *cluster, *job;
    const struct plan *plan;
    unsigned holder;
};

static void mark_rank_busy(struct view *view, const struct holding *holding, unsigned rank)
{
    const struct plan *plan = holding->plan;
    const struct plan_worker *worker = &plan->layout.workers[rank];
    bool leaves = rank >= plan->layout.worker_count;
    struct member_slot *slot = find_slot(view, worker);

    if (!slot ||
        (leaves && has_left(holding->mirror, holding->cluster, holding->job, plan, worker)))
        return;
    slot->leaves = leaves && (!slot->busy || slot->leaves);
    slot->busy = true;
    slot->holder = holding->holder;
}

static int add_holder(struct view *view, const char *job, unsigned *ret_holder)
{
    char(*holders)[NAME_SIZE] =
        reallocarray(view->holders, view->view.holder_count + 1, sizeof(*holders));

    if (!holders)
        return -ENOMEM;
    snprintf(holders[view->view.holder_count], NAME_SIZE, "%s", job);
    view->holders = holders;
    view->view.holders = (const char(*)[NAME_SIZE])holders;
    *ret_holder = ++view->view.holder_count;
    return 0;
}

static bool job_holds_slots(const struct mirror *mirror, const char *cluster, const char *job)
{
    const struct state_record *state = find_state(mirror, cluster, job);

    return !state || !view_job_over(state->state);
}

/* Mark the slots of workers without a rank in the plan. A report of an earlier firnd may be of
 * processes that are gone. */
static void mark_released(struct view *view, const struct holding *holding,
                          const struct node_report *report)
{
    const struct member *node = view_find_node(view, report->node);

    if (!node || (report->incarnation && report->incarnation != node->incarnation))
        return;
    for (unsigned i = 0; i < report->worker_count; i++) {
        struct plan_worker at = {.slot = report->workers[i].slot};
        snprintf(at.node, sizeof(at.node), "%s", report->node);
        struct member_slot *slot = find_slot(view, &at);
        if (!slot || slot->busy || is_gone(&report->workers[i]) ||
            plan_layout_find(&holding->plan->layout, at.node, at.slot) >= 0)
            continue;
        slot->busy = slot->leaves = true;
        slot->holder = holding->holder;
    }
}

/* Return whether the plan in force of the other job has committed a step. */
static bool has_begun(const struct holding *holding)
{
    const struct mirror_entry *entry =
        find_said(holding->mirror, holding->cluster, holding->job, "progress");
    AUTO_JSON json_t *tree = NULL;
    struct progress_record record;

    return entry && !parse_entry(entry, &tree, NULL) &&
           !progress_record_decode(tree, &record, NULL) &&
           record.generation >= holding->plan->generation;
}

/* Mark the slots in the reports of @generation, but those of nodes that have reported under the
 * plan in force. */
static void mark_reported(struct view *view, const struct holding *holding, uint64_t generation)
{
    const uint64_t now = holding->plan->generation;
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX], key[KV_KEY_MAX];
    size_t count =
        mirror_range(holding->mirror,
                     keys_report(prefix, holding->cluster, holding->job, generation, ""), &entries);

    for (size_t i = 0; i < count; i++) {
        const struct node_report *report = decode_cache_report(holding->mirror, &entries[i]);
        bool is_old = report && generation != now &&
                      mirror_find(holding->mirror, keys_report(key, holding->cluster, holding->job,
                                                               now, report->node));
        if (report && !is_old)
            mark_released(view, holding, report);
    }
}

/* A worker that the plan releases computes until a planned change begins, which may be at the end
 * of a long step, and until then its node may have reported only under the generation before. */
static void mark_reported_busy(struct view *view, const struct holding *holding)
{
    uint64_t before = generation_before(holding->plan);

    mark_reported(view, holding, holding->plan->generation);
    if (before && !has_begun(holding))
        mark_reported(view, holding, before);
}

static int mark_plan_busy(struct view *view, struct holding *holding,
                          const struct mirror_entry *entry, bool in_force)
{
    struct plan *plan = NULL;
    int status = decode_cache_plan(holding->mirror, entry, &plan, NULL);

    if (status) /* the slots of a malformed plan are unknown */
        return status == -ENOMEM ? status : 0;
    holding->plan = plan;
    status = add_holder(view, holding->job, &holding->holder);
    for (unsigned rank = 0; !status && rank < plan->layout.worker_count + plan->layout.donor_count;
         rank++)
        mark_rank_busy(view, holding, rank);
    if (!status && in_force)
        mark_reported_busy(view, holding);
    plan_free(plan);
    return status;
}

static int mark_busy(struct view *view, const struct mirror *mirror, const char *cluster,
                     const char *job)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(mirror, keys_jobs(prefix, cluster), &entries);
    int status = 0;

    for (size_t i = 0; !status && i < count; i++) {
        char other[NAME_SIZE], leaf[128];
        if (!keys_match_job(entries[i].key, cluster, other, leaf) || !strcmp(other, job) ||
            (strcmp(leaf, "generation") && strcmp(leaf, "next")) ||
            !job_holds_slots(mirror, cluster, other))
            continue;
        struct holding holding = {.mirror = mirror, .cluster = cluster, .job = other};
        status = mark_plan_busy(view, &holding, &entries[i], !strcmp(leaf, "generation"));
    }
    return status;
}

/* Convert to the leader's monotonic clock. A wrong wall clock may change the choice between two
 * valid decisions, and no more. */
static uint64_t deadline_here(uint64_t deadline_unix_ns, uint64_t now_ns)
{
    const struct clock *clock = clock_real();
    uint64_t unix_ns;

    if (deadline_unix_ns == 0)
        return 0;
    unix_ns = clock->realtime_ns(clock->context);
    return now_ns + (deadline_unix_ns > unix_ns ? deadline_unix_ns - unix_ns : 1);
}

_Static_assert(MEMBER_OTHERS_MAX == RECORD_OTHERS_MAX, "leaders hear of every kind of slot");

static void take_node(struct member *node, const char *name, const struct node_record *record)
{
    *node = (struct member){
        .link_port = record->link_port,
        .incarnation = record->incarnation,
        .draining = record->draining,
        .slot_count = MIN(record->slot_count, (unsigned)REPORT_WORKERS_MAX),
    };
    snprintf(node->name, sizeof(node->name), "%s", name);
    snprintf(node->host, sizeof(node->host), "%s", record->host);
    snprintf(node->numerics_identity, sizeof(node->numerics_identity), "%s",
             record->numerics_identity);
    for (unsigned i = 0; i < MEMBER_OTHERS_MAX; i++)
        snprintf(node->other_numerics_identities[i], sizeof(node->other_numerics_identities[i]),
                 "%s", record->other_numerics_identities[i]);
    node->protocol = (struct versions){.links = record->links,
                                       .control = record->control,
                                       .control_oldest = record->control_oldest};
    snprintf(node->http, sizeof(node->http), "%s", record->http);
    snprintf(node->domain, sizeof(node->domain), "%s", record->domain);
    node->measured = (struct slot_measured){
        .flops_per_second = {[JOB_PRECISION_BF16] = record->rates.bf16_flops,
                             [JOB_PRECISION_TF32] = record->rates.tf32_flops,
                             [JOB_PRECISION_F32] = record->rates.f32_flops},
        .memory_bytes_per_second = record->rates.memory_bytes,
        .link_bytes_per_second = record->rates.link_bytes,
    };
    for (unsigned slot = 0; slot < node->slot_count; slot++)
        node->slots[slot] = (struct member_slot){
            .index = slot,
            .computes = record->slots[slot].computes,
            .memory_bytes = record->slots[slot].memory_bytes,
            .speed = record->slots[slot].speed,
            .gpu = strcmp(record->slots[slot].kind, "cuda") == 0,
            .threads = record->slots[slot].thread_count,
            .bad = record->slots[slot].bad[0] != '\0',
            .tried_again = record->slots[slot].retry_unix_ns != 0,
        };
}

/* Decoded record of a node; cached until the record changes. */
struct known_node {
    struct member node; /* drain_deadline_ns unused */
    uint64_t drain_deadline_unix_ns;
};

/* Return NULL if the record is malformed, or if memory is short. */
static const struct known_node *know_node(const struct mirror *mirror,
                                          const struct mirror_entry *entry, const char *name)
{
    struct node_record record;
    AUTO_JSON json_t *tree = NULL;
    struct known_node *known = entry->meaning;

    if (known)
        return known;
    if (parse_entry(entry, &tree, NULL) || node_record_decode(tree, &record, NULL) ||
        !(known = calloc(1, sizeof(*known))))
        return NULL;
    take_node(&known->node, name, &record);
    known->drain_deadline_unix_ns = record.drain_deadline_unix_ns;
    mirror_keep(mirror, entry, known, free);
    return known;
}

static int read_nodes(struct view *view, const struct mirror *mirror, const char *cluster)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(mirror, keys_nodes(prefix, cluster), &entries);

    view->nodes = calloc(count + 1, sizeof(*view->nodes));
    if (!view->nodes)
        return -ENOMEM;
    for (size_t i = 0; i < count && view->view.node_count < LEADER_NODES_MAX; i++) {
        char name[NAME_SIZE];
        const struct known_node *known = keys_match_node(entries[i].key, cluster, name)
                                             ? know_node(mirror, &entries[i], name)
                                             : NULL;
        if (!known)
            continue;
        struct member *node = &view->nodes[view->view.node_count++];
        *node = known->node;
        if (node->draining)
            node->drain_deadline_ns =
                deadline_here(known->drain_deadline_unix_ns, view->view.now_ns);
    }
    view->view.nodes = view->nodes;
    return 0;
}

/* Add the well-formed reports of one generation. */
static void add_reports(struct view *view, const struct mirror *mirror,
                        const struct mirror_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct node_report *report = decode_cache_report(mirror, &entries[i]);
        if (report)
            view->reports[view->view.report_count++] = report;
    }
}

/* Free the decoded reports of generations before @first, which stay in etcd for a while. */
static void forget_old_reports(const struct mirror *mirror, const char *cluster, const char *job,
                               uint64_t first)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(mirror, keys_said(prefix, cluster, job, "reports/"), &entries);
    size_t length = strlen(prefix);

    for (size_t i = 0; i < count; i++)
        if (strtoull(entries[i].key + length, NULL, 10) < first)
            mirror_forget(mirror, &entries[i]);
}

static int read_reports(struct view *view, const struct mirror *mirror, const char *cluster,
                        const char *job)
{
    const uint64_t before = generation_before(view->plan),
                   now = view->plan ? view->plan->generation : 0;
    const uint64_t generations[] = {before, now, view->next ? view->next->generation : 0};
    const struct mirror_entry *entries[ARRAY_COUNT(generations)];
    size_t counts[ARRAY_COUNT(generations)] = {0}, total = 0;
    char prefix[KV_KEY_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(generations); i++) {
        if (generations[i])
            counts[i] = mirror_range(mirror, keys_report(prefix, cluster, job, generations[i], ""),
                                     &entries[i]);
        total += counts[i];
    }
    forget_old_reports(mirror, cluster, job, before ? before : now);
    view->reports = calloc(total + 1, sizeof(const struct node_report *));
    if (!view->reports)
        return -ENOMEM;
    view->view.reports = view->reports;
    for (size_t i = 0; i < ARRAY_COUNT(generations); i++)
        if (counts[i] > 0)
            add_reports(view, mirror, entries[i], counts[i]);
    return 0;
}

/* Return whether the checkpoint can still be obtained. A checkpoint is not lost when all nodes
 * with its copies are away: they may come back. It is not lost either when a share was not
 * found while nodes with copies were away. */
static bool can_be_had(const struct view *view, const struct checkpoint_record *record,
                       const char *unasked, char *ret_nodes, size_t size)
{
    const char *needed[] = {record->shares, unasked};

    for (size_t i = 0; i < ARRAY_COUNT(needed); i++)
        if (!copies_alive(needed[i], view->nodes, view->view.node_count, ret_nodes, size))
            return false;
    return true;
}

static void take_checkpoint(struct view *view, struct checkpoint_record *record, int64_t revision)
{
    struct leader_checkpoint *checkpoint = &view->view.checkpoint;

    checkpoint->step = record->step;
    checkpoint->generation = record->generation;
    checkpoint->frozen_layers = record->frozen_layers;
    checkpoint->write_ns = record->write_seconds > 0 ? (uint64_t)(record->write_seconds * 1e9) : 0;
    view->checkpoint_revision = revision;
    snprintf(checkpoint->path, sizeof(checkpoint->path), "%s", record->path);
    memcpy(checkpoint->manifest_sha256, record->manifest_sha256, sizeof(record->manifest_sha256));
    checkpoint->shares = view->shares = record->shares;
    record->shares = NULL; /* owned by the view now */
}

/* The plan in force resumes from the checkpoint: if a worker finds it damaged, the job needs
 * the previous one. */
static bool is_being_read(const struct view *view)
{
    return view->plan && view->plan->start.source == PLAN_SOURCE_CHECKPOINT &&
           view->plan->start.resume_step == view->view.checkpoint.step;
}

/* Consider a record that is not refused. The newest available one is the checkpoint, the next
 * one its predecessor. Return false if no older record is needed. */
static bool weigh(struct view *view, struct checkpoint_record *record, int64_t revision,
                  const char *unasked)
{
    struct leader_checkpoint *checkpoint = &view->view.checkpoint;
    char nodes[160];
    bool can = can_be_had(view, record, unasked, nodes, sizeof(nodes));

    if (checkpoint->step > 0) {
        checkpoint->before_step = can ? record->step : 0;
        checkpoint->before_is_away |= !can;
        return !can;
    }
    view->view.finished |= record->step == view->spec.train.steps;
    if (can)
        take_checkpoint(view, record, revision);
    else if (!checkpoint->missing[0])
        snprintf(checkpoint->missing, sizeof(checkpoint->missing),
                 "node %s: it has a part of the checkpoint of step %" PRIu64, nodes, record->step);
    return !can || is_being_read(view);
}

/* Note the damage of every record down to the oldest: when none is usable, an operator must
 * allow the job to start over. */
static void note_damage(struct view *view, const struct checkpoint_record *record, const char *why)
{
    struct leader_checkpoint *checkpoint = &view->view.checkpoint;

    if (checkpoint->damaged_count++ == 0)
        snprintf(checkpoint->damaged, sizeof(checkpoint->damaged), "step %" PRIu64 ": %.200s",
                 record->step, why);
}

/* Find the newest record that is not refused and whose files are reachable, and its predecessor. */
static int read_checkpoint(struct view *view, const struct mirror *mirror, const char *cluster,
                           const char *job, const struct refused_checkpoints *refused)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(mirror, keys_job(prefix, cluster, job, "checkpoints/"), &entries);

    while (count-- > 0) {
        AUTO_JSON json_t *tree = NULL;
        CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
        int status = parse_entry(&entries[count], &tree, NULL);
        if (!status)
            status = checkpoint_record_decode(tree, &record, NULL);
        if (status == -ENOMEM) /* must not pass for an absent checkpoint */
            return status;
        if (status)
            continue;
        const char *damage = record.damaged[0]
                                 ? record.damaged
                                 : refused_damage(refused, entries[count].mod_revision);
        if (damage) {
            note_damage(view, &record, damage);
            continue;
        }
        const char *unasked = refused_unasked(refused, entries[count].mod_revision);
        if (unasked && !unasked[0]) {
            view->view.checkpoint.given_up_count++;
            continue;
        }
        if (!weigh(view, &record, entries[count].mod_revision, unasked))
            return 0;
    }
    return 0;
}

static int fill(struct view *view, const struct mirror *mirror, const char *cluster,
                const char *job, const struct refused_checkpoints *refused, struct error *error)
{
    int status = read_spec(mirror, cluster, job, &view->spec, error);

    if (!status)
        status =
            read_plan(mirror, cluster, job, "generation", &view->plan, &view->plan_revision, error);
    if (!status)
        status = read_plan(mirror, cluster, job, "next", &view->next, &view->next_revision, error);
    if (!status)
        status = read_desired(view, mirror, cluster, job, error);
    if (!status)
        status = read_nodes(view, mirror, cluster);
    if (!status)
        status = mark_busy(view, mirror, cluster, job);
    if (!status)
        status = read_reports(view, mirror, cluster, job);
    if (status)
        return status;
    read_words(view, mirror, cluster, job);
    status = read_checkpoint(view, mirror, cluster, job, refused);
    view->view.spec = &view->spec;
    view->view.plan = view->plan;
    view->view.next = view->next;
    return status;
}

int view_make(const struct mirror *mirror, const char *cluster, const char *job, uint64_t now_ns,
              uint64_t failure_timeout_ns, const struct refused_checkpoints *refused,
              struct view **ret_view, struct error *error)
{
    struct view *view = calloc(1, sizeof(*view));
    int status;

    if (!view)
        return error_set(error, -ENOMEM, "no memory to look at job %s", job);
    view->view.now_ns = now_ns;
    view->view.failure_timeout_ns = failure_timeout_ns;
    status = fill(view, mirror, cluster, job, refused, error);
    if (status)
        view_free(view);
    else
        *ret_view = view;
    return status;
}

void view_free(struct view *view)
{
    if (!view)
        return;
    plan_free(view->plan);
    plan_free(view->next);
    free(view->nodes);
    free(view->holders);
    free(view->reports);
    free(view->shares);
    free(view);
}
