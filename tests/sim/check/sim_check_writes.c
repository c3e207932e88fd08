/*
 * Check writes to the store: the leader's plans only go forward and lose no step that a worker
 * still holds; a generation writes only the records of its own checkpoints.
 */
#include <string.h>

#include "base/json.h"
#include "elastic/plan/plan.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_bits.h"
#include "sim/worker/sim_input.h"

#define WATCH_LAG_NS (NS_PER_SECOND / 2)
#define CALM_NS      (6 * NS_PER_SECOND) /* undisturbed for this long: the leader must know of it */

/* Return the newest step with a record for which @counts() is true; 0: none. Keys sort by step. */
static uint64_t newest(const struct sim *sim, uint64_t known_ns,
                       bool (*counts)(const struct sim *sim, uint64_t step, uint64_t known_ns))
{
    char prefix[KV_KEY_MAX];
    uint64_t newest = 0;
    keys_job(prefix, SIM_CLUSTER, SIM_JOB, "checkpoints/");
    size_t length = strlen(prefix);
    for (size_t i = 0; i < sim->store->key_count; i++) {
        if (strncmp(sim->store->keys[i].key, prefix, length) != 0)
            continue;
        uint64_t step = strtoull(sim->store->keys[i].key + length, NULL, 10);
        newest = counts(sim, step, known_ns) ? step : newest;
    }
    return newest;
}

static bool is_any(const struct sim *sim, uint64_t step, uint64_t known_ns)
{
    (void)sim;
    (void)step;
    (void)known_ns;
    return true;
}

static bool is_untroubled(const struct sim *sim, const struct sim_node *node)
{
    return node->up && node->firnd && node->firnd_pause.until_ns <= sim->now_ns &&
           sim_reachable(sim, node->index, SIM_STORE_PLACE) &&
           (node->disturbed_ns == 0 || node->disturbed_ns + CALM_NS <= sim->now_ns);
}

static bool is_registered(const struct sim *sim, unsigned node)
{
    char key[KV_KEY_MAX];
    return sim_store_find(sim->store, keys_node(key, SIM_CLUSTER, sim_node_name(sim, node)));
}

/* Return whether all parts of the checkpoint are on nodes that the leader must know of. */
static bool has_copies(const struct sim *sim, uint64_t step)
{
    uint64_t nodes = 0;
    bool all = true;
    for (unsigned i = 0; i < sim->node_count; i++)
        nodes |= is_untroubled(sim, &sim->nodes[i]) && is_registered(sim, i) ? (uint64_t)1 << i : 0;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        all = all && sim_folders_find(sim, nodes, step, sim_check_recorded_by(sim, step), unit);
    return all;
}

/* Return whether a leader that planned at @known_ns had heard of the checkpoint and can read it. A
 * checkpoint that was found lost is not tried again, even if its files return: it needs a new
 * record. */
static bool is_readable(const struct sim *sim, uint64_t step, uint64_t known_ns)
{
    uint64_t index = MIN(step, (uint64_t)SIM_STEPS_MAX);
    uint64_t recorded_ns = sim->check->recorded_ns[index];
    bool there =
        job_keeps_copies(&sim->spec) ? has_copies(sim, step) : sim_disk_find(sim, step) != NULL;
    return there && !sim_check_is_missed(sim, step) && recorded_ns < known_ns;
}

uint64_t sim_check_newest_record(const struct sim *sim)
{
    return newest(sim, 0, is_any);
}

/*
 * A plan does not contain a record that is written while the plan is in flight, or that a stalled
 * watch has not delivered. This is no error, but some steps are computed twice.
 */
static uint64_t newest_readable(const struct sim *sim, unsigned node, uint64_t sent_ns)
{
    uint64_t stalled_ns = sim->nodes[node].watch_stalled_ns;
    bool hangs = stalled_ns != 0 && stalled_ns + WATCH_LAG_NS > sent_ns;
    return hangs ? 0 : newest(sim, sent_ns - WATCH_LAG_NS, is_readable);
}

static bool is_recorded(const struct sim *sim, uint64_t step)
{
    char key[KV_KEY_MAX];
    return sim_store_find(sim->store, keys_checkpoint(key, SIM_CLUSTER, SIM_JOB, step));
}

static bool hears_late(const struct sim *sim, unsigned node, unsigned from)
{
    return !sim_reachable(sim, node, from) || sim->network->slow_ns[node][from] > 0;
}

/* Return whether the worker may have lost a peer and not know it yet: it is cut from the peer, or
 * their messages are slow, and the peer's end of their link may have broken first. That peer
 * accuses the worker, so the leader does not wait for the worker long. */
static bool is_unaware(const struct sim *sim, const struct sim_worker *worker)
{
    for (unsigned i = 0; i < sim->worker_count && worker->phase == WORKER_RUNNING; i++)
        if (sim->workers[i]->generation == worker->generation &&
            hears_late(sim, worker->node, sim->workers[i]->node))
            return true;
    return false;
}

/* Return whether the worker's firnd may not have heard of the last plans, and so has not reported
 * under them: the reports that it made before are gone. */
static bool is_out_of_hearing(const struct sim *sim, const struct sim_worker *worker)
{
    return sim->nodes[worker->node].watch_stalled_ns + WATCH_LAG_NS > sim->now_ns;
}

/* Return whether the leader is certain to know of the worker. */
static bool is_clearly_there(const struct sim *sim, const struct sim_worker *worker)
{
    return worker->alive && !is_unaware(sim, worker) && !worker->unlinked &&
           !is_out_of_hearing(sim, worker) && worker->pause.until_ns <= sim->now_ns &&
           is_untroubled(sim, &sim->nodes[worker->node]);
}

/* Return whether the worker has read a checkpoint whose state it has not reported. It reports when
 * its links are up. Until then the checkpoint counts, not the state that was made of it. */
static bool has_only_read(const struct sim_worker *worker)
{
    return worker->plan && worker->plan->start.source != PLAN_SOURCE_MEMORY && !worker->engine;
}

static bool lives(const struct sim *sim, unsigned unit, uint64_t step)
{
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        const struct sim_unit *held = &worker->state.units[unit];
        if (is_clearly_there(sim, worker) && held->held && held->step == step &&
            !has_only_read(worker))
            return true;
    }
    return false;
}

/* Return whether a fault has hit @node since @since_ns, or an earlier fault still lasts. */
static bool is_troubled(const struct sim *sim, const struct sim_node *node, uint64_t since_ns)
{
    return !node->up || !node->firnd || node->firnd_pause.until_ns > sim->now_ns ||
           !sim_reachable(sim, node->index, SIM_STORE_PLACE) ||
           (node->disturbed_ns != 0 && node->disturbed_ns + CALM_NS > since_ns);
}

/*
 * With every unit on two nodes, the loss of either node leaves all units. A later fault of one node
 * alone is no reason to go back.
 */
static void check_shadowed(struct sim *sim, const struct plan *plan)
{
    const struct sim_check *check = sim->check;
    const struct sim_node *troubled = NULL;
    unsigned count = 0;
    if (!check->doubled || (sim->faults->store_disturbed_ns != 0 &&
                            sim->faults->store_disturbed_ns + CALM_NS > check->first_commit_ns))
        return;
    for (unsigned i = 0; i < sim->node_count; i++)
        if ((check->nodes >> i & 1) != 0 &&
            is_troubled(sim, &sim->nodes[i], check->first_commit_ns)) {
            troubled = &sim->nodes[i];
            count++;
        }
    if (count <= 1)
        sim_fail(
            sim,
            "generation %llu goes back from step %llu to %llu although generation %llu had all "
            "units on two nodes and at most node %s was disturbed: %s",
            (unsigned long long)plan->generation, (unsigned long long)check->committed_step,
            (unsigned long long)plan->start.resume_step,
            (unsigned long long)check->committing_generation, troubled ? troubled->name : "none",
            plan->change.text);
}

static bool is_excused(const struct sim *sim, const struct plan *plan, bool excused)
{
    uint64_t disturbed_ns = sim->faults->store_disturbed_ns;
    return sim->store->down || (disturbed_ns != 0 && disturbed_ns + CALM_NS > sim->now_ns) ||
           sim->store->late_requests_percent > 0 || sim_cuts_excuse(sim, plan) || excused;
}

/* Check that no later step lives: neither the last committed step nor the one before it. */
static void check_later_steps(struct sim *sim, const struct plan *plan)
{
    uint64_t committed = sim->check->committed_step;
    for (uint64_t step = committed; step > plan->start.resume_step && step + 1 >= committed;
         step--) {
        bool all = true;
        for (unsigned unit = 0; unit < SIM_UNITS; unit++)
            all = all && lives(sim, unit, step);
        if (all)
            sim_fail(sim, "generation %llu goes back to step %llu although step %llu lives: %s",
                     (unsigned long long)plan->generation,
                     (unsigned long long)plan->start.resume_step, (unsigned long long)step,
                     plan->change.text);
    }
}

static void check_fallback(struct sim *sim, const struct plan *plan, bool excused)
{
    if (is_excused(sim, plan, excused))
        return;
    check_shadowed(sim, plan);
    check_later_steps(sim, plan);
}

/* The leader's plan commits a step that the leader lets stand. */
static void check_ordered_commit(struct sim *sim, const struct plan *plan)
{
    struct sim_record record;
    if (!plan->start.has_commit)
        return;
    sim_record_from(&plan->start.commit, &record);
    if (sim_record_digest(&record) != sim->check->record_digests[record.step])
        sim_fail(sim, "generation %llu lets step %llu stand with other values than it has",
                 (unsigned long long)plan->generation, (unsigned long long)record.step);
    sim->check->committed_step = MAX(sim->check->committed_step, record.step);
    sim->check->committed_ever = MAX(sim->check->committed_ever, record.step);
}

/* Discard the checkpoints of later steps: the job comes to those steps again and rewrites them. */
static void go_back(struct sim *sim, uint64_t resume_step)
{
    for (uint64_t step = resume_step + 1; step <= (uint64_t)SIM_STEPS_MAX; step++)
        sim->check->passed_ns[step] = sim->now_ns;
    sim->check->committed_step = resume_step;
}

/* Check that a generation starts from memory without losing a step, or from the newest record. */
static void check_source(struct sim *sim, const struct plan *plan, uint64_t readable)
{
    struct sim_check *check = sim->check;
    bool excused = sim_bits_excuse(sim);
    sim_bits_planned(sim, plan);
    check->pace.rests = plan->layout.worker_count == 0;
    if (sim->unjudged) /* nothing in the cluster holds the right values any more */
        return;
    if (!plan->change.planned)
        check->given_away = plan->generation;
    if (plan->layout.worker_count == 0) /* all workers leave, with a checkpoint */
        check->doubled = false;
    if (plan->start.source == PLAN_SOURCE_MEMORY) {
        check->counts.memory_plans++;
        check_ordered_commit(sim, plan);
        if (plan->layout.worker_count == 0 || plan->change.planned ||
            plan->start.resume_step >= check->committed_step)
            return;
        if (plan->start.resume_step + 1 == check->committed_step) {
            if (!is_excused(sim, plan, excused)) /* rank 0 alone may have known of its commit */
                check_later_steps(sim, plan);
            return;
        }
        if (plan->start.resume_step < readable)
            sim_fail(sim, "generation %llu goes on from step %llu, but that of %llu is on disk",
                     (unsigned long long)plan->generation,
                     (unsigned long long)plan->start.resume_step, (unsigned long long)readable);
        check_fallback(sim, plan, excused); /* all state is from earlier generations */
        go_back(sim, plan->start.resume_step);
        return;
    }
    check->counts.disk_plans++;
    /* A lost checkpoint may be tried first: its readers find the loss. */
    if (plan->start.resume_step < readable ||
        (plan->start.resume_step > 0 && !is_recorded(sim, plan->start.resume_step)))
        sim_fail(sim, "generation %llu starts from step %llu, but a checkpoint of %llu is recorded",
                 (unsigned long long)plan->generation, (unsigned long long)plan->start.resume_step,
                 (unsigned long long)readable);
    if (plan->change.reason == PLAN_REASON_FAILURE)
        check_fallback(sim, plan, excused);
    go_back(sim, plan->start.resume_step);
    check->doubled = false;
}

static struct plan *decode_plan(struct sim *sim, const char *text)
{
    AUTO_JSON json_t *tree = NULL;
    struct error error;
    struct plan *plan = NULL;
    if (json_parse(text, strlen(text), "a plan", &tree, &error) < 0 ||
        plan_decode(tree, &plan, &error) < 0)
        sim_fail(sim, "a plan that nobody can follow: %s", error.text);
    return plan;
}

static unsigned member(const struct sim *sim)
{
    char key[KV_KEY_MAX];
    const struct sim_store_key *leader = sim_store_find(sim->store, keys_leader(key, SIM_CLUSTER));
    return leader ? sim_node_index(sim, leader->value) : 0;
}

static void check_generation(struct sim *sim, uint64_t sent_ns,
                             const struct kv_operation *operation)
{
    struct sim_check *check = sim->check;
    if (operation->type == KV_DELETE)
        return;
    struct plan *plan = decode_plan(sim, operation->value);
    if (!plan)
        return;
    sim_trace(sim, "GENERATION %llu%s: %s", (unsigned long long)plan->generation,
              plan->change.planned ? " (planned)" : "", plan->change.text);
    if (plan->generation <= check->newest.generation)
        sim_fail(sim, "generation %llu is written after %llu", (unsigned long long)plan->generation,
                 (unsigned long long)check->newest.generation);
    sim_input_given_up(sim, plan);
    sim_check_accused(sim, plan);
    sim_check_left_out(sim, plan);
    sim_faults_planned(sim, plan);
    sim_check_settled(sim, plan);
    check->newest.generation = plan->generation;
    check->newest.at_ns = sim->now_ns;
    check_source(sim, plan, newest_readable(sim, member(sim), sent_ns));
    plan_free(plan);
}

/* Return whether the write only marks the checkpoint of an existing record as damaged. */
static bool marks_damage(const struct sim *sim, const char *key,
                         const struct checkpoint_record *record)
{
    CLEANUP(checkpoint_record_done) struct checkpoint_record before = {0};
    AUTO_JSON json_t *tree = NULL;
    const struct sim_store_key *there = sim_store_find(sim->store, key);
    return record->damaged[0] != '\0' && there &&
           json_parse(there->value, strlen(there->value), "a record", &tree, NULL) == 0 &&
           checkpoint_record_decode(tree, &before, NULL) == 0 &&
           before.generation == record->generation &&
           strcmp(before.manifest_sha256, record->manifest_sha256) == 0;
}

static void check_record(struct sim *sim, const struct kv_operation *operation)
{
    char key[KV_KEY_MAX];
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
    AUTO_JSON json_t *tree = NULL;
    const struct sim_store_key *generation =
        sim_store_find(sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "generation"));
    struct plan *plan = generation ? decode_plan(sim, generation->value) : NULL;
    if (operation->type == KV_DELETE || !plan ||
        json_parse(operation->value, strlen(operation->value), "a record", &tree, NULL) < 0 ||
        checkpoint_record_decode(tree, &record, NULL) < 0) {
        plan_free(plan);
        return;
    }
    if (marks_damage(sim, operation->key, &record)) {
        sim_trace(sim, "CHECKPOINT of step %llu is marked: %s", (unsigned long long)record.step,
                  record.damaged);
        plan_free(plan);
        return;
    }
    sim_trace(sim, "CHECKPOINT of step %llu is recorded", (unsigned long long)record.step);
    sim->check->recorded_ns[MIN(record.step, (uint64_t)SIM_STEPS_MAX)] = sim->now_ns;
    if (record.generation > plan->generation || record.generation < sim->check->given_away)
        sim_fail(sim, "a checkpoint of generation %llu is recorded in generation %llu",
                 (unsigned long long)record.generation, (unsigned long long)plan->generation);
    /* The store may carry out an abandoned request very late, and bring back an old record of this
     * generation: newer records exist, so the old record is not read. */
    if (record.step > sim_check_newest_record(sim) && !record.shares &&
        !sim_disk_find(sim, record.step))
        sim_fail(sim, "the checkpoint of step %llu is recorded, but not on disk",
                 (unsigned long long)record.step);
    plan_free(plan);
}

void sim_check_write(struct sim *sim, uint64_t client, uint64_t sent_ns,
                     const struct kv_operation *operation)
{
    char job[NAME_SIZE], leaf[128], leader_key[KV_KEY_MAX];
    if (operation->type == KV_PUT && keys_match_said(operation->key, SIM_CLUSTER, job, leaf))
        sim_trace(sim, "%s = %.600s", leaf, operation->value);
    if (!keys_match_job(operation->key, SIM_CLUSTER, job, leaf))
        return;
    bool plans = strcmp(leaf, "generation") == 0 || strcmp(leaf, "next") == 0;
    if (plans && sim_store_lease_client(sim->store, keys_leader(leader_key, SIM_CLUSTER)) != client)
        sim_fail(sim, "somebody who does not lead writes %s", leaf);
    if (plans && operation->type == KV_PUT)
        sim_check_pace(sim);
    if (strcmp(leaf, "generation") == 0)
        check_generation(sim, sent_ns, operation);
    if (strncmp(leaf, "checkpoints/", strlen("checkpoints/")) == 0) {
        check_record(sim, operation);
        sim->check->records_changed = true;
    }
}

void sim_check_written(struct sim *sim)
{
    uint64_t now = sim_check_newest_record(sim);
    if (now < sim->check->newest_record)
        sim_fail(sim, "the newest record of a checkpoint was of step %llu, and is of step %llu now",
                 (unsigned long long)sim->check->newest_record, (unsigned long long)now);
    sim->check->newest_record = now;
    if (sim->check->records_changed)
        sim_check_copies(sim);
    sim->check->records_changed = false;
}
