#include "sim/sim_check.h"

#include <string.h>

#include "base/json.h"
#include "elastic/plan.h"
#include "membership/keys.h"
#include "membership/records.h"
#include "sim/sim_faults.h"
#include "sim/sim_node.h"

#define CALM_NS      (6 * NS_PER_SECOND)  /* untouched for so long: the leader must know of it */
#define LEARN_NS     (3 * NS_PER_SECOND)  /* until a node that is back has heard of all */
#define STALL_MAX_NS (90 * NS_PER_SECOND) /* without a commit, when all faults are over */
#define END_MAX_NS   (400 * NS_PER_SECOND)

/* ---- the history that there is to be ---- */

static uint64_t compute_record(const struct sim_unit *units, uint64_t step)
{
    struct sim_record record;
    uint64_t digest = sim_forward(0, step, units, 0, SIM_UNITS);
    sim_record_init(&record, step);
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        record.squares[unit] = sim_square(units[unit].hash, step, digest);
    for (unsigned lane = 0; lane < SIM_LANES; lane++)
        record.losses[lane] = sim_loss(lane, step, digest);
    return sim_record_digest(&record);
}

struct sim_check *sim_check_new(struct sim *sim)
{
    struct sim_check *check = sim_allocate(1, sizeof(*check));
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        check->history[0][unit] = (struct sim_unit){.held = true, .hash = sim_initial_hash(unit)};
    for (uint64_t step = 1; step <= sim->spec.train.steps; step++) {
        uint64_t digest = compute_record(check->history[step - 1], step);
        check->record_digests[step] = digest;
        for (unsigned unit = 0; unit < SIM_UNITS; unit++)
            check->history[step][unit] = (struct sim_unit){
                .held = true,
                .step = step,
                .hash = sim_apply_unit(check->history[step - 1][unit].hash, step, digest)};
    }
    return check;
}

/* ---- steps ---- */

static struct sim_witness *witness_of(struct sim *sim, const struct plan *plan, uint64_t step)
{
    struct sim_witness *witness =
        &sim->check->witnesses[plan->generation % ARRAY_COUNT(sim->check->witnesses)];
    if (witness->generation != plan->generation || witness->step != step)
        *witness = (struct sim_witness){.generation = plan->generation, .step = step};
    return witness;
}

void sim_check_hold(struct sim *sim, const struct plan *plan, unsigned rank, uint64_t step)
{
    witness_of(sim, plan, step)->ranks |= (uint64_t)1 << rank;
}

/*
 * Known, and not promised yet: when the daemon of a node that runs a whole generation is dead or
 * cut from the store for longer than its lease, the job is given away, and nothing tells the
 * workers of the old generation. They compute the same bits and nothing of theirs is recorded; it
 * is counted (`unfenced`) until firnd fences itself.
 */
static bool is_out_of_reach(const struct sim *sim, const struct plan *plan)
{
    const struct sim_node *node = &sim->nodes[sim_node_index(sim, plan->workers[0].node)];
    bool served = node->firnd != NULL && node->firnd_pause.until_ns <= sim->now_ns &&
                  !sim->store->down && sim->store->lost_answers_percent == 0 &&
                  sim_reachable(sim, node->index, SIM_STORE_PLACE);
    uint64_t changed_ns = MAX(node->disturbed_ns, sim->faults->store_disturbed_ns);
    return !served || sim->now_ns < changed_ns + LEARN_NS;
}

void sim_check_commit(struct sim *sim, const struct plan *plan, const struct sim_record *record)
{
    struct sim_check *check = sim->check;
    uint64_t all = ((uint64_t)1 << plan->worker_count) - 1;
    if (witness_of(sim, plan, record->step)->ranks != all)
        sim_fail(sim, "generation %llu commits step %llu, which not everybody holds",
                 (unsigned long long)plan->generation, (unsigned long long)record->step);
    if (plan->generation >= check->given_away)
        check->committed_step = MAX(check->committed_step, record->step);
    if (plan->generation < check->committing_generation && is_out_of_reach(sim, plan)) {
        check->unfenced++;
        return;
    }
    if (plan->generation < check->committing_generation)
        sim_fail(sim, "generation %llu commits step %llu after generation %llu has committed",
                 (unsigned long long)plan->generation, (unsigned long long)record->step,
                 (unsigned long long)check->committing_generation);
    if (sim_record_digest(record) != check->record_digests[record->step])
        sim_fail(sim, "step %llu is committed with other values than in the undisturbed run",
                 (unsigned long long)record->step);
    if (plan->generation != check->committing_generation)
        sim_trace(sim, "generation %llu commits its first step, %llu",
                  (unsigned long long)plan->generation, (unsigned long long)record->step);
    check->committing_generation = plan->generation;
    check->committed_ever = MAX(check->committed_ever, record->step);
    check->committed_ns = sim->now_ns;
    check->commits++;
}

void sim_check_apply(struct sim *sim, const struct sim_worker *worker, unsigned unit)
{
    const struct sim_unit *held = &worker->state.units[unit];
    const struct sim_unit *right =
        &sim->check->history[MIN(held->step, (uint64_t)SIM_STEPS_MAX)][unit];
    if (!held->held || held->step > sim->check->committed_ever)
        sim_fail(sim, "%s applies step %llu to unit %u, but that is not committed",
                 sim_worker_name(worker), (unsigned long long)held->step, unit);
    else if (held->hash != right->hash)
        sim_fail(sim, "%s: unit %u has other bits at step %llu than in the undisturbed run",
                 sim_worker_name(worker), unit, (unsigned long long)held->step);
}

/* Whoever computes at another step than the others would wait for them for ever. */
static void check_same_step(struct sim *sim, const struct sim_worker *worker)
{
    uint64_t generation = worker->plan->generation, step = worker->state.applied_step;
    struct sim_witness *begun = &sim->check->begun[generation % ARRAY_COUNT(sim->check->begun)];
    if (begun->generation != generation)
        *begun = (struct sim_witness){.generation = generation, .step = step};
    if (begun->step != step)
        sim_fail(sim, "%s begins generation %llu at step %llu, others at step %llu",
                 sim_worker_name(worker), (unsigned long long)generation, (unsigned long long)step,
                 (unsigned long long)begun->step);
}

void sim_check_begin(struct sim *sim, const struct sim_worker *worker)
{
    check_same_step(sim, worker);
    for (unsigned unit = worker->first_unit; unit < worker->first_unit + worker->unit_count;
         unit++) {
        const struct sim_unit *held = &worker->state.units[unit];
        uint64_t step = worker->state.applied_step;
        if (!held->held || held->step != step || held->hash != sim->check->history[step][unit].hash)
            sim_fail(sim, "%s begins generation %llu at step %llu with unit %u %s",
                     sim_worker_name(worker), (unsigned long long)worker->plan->generation,
                     (unsigned long long)step, unit,
                     !held->held ? "missing" : "at another step or with other bits");
    }
}

void sim_check_checkpoint(struct sim *sim, const struct sim_checkpoint *checkpoint)
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        const struct sim_unit *saved = &checkpoint->units[unit];
        if (!saved->held || saved->step != checkpoint->step ||
            saved->hash != sim->check->history[checkpoint->step][unit].hash)
            sim_fail(sim, "the checkpoint of step %llu has unit %u %s",
                     (unsigned long long)checkpoint->step, unit,
                     saved->held ? "with other bits" : "missing");
    }
}

/* ---- what is written to the store ---- */

static uint64_t newest_record(const struct sim *sim)
{
    char prefix[KV_KEY_MAX];
    uint64_t newest = 0;
    keys_job(prefix, SIM_CLUSTER, SIM_JOB, "checkpoints/");
    for (size_t i = 0; i < sim->store->key_count; i++)
        if (strncmp(sim->store->keys[i].key, prefix, strlen(prefix)) == 0)
            newest = strtoull(sim->store->keys[i].key + strlen(prefix), NULL, 10);
    return newest;
}

/* Somebody of whom the leader cannot but know. */
static bool is_clearly_there(const struct sim *sim, const struct sim_worker *worker)
{
    const struct sim_node *node = &sim->nodes[worker->node];
    return worker->alive && !worker->unlinked && worker->pause.until_ns <= sim->now_ns &&
           node->up && node->firnd != NULL && node->firnd_pause.until_ns <= sim->now_ns &&
           sim_reachable(sim, worker->node, SIM_STORE_PLACE) &&
           (node->disturbed_ns == 0 || node->disturbed_ns + CALM_NS <= sim->now_ns);
}

static bool lives(const struct sim *sim, unsigned unit, uint64_t step)
{
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (is_clearly_there(sim, sim->workers[i]) && sim->workers[i]->state.units[unit].held &&
            sim->workers[i]->state.units[unit].step == step)
            return true;
    return false;
}

static void check_fallback(struct sim *sim, const struct plan *plan)
{
    uint64_t disturbed_ns = sim->faults->store_disturbed_ns, committed = sim->check->committed_step;
    if (sim->store->down || (disturbed_ns != 0 && disturbed_ns + CALM_NS > sim->now_ns) ||
        sim->store->late_requests_percent > 0)
        return;
    for (uint64_t step = committed; step > plan->resume_step && step + 1 >= committed; step--) {
        bool all = true;
        for (unsigned unit = 0; unit < SIM_UNITS; unit++)
            all = all && lives(sim, unit, step);
        if (all)
            sim_fail(sim, "generation %llu goes back to step %llu although step %llu lives: %s",
                     (unsigned long long)plan->generation, (unsigned long long)plan->resume_step,
                     (unsigned long long)step, plan->reason_text);
    }
}

/* A step that the leader lets stand is committed by its plan. */
static void check_ordered_commit(struct sim *sim, const struct plan *plan)
{
    struct sim_record record;
    if (!plan->has_commit)
        return;
    sim_record_from(&plan->commit, &record);
    if (sim_record_digest(&record) != sim->check->record_digests[record.step])
        sim_fail(sim, "generation %llu lets step %llu stand with other values than it has",
                 (unsigned long long)plan->generation, (unsigned long long)record.step);
    sim->check->committed_step = MAX(sim->check->committed_step, record.step);
    sim->check->committed_ever = MAX(sim->check->committed_ever, record.step);
}

/* Where a generation starts: from memory without losing a step, or from the newest record. */
static void check_source(struct sim *sim, const struct plan *plan)
{
    struct sim_check *check = sim->check;
    if (!plan->planned)
        check->given_away = plan->generation;
    if (plan->source == PLAN_SOURCE_MEMORY) {
        check->memory_plans++;
        check_ordered_commit(sim, plan);
        if (plan->worker_count == 0 || plan->planned ||
            plan->resume_step + 1 >= check->committed_step)
            return;
        if (plan->resume_step < newest_record(sim))
            sim_fail(sim, "generation %llu goes on from step %llu, but that of %llu is on disk",
                     (unsigned long long)plan->generation, (unsigned long long)plan->resume_step,
                     (unsigned long long)newest_record(sim));
        check_fallback(sim, plan); /* all that somebody kept from an earlier generation */
        check->committed_step = plan->resume_step;
        return;
    }
    check->disk_plans++;
    if (plan->resume_step != newest_record(sim))
        sim_fail(sim, "generation %llu starts from step %llu, but a checkpoint of %llu is recorded",
                 (unsigned long long)plan->generation, (unsigned long long)plan->resume_step,
                 (unsigned long long)newest_record(sim));
    if (plan->reason == PLAN_REASON_FAILURE)
        check_fallback(sim, plan);
    check->committed_step = plan->resume_step;
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

static void check_generation(struct sim *sim, const struct kv_operation *operation)
{
    struct sim_check *check = sim->check;
    if (operation->type == KV_DELETE)
        return;
    struct plan *plan = decode_plan(sim, operation->value);
    if (plan == NULL)
        return;
    sim_trace(sim, "GENERATION %llu%s: %s", (unsigned long long)plan->generation,
              plan->planned ? " (planned)" : "", plan->reason_text);
    if (plan->generation <= check->generation)
        sim_fail(sim, "generation %llu is written after %llu", (unsigned long long)plan->generation,
                 (unsigned long long)check->generation);
    check->generation = plan->generation;
    check_source(sim, plan);
    plan_free(plan);
}

static void check_record(struct sim *sim, const struct kv_operation *operation)
{
    char key[KV_KEY_MAX];
    struct checkpoint_record record;
    AUTO_JSON json_t *tree = NULL;
    const struct sim_store_key *generation =
        sim_store_find(sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "generation"));
    struct plan *plan = generation != NULL ? decode_plan(sim, generation->value) : NULL;
    if (operation->type == KV_DELETE || plan == NULL ||
        json_parse(operation->value, strlen(operation->value), "a record", &tree, NULL) < 0 ||
        checkpoint_record_decode(tree, &record, NULL) < 0) {
        plan_free(plan);
        return;
    }
    sim_trace(sim, "CHECKPOINT of step %llu is recorded", (unsigned long long)record.step);
    if (record.generation > plan->generation || record.generation < sim->check->given_away)
        sim_fail(sim, "a checkpoint of generation %llu is recorded in generation %llu",
                 (unsigned long long)record.generation, (unsigned long long)plan->generation);
    /* A request that was given up may be carried out very late, and bring back an old record of
     * this generation: nobody reads it, for there are newer ones. */
    if (record.step > newest_record(sim) && sim_disk_find(sim, record.step) == NULL)
        sim_fail(sim, "the checkpoint of step %llu is recorded, but not on disk",
                 (unsigned long long)record.step);
    plan_free(plan);
}

void sim_check_write(struct sim *sim, uint64_t client, const struct kv_operation *operation)
{
    char job[NAME_SIZE], leaf[128], leader_key[KV_KEY_MAX];
    if (!keys_match_job(operation->key, SIM_CLUSTER, job, leaf))
        return;
    bool plans = strcmp(leaf, "generation") == 0 || strcmp(leaf, "next") == 0;
    if (plans && sim_store_lease_client(sim->store, keys_leader(leader_key, SIM_CLUSTER)) != client)
        sim_fail(sim, "somebody who does not lead writes %s", leaf);
    if (strncmp(leaf, "reports/", strlen("reports/")) == 0 && operation->type == KV_PUT)
        sim_trace(sim, "%s = %.600s", leaf, operation->value);
    if (strcmp(leaf, "generation") == 0)
        check_generation(sim, operation);
    else if (strncmp(leaf, "checkpoints/", strlen("checkpoints/")) == 0)
        check_record(sim, operation);
}

/* ---- the end ---- */

static bool is_complete(const struct sim *sim)
{
    char key[KV_KEY_MAX];
    const struct sim_store_key *state =
        sim_store_find(sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "state"));
    return state != NULL && strstr(state->value, "\"completed\"") != NULL;
}

bool sim_check_liveness(struct sim *sim, uint64_t calm_since_ns)
{
    struct sim_check *check = sim->check;
    uint64_t last_ns = MAX(check->committed_ns, calm_since_ns);
    if (is_complete(sim))
        return true;
    if (sim->now_ns > last_ns + STALL_MAX_NS)
        sim_fail(sim, "no step was committed for %llu s with all faults over (step %llu of %llu)",
                 STALL_MAX_NS / NS_PER_SECOND, (unsigned long long)check->committed_step,
                 (unsigned long long)sim->spec.train.steps);
    if (sim->now_ns > calm_since_ns + END_MAX_NS)
        sim_fail(sim, "the job does not come to its end (step %llu of %llu)",
                 (unsigned long long)check->committed_step,
                 (unsigned long long)sim->spec.train.steps);
    return false;
}

void sim_check_end(struct sim *sim)
{
    if (newest_record(sim) != sim->spec.train.steps)
        sim_fail(sim, "the job is complete, but its last checkpoint is of step %llu",
                 (unsigned long long)newest_record(sim));
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->alive)
            sim_fail(sim, "%s still runs after the job's end%s", sim_worker_name(sim->workers[i]),
                     sim->workers[i]->unlinked ? ", and nobody can find it" : "");
}
