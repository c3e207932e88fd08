#include "sim/sim_cuts.h"

#include <stdio.h>
#include <string.h>

#include "elastic/plan.h"
#include "sim/sim_faults.h"
#include "sim/sim_node.h"

#define CUT_PERCENT 12 /* of all jobs */
#define TWO_PERCENT 30 /* of those with three nodes or more: two pairs */
#define CUTS_MAX    2
#define FIRST_NS    (2 * NS_PER_SECOND)
#define SPAN_NS     (30 * NS_PER_SECOND)

struct cut {
    struct sim *sim;
    unsigned node, other;
};

struct sim_cuts {
    unsigned count;
    struct cut cuts[CUTS_MAX];
};

static void begin(void *context)
{
    struct cut *cut = context;
    struct sim *sim = cut->sim;
    sim_trace(sim, "CUT   of %s and %s for good", sim_node_name(sim, cut->node),
              sim_node_name(sim, cut->other));
    sim_node_disturb(&sim->nodes[cut->node]);
    sim->faults->disturbed_ns = sim->now_ns;
    sim_network_cut(sim, cut->node, cut->other);
}

static void add_cut(struct sim *sim)
{
    struct cut *cut = &sim->cuts->cuts[sim->cuts->count++];
    cut->sim = sim;
    cut->node = (unsigned)sim_random(sim, STREAM_CUTS, sim->node_count);
    cut->other = (cut->node + 1 + (unsigned)sim_random(sim, STREAM_CUTS, sim->node_count - 1)) %
                 sim->node_count;
    uint64_t at_ns = FIRST_NS + sim_random(sim, STREAM_CUTS, SPAN_NS);
    sim->faults->over_ns = MAX(sim->faults->over_ns, at_ns);
    sim_post(sim, at_ns, NULL, begin, cut);
}

void sim_cuts_begin(struct sim *sim)
{
    sim->cuts = sim_allocate(1, sizeof(*sim->cuts));
    /* Bugs of other rules are looked for in the histories that they have always had. */
    bool other_bug =
        sim->bug != BUG_NONE && sim->bug != BUG_UNTOLD_CUT && sim->bug != BUG_WRONG_CUT;
    if (other_bug || !sim_chance(sim, STREAM_CUTS, CUT_PERCENT))
        return;
    if (sim->stages != 0 || sim->slot_memory != 0) /* it may need both ends, and waits for them */
        return;
    add_cut(sim);
    if (sim->node_count > 2 && sim_chance(sim, STREAM_CUTS, TWO_PERCENT))
        add_cut(sim);
}

void sim_cuts_free(struct sim *sim)
{
    free(sim->cuts);
}

/* ---- what must come of it ---- */

void sim_check_left_out(struct sim *sim, const struct plan *plan)
{
    char first[NAME_SIZE], second[NAME_SIZE];
    if (sscanf(plan->reason_text, "%63s and %63[^ ] do not reach each other", first, second) != 2)
        return;
    unsigned a = sim_node_index(sim, first), b = sim_node_index(sim, second);
    if (!sim->network->ever_cut[a][b])
        sim_fail(sim, "generation %llu takes %s and %s for cut from each other, which never were",
                 (unsigned long long)plan->generation, first, second);
}
