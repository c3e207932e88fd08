#include "protocol/sum_copies.h"

#include <stdlib.h>
#include <string.h>

#define SECONDS_MAX 1e9 /* beyond any job */

/* ---- who keeps copies of whom ---- */

static bool same_node(const struct plan_layout *layout, unsigned stage, unsigned replica,
                      unsigned other)
{
    return strcmp(layout->workers[plan_layout_rank(layout, replica, stage)].node,
                  layout->workers[plan_layout_rank(layout, other, stage)].node) == 0;
}

/* Return how many workers have the one that is @distance replicas further on another node. */
static unsigned count_apart(const struct plan_layout *layout, unsigned distance)
{
    unsigned count = 0;

    for (unsigned replica = 0; replica < layout->replica_count; replica++)
        for (unsigned stage = 0; stage < layout->stage_count; stage++)
            count +=
                !same_node(layout, stage, replica, (replica + distance) % layout->replica_count);
    return count;
}

/* Return the distance from a replica to its keeper; 0: there are no keepers. */
static unsigned ring_distance(const struct plan_layout *layout)
{
    unsigned best = 0, most = 0;

    if (layout->copy_seconds <= 0)
        return 0;
    for (unsigned distance = 1; distance < layout->replica_count; distance++) {
        unsigned count = count_apart(layout, distance);
        if (best && count <= most)
            continue;
        best = distance;
        most = count;
        if (most == layout->worker_count)
            break;
    }
    return best;
}

unsigned sum_copies_keeper(const struct plan_layout *layout, unsigned replica)
{
    return (replica + ring_distance(layout)) % layout->replica_count;
}

unsigned sum_copies_owner(const struct plan_layout *layout, unsigned replica)
{
    return (replica + layout->replica_count - ring_distance(layout)) % layout->replica_count;
}

/* ---- when ---- */

uint64_t sum_copies_due_ns(const struct plan_layout *layout, uint64_t from_ns,
                           const struct sum_copies_cost *last)
{
    uint64_t interval_ns = (uint64_t)(MIN(layout->copy_seconds, SECONDS_MAX) * 1e9);
    uint64_t cost_ns = MIN(last->cost_ns, (uint64_t)(SECONDS_MAX * 1e9) / SUM_COPIES_COST_PARTS);

    return MAX(from_ns ? from_ns + interval_ns : 0,
               last->began_ns + SUM_COPIES_COST_PARTS * cost_ns);
}

/* ---- what ---- */

static int compare_units(const void *a, const void *b)
{
    const struct step_sum *one = a, *other = b;

    return (one->unit > other->unit) - (one->unit < other->unit);
}

/* Return whether @kept has @wanted; *at is where the sums of its unit begin, or those before it. */
static bool has(const struct step_sums *kept, const struct step_sum *wanted, unsigned *at)
{
    while (*at < kept->count && kept->list[*at].unit < wanted->unit)
        ++*at;
    for (unsigned i = *at; i < kept->count && kept->list[i].unit == wanted->unit; i++) {
        const struct step_sum *sum = &kept->list[i];
        if (sum->span.first == wanted->span.first && sum->span.count == wanted->span.count &&
            sum->micro_batches >= wanted->micro_batches)
            return true;
    }
    return false;
}

int sum_copies_missing(const struct step_sums *own, struct step_sums *kept,
                       struct step_sums *missing)
{
    unsigned at = 0;
    int status = 0;

    if (kept->count > 0)
        qsort(kept->list, kept->count, sizeof(*kept->list), compare_units);
    for (unsigned i = 0; !status && i < own->count; i++)
        if (!has(kept, &own->list[i], &at))
            status = step_sums_add(missing, &own->list[i]);
    return status;
}

bool sum_copies_are_of_use(const struct step_division *division, struct lane_tree_span span,
                           unsigned replica)
{
    for (unsigned lane = span.first; lane < span.first + span.count; lane++)
        if (division->owners[lane] == replica || step_division_first(division, lane) == replica)
            return true;
    return false;
}

bool sum_copies_replaces(const struct step_sum *sum, const struct step_sum *older)
{
    const struct lane_tree_span span = sum->span, inner = older->span;

    return sum->unit == older->unit && inner.first >= span.first &&
           inner.first + inner.count <= span.first + span.count;
}
