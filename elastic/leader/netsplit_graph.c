#include "elastic/leader/netsplit_graph.h"

#include <assert.h>
#include <stddef.h>

struct cost {
    unsigned node_count, slot_count;
};

/* Return whether every cut has an end in @set. */
static bool covers(const struct cut_node *nodes, unsigned count, uint32_t set)
{
    for (unsigned i = 0; i < count; i++)
        if (!(set >> i & 1) && (nodes[i].cut_from & ~set) != 0)
            return false;
    return true;
}

static struct cost cost_of(const struct cut_node *nodes, unsigned count, uint32_t set)
{
    struct cost cost = {0, 0};
    for (unsigned i = 0; i < count; i++)
        if (set >> i & 1) {
            cost.node_count++;
            cost.slot_count += nodes[i].slot_count;
        }
    return cost;
}

static bool is_cheaper(struct cost a, struct cost b)
{
    return a.node_count != b.node_count ? a.node_count < b.node_count : a.slot_count < b.slot_count;
}

static uint32_t nodes_that_stay(const struct cut_node *nodes, unsigned count)
{
    uint32_t stay = 0;
    for (unsigned i = 0; i < count; i++)
        stay |= (uint32_t)nodes[i].stays << i;
    return stay;
}

/* Sets are tried from the last nodes to the first: of equal sets, the first one tried keeps the
 * first nodes. */
uint32_t netsplit_graph_leave_out(const struct cut_node *nodes, unsigned count,
                                  bool (*may_go)(const void *context, uint32_t set),
                                  const void *context)
{
    assert(count <= NETSPLIT_NODES_MAX);
    uint32_t best = 0, stay = nodes_that_stay(nodes, count);
    struct cost best_cost = {count + 1, 0};
    if (covers(nodes, count, 0))
        return 0;
    for (uint32_t set = ((uint32_t)1 << count) - 1; set > 0; set--) {
        if ((set & stay) != 0)
            continue;
        struct cost cost = cost_of(nodes, count, set);
        if (!is_cheaper(cost, best_cost) || !covers(nodes, count, set) ||
            (may_go && !may_go(context, set)))
            continue;
        best = set;
        best_cost = cost;
    }
    return best;
}
