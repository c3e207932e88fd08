#include "sim/fault/sim_notices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "membership/kv/keys.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_bits.h"

#define NOTICE_PERCENT  7  /* of all jobs */
#define ALONE_PERCENT   50 /* of the histories with notices: no other fault */
#define EXPOSED_PERCENT 70 /* of the histories without other faults */
#define FIRST_NS        (3 * NS_PER_SECOND)
#define SPAN_NS         (12 * NS_PER_SECOND)
#define LEAST_NS        NS_PER_SECOND /* from the notice until the node is gone */
#define SPREAD_NS       (25 * NS_PER_SECOND)
#define AWAY_NS         (20 * NS_PER_SECOND) /* at most */
#define ENOUGH_NS       (8 * NS_PER_SECOND)  /* to hand over all state, or write a checkpoint */
#define SETTLED_NS      (10 * NS_PER_SECOND)
#define EVALUATED_US    5000000 /* compute time before the last evaluation */
#define LONG_STEPS      3 /* with long steps, the notice comes within so many steps of one stage */

struct sim_notices {
    bool drawn, alone;
    bool settled; /* the job trained undisturbed when the notice came */
    unsigned node;
    uint64_t said_ns, deadline_ns, back_ns;
};

/* Return whether the run has a planted bug of another rule, whose histories must not change. */
static bool is_other_bug(const struct sim *sim)
{
    return sim->bug != BUG_NONE && sim->bug != BUG_UNHEARD_NOTICE &&
           sim->bug != BUG_PATIENT_SWITCH && sim->bug != BUG_DEAF_EVALUATION;
}

/* Make the job long, or let the notice meet its last evaluation; most often with each half of the
 * model on only one slot. */
static void make_exposed(struct sim *sim)
{
    sim->spec.train.steps =
        sim->spec.evaluate.every > 0 ? 1 + EVALUATED_US / sim->compute_us : SIM_STEPS_LONG;
    sim->spec.elastic.shadow = false;
    if (!sim_chance(sim, STREAM_NOTICES, EXPOSED_PERCENT))
        return;
    sim->stages = 2;
    sim->spec.elastic.devices_max = 2;
}

void sim_notices_draw(struct sim *sim)
{
    sim->notices = sim_allocate(1, sizeof(*sim->notices));
    if (is_other_bug(sim) || sim->one_fault || sim_cuts_lone(sim) || sim_stragglers_alone(sim) ||
        !sim_chance(sim, STREAM_NOTICES, NOTICE_PERCENT))
        return;
    sim->notices->drawn = true;
    sim->notices->alone = sim_chance(sim, STREAM_NOTICES, ALONE_PERCENT);
    if (sim->notices->alone)
        make_exposed(sim);
}

bool sim_notices_alone(const struct sim *sim)
{
    return sim->notices->alone;
}

void sim_notices_free(struct sim *sim)
{
    free(sim->notices);
}

static const char *key_of(const struct sim *sim, char ret_key[KV_KEY_MAX])
{
    size_t length = strlen(keys_cluster(ret_key, SIM_CLUSTER));
    snprintf(ret_key + length, KV_KEY_MAX - length, "drains/%s",
             sim_node_name(sim, sim->notices->node));
    return ret_key;
}

/* ---- check the reaction ---- */

/* Return whether only the notice has happened since @since_ns. */
static bool is_undisturbed(const struct sim *sim, uint64_t since_ns)
{
    const struct sim_faults *faults = sim->faults;
    return faults->disturbing == 0 && faults->disturbed_ns <= since_ns &&
           faults->store_disturbed_ns <= since_ns && !sim->store->down &&
           sim->store->lost_answers_percent == 0 && !sim_cuts_pairs_apart(sim);
}

static bool is_elsewhere(const struct sim *sim, unsigned unit)
{
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        const struct sim_unit *held = &worker->state.units[unit];
        if (worker->alive && worker->node != sim->notices->node && held->held &&
            held->step + 1 >= sim->check->committed_step)
            return true;
    }
    return false;
}

/* Return whether the last step is on disk, and the node computes no part of the next one. */
static bool has_left(const struct sim *sim)
{
    if (sim_check_newest_record(sim) < sim->check->committed_step)
        return false;
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        if (worker->alive && worker->engine && worker->node == sim->notices->node &&
            worker->generation == sim->check->committing_generation)
            return false;
    }
    return true;
}

/* Check that the last step is on other nodes, except a step that is about to be applied, or on
 * disk. A change begins between two micro-batches of rank 0, once all ranks are between two. */
static void check_handed_over(struct sim *sim)
{
    const struct sim_notices *notices = sim->notices;
    uint64_t enough_ns = ENOUGH_NS + 2 * sim_division_longest_ns(sim);
    if (!notices->settled || notices->deadline_ns < notices->said_ns + enough_ns ||
        !is_undisturbed(sim, notices->said_ns) || has_left(sim))
        return;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (!is_elsewhere(sim, unit))
            sim_fail(sim,
                     "node %s goes %.0f s after it was said, and unit %u of step %" PRIu64
                     " goes with it",
                     sim_node_name(sim, notices->node),
                     (double)(notices->deadline_ns - notices->said_ns) / 1e9, unit,
                     sim->check->committed_step);
}

/* ---- events ---- */

static bool commits(const struct sim *sim)
{
    return sim->check->committed_ns + 2 * NS_PER_SECOND + sim_scale_beyond_ns(sim) > sim->now_ns;
}

static bool evaluates(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->alive && session_is_evaluating(sim->workers[i]))
            return true;
    return false;
}

static void come_back(void *context)
{
    struct sim *sim = context;
    struct sim_node *node = &sim->nodes[sim->notices->node];
    char key[KV_KEY_MAX];
    sim_store_delete(sim->store, key_of(sim, key));
    sim_node_disturb(node);
    sim->faults->disturbed_ns = sim->now_ns;
    if (!node->up)
        sim_node_return(node);
}

static void take(void *context)
{
    struct sim *sim = context;
    struct sim_node *node = &sim->nodes[sim->notices->node];
    check_handed_over(sim);
    sim_node_disturb(node);
    sim->faults->disturbed_ns = sim->now_ns;
    if (node->up)
        sim_node_lose(node);
    sim_check_node_died(sim);
}

static void say(void *context)
{
    struct sim *sim = context;
    struct sim_notices *notices = sim->notices;
    char key[KV_KEY_MAX], value[64];
    sim_trace(sim, "NOTICE to node %s, which goes at %.3f", sim_node_name(sim, notices->node),
              (double)notices->deadline_ns / 1e9);
    notices->settled =
        is_undisturbed(sim, sim->now_ns > SETTLED_NS ? sim->now_ns - SETTLED_NS : 0) &&
        (commits(sim) || evaluates(sim)) && sim_scale_start_max_ns(sim) == 0;
    sim_node_disturb(&sim->nodes[notices->node]);
    snprintf(value, sizeof(value), "{\"deadline_unix_ns\":%" PRIu64 "}", notices->deadline_ns);
    if (sim->bug != BUG_UNHEARD_NOTICE)
        sim_store_put(sim->store, key_of(sim, key), value);
}

void sim_notices_begin(struct sim *sim)
{
    struct sim_notices *notices = sim->notices;
    if (!notices->drawn || sim_bits_alone(sim))
        return;
    notices->node = (unsigned)sim_random(sim, STREAM_NOTICES, sim->node_count);
    notices->said_ns = FIRST_NS + sim_random(sim, STREAM_NOTICES, SPAN_NS);
    if (sim_scale_beyond_ns(sim) > 0) /* so that some steps are committed before the notice */
        notices->said_ns +=
            sim_random(sim, STREAM_NOTICES, LONG_STEPS * NS_PER_US * sim->compute_us);
    notices->deadline_ns = notices->said_ns + LEAST_NS + sim_random(sim, STREAM_NOTICES, SPREAD_NS);
    notices->back_ns = notices->deadline_ns + 1 + sim_random(sim, STREAM_NOTICES, AWAY_NS);
    sim->faults->over_ns = MAX(sim->faults->over_ns, notices->back_ns);
    sim_post(sim, notices->said_ns, NULL, say, sim);
    sim_post(sim, notices->deadline_ns, NULL, take, sim);
    sim_post(sim, notices->back_ns, NULL, come_back, sim);
}
