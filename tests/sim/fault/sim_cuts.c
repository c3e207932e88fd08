#include "sim/fault/sim_cuts.h"

#include <stdio.h>
#include <string.h>

#include "elastic/plan/plan.h"
#include "sim/fault/sim_faults.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_bits.h"

#define CUT_PERCENT 12 /* of all jobs */
#define TWO_PERCENT 30 /* of the jobs with three nodes or more: two pairs */
#define CUTS_MAX    2
#define FIRST_NS    (2 * NS_PER_SECOND)
#define SPAN_NS     (30 * NS_PER_SECOND)
/* Cuts of jobs that may need both ends. */
#define LEAST_NS  (8 * NS_PER_SECOND)
#define SPREAD_NS (120 * NS_PER_SECOND)
#define WAITED_NS (40 * SIM_FAILURE_TIMEOUT) /* before a job goes back without the pair */
#define NEWS_NS   (10 * NS_PER_SECOND)

#define LONE_PERCENT   10
#define LONE_FIRST_NS  (3 * NS_PER_SECOND)
#define LONE_SPAN_NS   (10 * NS_PER_SECOND)
#define LONE_LEAST_NS  (5 * NS_PER_SECOND)
#define LONE_SPREAD_NS (40 * NS_PER_SECOND)

struct cut {
    struct sim *sim;
    unsigned node, other;
    uint64_t began_ns, until_ns; /* 0: not yet, for good */
};

struct sim_cuts {
    bool lone; /* the job fits one slot and gets no more */
    bool from_all;
    uint64_t until_ns;
    unsigned place; /* of the node that will be cut off */
    bool off;       /* the node is cut off now */
    unsigned count;
    struct cut cuts[CUTS_MAX];
};

bool sim_cuts_any(const struct sim *sim)
{
    return sim->cuts && (sim->cuts->lone || sim->cuts->count > 0); /* a scene has none */
}

static void mend(void *context)
{
    struct cut *cut = context;
    struct sim *sim = cut->sim;
    sim_trace(sim, "OVER  %s and %s find each other", sim_node_name(sim, cut->node),
              sim_node_name(sim, cut->other));
    sim->faults->disturbed_ns = sim->now_ns;
    sim_network_mend(sim, cut->node, cut->other);
}

static void begin(void *context)
{
    struct cut *cut = context;
    struct sim *sim = cut->sim;
    cut->began_ns = sim->now_ns;
    sim_trace(sim, "CUT   of %s and %s for %s", sim_node_name(sim, cut->node),
              sim_node_name(sim, cut->other), cut->until_ns != 0 ? "long" : "good");
    if (cut->until_ns != 0)
        sim_post(sim, cut->until_ns, NULL, mend, cut);
    sim_node_disturb(&sim->nodes[cut->node]);
    sim->faults->disturbed_ns = sim->now_ns;
    sim_network_cut(sim, cut->node, cut->other);
}

static void add_cut(struct sim *sim, bool for_good)
{
    struct cut *cut = &sim->cuts->cuts[sim->cuts->count++];
    cut->sim = sim;
    cut->node = (unsigned)sim_random(sim, STREAM_CUTS, sim->node_count);
    cut->other = (cut->node + 1 + (unsigned)sim_random(sim, STREAM_CUTS, sim->node_count - 1)) %
                 sim->node_count;
    uint64_t at_ns = FIRST_NS + sim_random(sim, STREAM_CUTS, SPAN_NS);
    if (!for_good)
        cut->until_ns = at_ns + LEAST_NS + sim_random(sim, STREAM_CUTS, SPREAD_NS);
    sim->faults->over_ns = MAX(sim->faults->over_ns, MAX(at_ns, cut->until_ns));
    sim_post(sim, at_ns, NULL, begin, cut);
}

/* ---- one node and all others ---- */

static void cut_off(struct sim *sim, bool cuts)
{
    struct sim_cuts *cuts_of = sim->cuts;
    cuts_of->off = cuts;
    sim_node_disturb(&sim->nodes[cuts_of->place]);
    sim->faults->disturbed_ns = sim->now_ns;
    for (unsigned place = cuts_of->from_all ? 0 : SIM_STORE_PLACE; place < SIM_PLACES; place++) {
        if (place == cuts_of->place)
            continue;
        if (cuts)
            sim_network_cut(sim, cuts_of->place, place);
        else
            sim_network_mend(sim, cuts_of->place, place);
    }
}

static void reach_lone(void *context)
{
    struct sim *sim = context;
    sim_trace(sim, "OVER  node %s is reached again", sim_node_name(sim, sim->cuts->place));
    cut_off(sim, false);
}

static void cut_off_lone(void *context)
{
    struct sim *sim = context;
    const struct sim_worker *root = NULL;
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->alive && sim->workers[i]->engine)
            root = sim->workers[i];
    if (!root)
        return;
    sim->cuts->place = root->node;
    sim_trace(sim, "CUT   of node %s from %s", sim_node_name(sim, root->node),
              sim->cuts->from_all ? "all" : "etcd");
    cut_off(sim, true);
    sim_post(sim, sim->cuts->until_ns, NULL, reach_lone, sim);
}

static void post_lone(struct sim *sim)
{
    uint64_t at_ns = LONE_FIRST_NS + sim_random(sim, STREAM_CUTS, LONE_SPAN_NS);
    sim->cuts->from_all = sim_chance(sim, STREAM_CUTS, 50);
    sim->cuts->until_ns = at_ns + LONE_LEAST_NS + sim_random(sim, STREAM_CUTS, LONE_SPREAD_NS);
    sim->faults->over_ns = MAX(sim->faults->over_ns, sim->cuts->until_ns);
    sim_post(sim, at_ns, NULL, cut_off_lone, sim);
}

/* ---- draws ---- */

/* Return whether the run has a planted bug of another rule, whose histories must not change. */
static bool is_other_bug(const struct sim *sim)
{
    return sim->bug != BUG_NONE && sim->bug != BUG_UNTOLD_CUT && sim->bug != BUG_WRONG_CUT &&
           sim->bug != BUG_GOES_ON_ALONE && sim->bug != BUG_AWAY_AS_LOST;
}

void sim_cuts_draw(struct sim *sim)
{
    sim->cuts = sim_allocate(1, sizeof(*sim->cuts));
    if (is_other_bug(sim) || sim->one_fault || sim->spec.elastic.shadow ||
        !sim_chance(sim, STREAM_CUTS, LONE_PERCENT))
        return;
    sim->cuts->lone = true;
    sim->spec.elastic.devices_max = 1;
}

bool sim_cuts_lone(const struct sim *sim)
{
    return sim->cuts->lone;
}

static bool is_apart(const struct sim *sim, const struct cut *cut)
{
    return cut->began_ns != 0 && (cut->until_ns == 0 || sim->now_ns < cut->until_ns + NEWS_NS);
}

void sim_cuts_begin(struct sim *sim)
{
    if (sim->cuts->lone)
        post_lone(sim);
    if (sim->cuts->lone || sim_bits_alone(sim) || is_other_bug(sim) ||
        !sim_chance(sim, STREAM_CUTS, CUT_PERCENT))
        return;
    bool for_good = sim->stages == 0 && sim->slot_memory == 0; /* else it may need both ends */
    add_cut(sim, for_good);
    if (sim->node_count > 2 && sim_chance(sim, STREAM_CUTS, TWO_PERCENT))
        add_cut(sim, for_good);
}

bool sim_cuts_pairs_apart(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->cuts->count; i++)
        if (is_apart(sim, &sim->cuts->cuts[i]))
            return true;
    return false;
}

bool sim_cuts_off(const struct sim *sim)
{
    return sim->cuts->off;
}

void sim_cuts_free(struct sim *sim)
{
    free(sim->cuts);
}

/* ---- check the reaction ---- */

static bool is_of(const struct cut *cut, unsigned node)
{
    return cut->began_ns > 0 && (cut->node == node || cut->other == node);
}

/* Return since when @node has been apart from one node after another, by cuts that overlap; now, if
 * it is not. */
static uint64_t apart_since_ns(const struct sim *sim, unsigned node)
{
    const struct sim_cuts *cuts = sim->cuts;
    uint64_t since_ns = sim->now_ns, before_ns;
    do {
        before_ns = since_ns;
        for (unsigned i = 0; i < cuts->count; i++)
            if (is_of(&cuts->cuts[i], node) &&
                (cuts->cuts[i].until_ns == 0 || cuts->cuts[i].until_ns + NEWS_NS >= since_ns))
                since_ns = MIN(since_ns, cuts->cuts[i].began_ns);
    } while (since_ns < before_ns);
    return since_ns;
}

/* Return whether @node has been apart for the whole wait, or is due to leave. The leader remembers
 * since when it waits for a pair: one node of it may be cut from a third one meanwhile. */
static bool was_waited_for(const struct sim *sim, unsigned node)
{
    const struct sim_firnd *firnd = sim->nodes[node].firnd;
    return apart_since_ns(sim, node) + WAITED_NS <= sim->now_ns || !firnd ||
           firnd->daemon.node.self.draining;
}

bool sim_cuts_excuse(const struct sim *sim, const struct plan *plan)
{
    char first[NAME_SIZE], second[NAME_SIZE];
    return sscanf(plan->change.text, "%63s and %63[^ ] do not reach each other", first, second) ==
               2 &&
           strstr(plan->change.text, ": without") &&
           (was_waited_for(sim, sim_node_index(sim, first)) ||
            was_waited_for(sim, sim_node_index(sim, second)));
}

void sim_check_left_out(struct sim *sim, const struct plan *plan)
{
    char first[NAME_SIZE], second[NAME_SIZE];
    if (sscanf(plan->change.text, "%63s and %63[^ ] do not reach each other", first, second) != 2)
        return;
    unsigned a = sim_node_index(sim, first), b = sim_node_index(sim, second);
    if (!sim->network->ever_cut[a][b])
        sim_fail(sim, "generation %llu takes %s and %s for cut from each other, which never were",
                 (unsigned long long)plan->generation, first, second);
}
