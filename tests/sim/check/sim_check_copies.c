/*
 * Checkpoints with copies: after the loss of any n - 1 nodes with their disks, each checkpoint
 * whose record says n copies can still be restored. A checkpoint is removed only after its
 * successor is safe.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"
#include "sim/check/sim_check.h"
#include "sim/node/sim_folders.h"
#include "sim/node/sim_store.h"
#include "sim/worker/sim_worker.h"

/* The time until rank 0 has heard of a failed keeper: with the next commit or round without a
 * step, which the links may delay. */
#define HEARD_NS     (3 * NS_PER_SECOND)
#define STEPS_TO_SAY 2

static bool decode(const char *text, struct checkpoint_record *ret_record)
{
    AUTO_JSON json_t *tree = NULL;
    return json_parse(text, strlen(text), "a record", &tree, NULL) == 0 &&
           checkpoint_record_decode(tree, ret_record, NULL) == 0;
}

/* Return the smallest number of places of a share: "a+b b+c" gives 2. */
static unsigned fewest_places(const char *shares)
{
    unsigned fewest = SIM_NODES_MAX, places = 1;
    for (const char *at = shares;; at++) {
        places += *at == '+';
        if (*at != ' ' && *at != '\0')
            continue;
        fewest = MIN(fewest, places);
        places = 1;
        if (*at == '\0')
            return fewest;
    }
}

static uint64_t sealed_ns(const struct sim_check *check, uint64_t step, uint64_t generation)
{
    for (unsigned i = 0; i < MIN(check->sealed_count, (unsigned)SIM_SEALED_MAX); i++)
        if (check->sealed[i].step == step && check->sealed[i].generation == generation)
            return check->sealed[i].at_ns;
    return 0;
}

static unsigned lost_since(const struct sim *sim, uint64_t since_ns)
{
    unsigned lost = 0;
    for (unsigned node = 0; node < sim->node_count; node++)
        lost += sim->check->lost_ns[node] != 0 && sim->check->lost_ns[node] >= since_ns;
    return lost;
}

static unsigned places_of(const struct sim *sim, uint64_t step, uint64_t generation, unsigned unit)
{
    unsigned places = 0;
    for (unsigned node = 0; node < sim->node_count; node++)
        places += sim_folders_find(sim, (uint64_t)1 << node, step, generation, unit) != NULL;
    return places;
}

static void check_one(struct sim *sim, const struct checkpoint_record *record)
{
    uint64_t step = record->step, generation = strtoull(record->manifest_sha256, NULL, 16);
    unsigned copies = fewest_places(record->shares);
    unsigned lost = lost_since(sim, sealed_ns(sim->check, step, generation));
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        unsigned places = places_of(sim, step, generation, unit);
        if (places + lost < copies)
            sim_fail(sim,
                     "the checkpoint of step %llu is recorded with %u copies, but unit %u is on %u "
                     "nodes although only %u lost something since",
                     (unsigned long long)step, copies, unit, places, lost);
    }
}

uint64_t sim_check_recorded_by(const struct sim *sim, uint64_t step)
{
    char key[KV_KEY_MAX];
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
    const struct sim_store_key *there =
        sim_store_find(sim->store, keys_checkpoint(key, SIM_CLUSTER, SIM_JOB, step));
    return there && decode(there->value, &record) ? strtoull(record.manifest_sha256, NULL, 16) : 0;
}

/* Return whether the checkpoint may be rewritten over its remains: it was useless or lost with its
 * nodes, and the job has gone back to an earlier checkpoint. */
static bool is_past(const struct sim *sim, uint64_t step)
{
    uint64_t index = MIN(step, (uint64_t)SIM_STEPS_MAX);
    return sim_check_is_missed(sim, step) ||
           sim->check->passed_ns[index] > sim->check->recorded_ns[index];
}

void sim_check_copies(struct sim *sim)
{
    char prefix[KV_KEY_MAX];
    keys_job(prefix, SIM_CLUSTER, SIM_JOB, "checkpoints/");
    size_t length = strlen(prefix);
    for (size_t i = 0; job_keeps_copies(&sim->spec) && i < sim->store->key_count; i++) {
        CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
        if (strncmp(sim->store->keys[i].key, prefix, length) == 0 &&
            decode(sim->store->keys[i].value, &record) && record.shares &&
            !is_past(sim, record.step))
            check_one(sim, &record);
    }
}

void sim_check_sealed(struct sim *sim, uint64_t step, uint64_t generation)
{
    struct sim_check *check = sim->check;
    check->sealed[check->sealed_count++ % SIM_SEALED_MAX] =
        (struct sim_sealed){.step = step, .generation = generation, .at_ns = sim->now_ns};
}

void sim_check_cannot(struct sim *sim, uint64_t step, uint64_t generation)
{
    sim->check->cannot = (struct sim_sealed){.step = step,
                                             .generation = generation,
                                             .at_ns = sim->now_ns,
                                             .committed_step = sim->check->committed_step};
}

/* A node's failure report goes with a step: the step in progress or the next step. In a generation
 * that breaks before that step, no worker has received the report. */
static bool is_said(const struct sim *sim, const struct sim_sealed *cannot)
{
    return sim->check->committed_step >= cannot->committed_step + STEPS_TO_SAY &&
           sim->now_ns > cannot->at_ns + HEARD_NS;
}

void sim_check_given_up(struct sim *sim, uint64_t step, uint64_t generation)
{
    struct sim_sealed *cannot = &sim->check->cannot;
    if (cannot->step == step && cannot->generation == generation)
        *cannot = (struct sim_sealed){0};
}

void sim_check_awaited(struct sim *sim, const struct sim_worker *worker, uint64_t step,
                       uint64_t generation)
{
    const struct sim_sealed *cannot = &sim->check->cannot;
    if (cannot->step == step && cannot->generation == generation && is_said(sim, cannot) &&
        worker->held_generation < generation && generation >= sim->check->given_away)
        sim_fail(sim,
                 "the checkpoint of step %llu is still waited for, although a node has said "
                 "long ago that it cannot do its part",
                 (unsigned long long)step);
}

void sim_check_disk_lost(struct sim *sim, unsigned node)
{
    sim->check->lost_ns[node] = sim->now_ns;
    sim_check_copies(sim);
}
