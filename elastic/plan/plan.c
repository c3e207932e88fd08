/* Plans as heap objects, and the peers of a rank. */
#include "elastic/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "elastic/plan/commit_tree.h"

struct plan *plan_new(void)
{
    return calloc(1, sizeof(struct plan));
}

void plan_free(struct plan *plan)
{
    if (!plan || plan->shares-- > 0)
        return;
    free(plan->layout.workers);
    free(plan->layout.stage_first_unit);
    free(plan->layout.replica_first_lane);
    free(plan->layout.replica_head);
    free(plan->layout.shadows);
    free(plan->start.moves);
    free(plan->start.histories);
    free(plan->start.sums);
    free(plan->checkpoints.copy_nodes);
    free(plan->hosts.list);
    free(plan);
}

bool plan_keeps_copies(const struct plan *plan)
{
    return plan->checkpoints.copies > 0;
}

struct plan *plan_share(const struct plan *plan)
{
    struct plan *shared =
        (struct plan *)(uintptr_t)plan; /* the count of owners is not part of the plan's content */
    shared->shares++;
    return shared;
}

/* Copy @count elements into *ret_copy; a NULL array stays NULL. */
static bool copy_array(const void *array, size_t count, size_t element_size, void *ret_copy)
{
    void *copy = NULL;
    if (array) {
        copy = calloc(count > 0 ? count : 1, element_size);
        if (!copy)
            return false;
        if (count > 0)
            memcpy(copy, array, count * element_size);
    }
    memcpy(ret_copy, &copy, sizeof(copy));
    return true;
}

struct plan *plan_copy(const struct plan *plan)
{
    struct plan *copy = plan_new();
    if (!copy)
        return NULL;
    *copy = *plan;
    copy->shares = 0;
    copy->layout.workers = NULL;
    copy->layout.stage_first_unit = copy->layout.replica_first_lane = NULL;
    copy->layout.replica_head = NULL;
    copy->layout.shadows = NULL;
    copy->start.moves = copy->start.histories = copy->start.sums = NULL;
    copy->checkpoints.copy_nodes = NULL;
    copy->hosts.list = NULL;
    size_t ranks = (size_t)plan->layout.worker_count + plan->layout.donor_count;
    if (copy_array(plan->layout.workers, ranks, sizeof(*plan->layout.workers),
                   &copy->layout.workers) &&
        copy_array(plan->layout.stage_first_unit, (size_t)plan->layout.stage_count + 1,
                   sizeof(unsigned), &copy->layout.stage_first_unit) &&
        copy_array(plan->layout.replica_first_lane, (size_t)plan->layout.replica_count + 1,
                   sizeof(unsigned), &copy->layout.replica_first_lane) &&
        (!plan->layout.replica_head ||
         copy_array(plan->layout.replica_head, (size_t)plan->layout.replica_count + 1,
                    sizeof(unsigned), &copy->layout.replica_head)) &&
        copy_array(plan->layout.shadows, plan->layout.shadow_count, sizeof(*plan->layout.shadows),
                   &copy->layout.shadows) &&
        copy_array(plan->start.moves, plan->start.move_count, sizeof(*plan->start.moves),
                   &copy->start.moves) &&
        copy_array(plan->start.histories, plan->start.history_count, sizeof(*plan->start.histories),
                   &copy->start.histories) &&
        copy_array(plan->start.sums, plan->start.sums_count, sizeof(*plan->start.sums),
                   &copy->start.sums) &&
        copy_array(plan->checkpoints.copy_nodes, plan->checkpoints.copy_node_count,
                   sizeof(*plan->checkpoints.copy_nodes), &copy->checkpoints.copy_nodes) &&
        copy_array(plan->hosts.list, plan->hosts.count, sizeof(*plan->hosts.list),
                   &copy->hosts.list))
        return copy;
    plan_free(copy);
    return NULL;
}

static void mark_pipeline_neighbours(const struct plan_layout *layout, unsigned rank,
                                     unsigned *marks)
{
    unsigned stage = rank % layout->stage_count;
    if (stage > 0)
        marks[rank - 1] = 1;
    if (stage + 1 < layout->stage_count)
        marks[rank + 1] = 1;
    /* The two ends of a replica exchange the gradient of a tied token table. */
    if (stage == 0)
        marks[rank + layout->stage_count - 1] = 1;
    if (stage + 1 == layout->stage_count)
        marks[rank + 1 - layout->stage_count] = 1;
}

static void mark_replicas_of_stage(const struct plan_layout *layout, unsigned rank, unsigned *marks)
{
    unsigned stage = rank % layout->stage_count;
    for (unsigned replica = 0; replica < layout->replica_count; replica++)
        marks[plan_layout_rank(layout, replica, stage)] = 1;
}

static void mark_commit_tree(const struct plan_layout *layout, unsigned rank, unsigned *marks)
{
    unsigned first;
    unsigned children = commit_tree_children(layout, rank, &first);
    for (unsigned i = 0; i < children; i++)
        marks[first + i] = 1;
    if (rank > 0)
        marks[commit_tree_parent(rank)] = 1;
}

static void mark_shadows(const struct plan_layout *layout, unsigned rank, unsigned *marks)
{
    for (unsigned i = 0; i < layout->shadow_count; i++) {
        unsigned owner = plan_layout_rank(layout, 0, layout->shadows[i].stage);
        if (owner == rank)
            marks[layout->shadows[i].rank] = 1;
        if (layout->shadows[i].rank == rank)
            marks[owner] = 1;
    }
}

static void mark_other_ends(const struct plan_move *moves, unsigned count, unsigned rank,
                            unsigned *marks)
{
    for (unsigned i = 0; i < count; i++) {
        if (moves[i].from_rank == rank)
            marks[moves[i].to_rank] = 1;
        if (moves[i].to_rank == rank)
            marks[moves[i].from_rank] = 1;
    }
}

unsigned plan_peers(const struct plan *plan, unsigned rank, bool begins, unsigned *ret_ranks)
{
    /* @ret_ranks first holds one mark per rank. It has room for all ranks, and the result never
     * overtakes the marks that are still to be read. */
    unsigned total = plan->layout.worker_count + plan->layout.donor_count;
    assert(rank < total);
    memset(ret_ranks, 0, total * sizeof(*ret_ranks));
    if (rank < plan->layout.worker_count) {
        mark_pipeline_neighbours(&plan->layout, rank, ret_ranks);
        mark_replicas_of_stage(&plan->layout, rank, ret_ranks);
        mark_commit_tree(&plan->layout, rank, ret_ranks);
        mark_shadows(&plan->layout, rank, ret_ranks);
    }
    if (begins) {
        mark_other_ends(plan->start.moves, plan->start.move_count, rank, ret_ranks);
        mark_other_ends(plan->start.histories, plan->start.history_count, rank, ret_ranks);
        mark_other_ends(plan->start.sums, plan->start.sums_count, rank, ret_ranks);
    }
    ret_ranks[rank] = 0;

    unsigned count = 0;
    for (unsigned other = 0; other < total; other++)
        if (ret_ranks[other] != 0)
            ret_ranks[count++] = other;
    return count;
}
