#include "sim/worker/sim_input.h"

#include <string.h>

#include "base/json.h"
#include "elastic/leader/leader.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/fault/sim_notices.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_bits.h"

#define LACKING_PERCENT    6  /* of all jobs */
#define EVERYWHERE_PERCENT 35 /* of the histories with an unreadable file */
#define LATER_PERCENT      40 /* of the same histories: readable at first */
#define FIRST_NS           (2 * NS_PER_SECOND)
#define SPAN_NS            (8 * NS_PER_SECOND)
#define LEAST_NS           NS_PER_SECOND
#define SPREAD_NS          (25 * NS_PER_SECOND)
#define RESTLESS_NS        (3 * NS_PER_SECOND) /* duration of the planted bug's generations */

struct sim_input {
    bool drawn, lacks, ended;
    uint64_t nodes, refused; /* a bit each */
};

int __wrap_leader_decide(const struct leader_view *view, struct leader_memory *memory,
                         struct leader_decision *ret_decision, struct error *error);
int __real_leader_decide(const struct leader_view *view, struct leader_memory *memory,
                         struct leader_decision *ret_decision, struct error *error);

/* Planted bug: after each commit the leader prefers another number of stages. */
static void prefer_another_layout(struct leader_view *view, const struct leader_memory *memory)
{
    const struct plan *plan = view->next ? view->next : view->plan;
    if (!plan || plan->layout.worker_count < 2 || sim_now->slot_memory > 0)
        return;
    view->wish.stages = plan->layout.stage_count;
    if (!view->next && view->progress.generation == plan->generation &&
        view->now_ns > memory->published.ns + RESTLESS_NS)
        view->wish.stages = plan->layout.stage_count == 1 ? 2 : 1;
}

static int decide(const struct leader_view *view, struct leader_memory *memory,
                  struct leader_decision *ret_decision, struct error *error)
{
    int status = __real_leader_decide(view, memory, ret_decision, error);
    struct plan *plan = status == 0 ? ret_decision->plan : NULL;
    bool is_scene = sim_now->costs.lane_ns > 0; /* it draws nothing */
    double seconds = plan && !is_scene ? sim_scale_copy_seconds(sim_now, plan->generation) : 0;
    if (seconds > 0)
        plan->layout.copy_seconds = seconds;
    return status;
}

/* Planted bug: failed starts are not counted. */
int __wrap_leader_decide(const struct leader_view *view, struct leader_memory *memory,
                         struct leader_decision *ret_decision, struct error *error)
{
    if (sim_now->bug == BUG_HASTY_LEADER)
        memory->retry.attempts = memory->retry.memory_attempts = 0;
    if (sim_now->bug != BUG_RESTLESS_LEADER)
        return decide(view, memory, ret_decision, error);
    struct leader_view restless = *view;
    prefer_another_layout(&restless, memory);
    return decide(&restless, memory, ret_decision, error);
}

/* Return whether the run has a planted bug of another rule, whose histories must not change. */
static bool is_other_bug(const struct sim *sim)
{
    return sim->bug != BUG_NONE && sim->bug != BUG_HASTY_LEADER;
}

void sim_input_draw(struct sim *sim)
{
    sim->input = sim_allocate(1, sizeof(*sim->input));
    sim->input->drawn = !is_other_bug(sim) && !sim->one_fault && !sim_cuts_lone(sim) &&
                        !sim_stragglers_alone(sim) && !sim_notices_alone(sim) &&
                        !sim_bits_alone(sim) && sim_chance(sim, STREAM_INPUT, LACKING_PERCENT);
}

void sim_input_free(struct sim *sim)
{
    free(sim->input);
}

static void lack(void *context)
{
    struct sim *sim = context;
    sim_trace(sim, "INPUT cannot be read on nodes %llx", (unsigned long long)sim->input->nodes);
    sim->input->lacks = true;
    sim->faults->disturbed_ns = sim->now_ns;
}

/* An operator has repaired the file and reports it to the nodes. */
static void mend(void *context)
{
    struct sim *sim = context;
    sim_trace(sim, "INPUT can be read again");
    sim->input->lacks = false;
    sim->faults->disturbed_ns = sim->now_ns;
    for (unsigned i = 0; i < sim->node_count; i++) {
        sim_node_disturb(&sim->nodes[i]);
        sim_faults_excuse(sim, &sim->nodes[i]);
    }
}

void sim_input_begin(struct sim *sim)
{
    struct sim_input *input = sim->input;
    if (!input->drawn)
        return;
    input->nodes = sim_chance(sim, STREAM_INPUT, EVERYWHERE_PERCENT)
                       ? UINT64_MAX
                       : (uint64_t)1 << sim_random(sim, STREAM_INPUT, sim->node_count);
    uint64_t at_ns = sim->now_ns;
    if (sim_chance(sim, STREAM_INPUT, LATER_PERCENT))
        at_ns = FIRST_NS + sim_random(sim, STREAM_INPUT, SPAN_NS);
    uint64_t until_ns = at_ns + LEAST_NS + sim_random(sim, STREAM_INPUT, SPREAD_NS);
    sim->faults->over_ns = MAX(sim->faults->over_ns, until_ns);
    sim_post(sim, at_ns, NULL, lack, sim);
    sim_post(sim, until_ns, NULL, mend, sim);
}

bool sim_input_is_lacking(const struct sim_worker *worker)
{
    const struct sim_input *input = worker->sim->input;
    return input && input->lacks && (input->nodes >> worker->node & 1) != 0 &&
           worker->plan->start.source == PLAN_SOURCE_FRESH;
}

void sim_input_refused(const struct sim_worker *worker)
{
    if (worker->sim->input)
        worker->sim->input->refused |= (uint64_t)1 << worker->node;
}

/* Return whether the leader knows the node, and neither of them knows of a drain. An upgraded firnd
 * that cannot reach etcd has not heard yet that its node drains. */
static bool serves(const struct sim *sim, unsigned node)
{
    char key[KV_KEY_MAX];
    struct node_record record;
    AUTO_JSON json_t *tree = NULL;
    const struct sim_firnd *firnd = sim->nodes[node].firnd;
    const struct sim_store_key *told =
        sim_store_find(sim->store, keys_node(key, SIM_CLUSTER, sim->nodes[node].name));
    return firnd && !firnd->daemon.node.self.draining && told &&
           json_parse(told->value, strlen(told->value), "a node", &tree, NULL) == 0 &&
           node_record_decode(tree, &record, NULL) == 0 && !record.draining;
}

void sim_input_given_up(struct sim *sim, const struct plan *plan)
{
    if (!sim->input || plan->layout.worker_count > 0 || plan->change.reason != PLAN_REASON_REFUSED)
        return;
    sim->input->ended = true;
    for (unsigned i = 0; i < sim->node_count; i++)
        if (serves(sim, i) && (sim->input->refused >> i & 1) == 0 &&
            sim->nodes[i].disturbed_ns + LEAST_NS < sim->now_ns)
            sim_fail(sim, "the job is given up, but node %s has not refused it",
                     sim_node_name(sim, i));
}

bool sim_input_ended(const struct sim *sim)
{
    return sim->input && sim->input->ended;
}
