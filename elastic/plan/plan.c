/* Plans as heap objects, and queries on them: the rank of a slot, and the peers of a rank. */
#include "elastic/plan/plan.h"

#include <stdlib.h>
#include <string.h>

struct plan *plan_new(void)
{
    return calloc(1, sizeof(struct plan));
}

void plan_free(struct plan *plan)
{
    if (!plan || plan->shares-- > 0)
        return;
    free(plan->workers);
    free(plan->stage_first_unit);
    free(plan->replica_first_lane);
    free(plan->shadows);
    free(plan->moves);
    free(plan->histories);
    free(plan->stores);
    free(plan);
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
    copy->workers = NULL;
    copy->stage_first_unit = copy->replica_first_lane = NULL;
    copy->shadows = NULL;
    copy->moves = copy->histories = NULL;
    copy->stores = NULL;
    size_t ranks = (size_t)plan->worker_count + plan->donor_count;
    if (copy_array(plan->workers, ranks, sizeof(*plan->workers), &copy->workers) &&
        copy_array(plan->stage_first_unit, (size_t)plan->stage_count + 1, sizeof(unsigned),
                   &copy->stage_first_unit) &&
        copy_array(plan->replica_first_lane, (size_t)plan->replica_count + 1, sizeof(unsigned),
                   &copy->replica_first_lane) &&
        copy_array(plan->shadows, plan->shadow_count, sizeof(*plan->shadows), &copy->shadows) &&
        copy_array(plan->moves, plan->move_count, sizeof(*plan->moves), &copy->moves) &&
        copy_array(plan->histories, plan->history_count, sizeof(*plan->histories),
                   &copy->histories) &&
        copy_array(plan->stores, plan->store_count, sizeof(*plan->stores), &copy->stores))
        return copy;
    plan_free(copy);
    return NULL;
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool plan_key_bytes(const char *key, uint8_t ret_key[PLAN_KEY_SIZE])
{
    for (unsigned i = 0; i < PLAN_KEY_SIZE; i++) {
        int high = hex_digit(key[2 * i]), low = high < 0 ? -1 : hex_digit(key[2 * i + 1]);
        if (low < 0)
            return false;
        ret_key[i] = (uint8_t)(high << 4 | low);
    }
    return key[2 * PLAN_KEY_SIZE] == '\0';
}

int plan_find(const struct plan *plan, const char *node, unsigned slot)
{
    for (unsigned rank = 0; rank < plan->worker_count + plan->donor_count; rank++)
        if (plan->workers[rank].slot == slot && strcmp(plan->workers[rank].node, node) == 0)
            return (int)rank;
    return -1;
}

int plan_find_node(const struct plan *plan, const char *node)
{
    for (unsigned rank = 0; rank < plan->worker_count + plan->donor_count; rank++)
        if (strcmp(plan->workers[rank].node, node) == 0)
            return (int)rank;
    return -1;
}

const char *plan_lone_node(const struct plan *plan)
{
    for (unsigned rank = 1; rank < plan->worker_count; rank++)
        if (strcmp(plan->workers[rank].node, plan->workers[0].node) != 0)
            return NULL;
    return plan->worker_count > 0 ? plan->workers[0].node : NULL;
}

int plan_shadow_of(const struct plan *plan, unsigned stage)
{
    for (unsigned i = 0; i < plan->shadow_count; i++)
        if (plan->shadows[i].stage == stage)
            return (int)plan->shadows[i].rank;
    return -1;
}

static bool stage_has(const struct plan *plan, unsigned stage, unsigned unit)
{
    return unit >= plan->stage_first_unit[stage] && unit < plan->stage_first_unit[stage + 1];
}

bool plan_keeps(const struct plan *plan, unsigned rank, unsigned unit)
{
    if (rank >= plan->worker_count)
        return false;
    if (stage_has(plan, rank % plan->stage_count, unit))
        return true;
    for (unsigned i = 0; i < plan->shadow_count; i++)
        if (plan->shadows[i].rank == rank && stage_has(plan, plan->shadows[i].stage, unit))
            return true;
    return false;
}

static void mark_pipeline_neighbours(const struct plan *plan, unsigned rank, unsigned *marks)
{
    unsigned stage = rank % plan->stage_count;
    if (stage > 0)
        marks[rank - 1] = 1;
    if (stage + 1 < plan->stage_count)
        marks[rank + 1] = 1;
    /* The two ends of a replica exchange the gradient of a tied token table. */
    if (stage == 0)
        marks[rank + plan->stage_count - 1] = 1;
    if (stage + 1 == plan->stage_count)
        marks[rank + 1 - plan->stage_count] = 1;
}

static void mark_replicas_of_stage(const struct plan *plan, unsigned rank, unsigned *marks)
{
    unsigned stage = rank % plan->stage_count;
    for (unsigned replica = 0; replica < plan->replica_count; replica++)
        marks[plan_rank(plan, replica, stage)] = 1;
}

static void mark_commit_tree(const struct plan *plan, unsigned rank, unsigned *marks)
{
    unsigned first;
    unsigned children = plan_tree_children(plan, rank, &first);
    for (unsigned i = 0; i < children; i++)
        marks[first + i] = 1;
    if (rank > 0)
        marks[plan_tree_parent(rank)] = 1;
}

static void mark_shadows(const struct plan *plan, unsigned rank, unsigned *marks)
{
    for (unsigned i = 0; i < plan->shadow_count; i++) {
        unsigned owner = plan_rank(plan, 0, plan->shadows[i].stage);
        if (owner == rank)
            marks[plan->shadows[i].rank] = 1;
        if (plan->shadows[i].rank == rank)
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

unsigned plan_peers(const struct plan *plan, unsigned rank, unsigned *ret_ranks)
{
    /* @ret_ranks first holds one mark per rank. It has room for all ranks, and the result never
     * overtakes the marks that are still to be read. */
    unsigned total = plan->worker_count + plan->donor_count;
    assert(rank < total);
    memset(ret_ranks, 0, total * sizeof(*ret_ranks));
    if (rank < plan->worker_count) {
        mark_pipeline_neighbours(plan, rank, ret_ranks);
        mark_replicas_of_stage(plan, rank, ret_ranks);
        mark_commit_tree(plan, rank, ret_ranks);
        mark_shadows(plan, rank, ret_ranks);
    }
    mark_other_ends(plan->moves, plan->move_count, rank, ret_ranks);
    mark_other_ends(plan->histories, plan->history_count, rank, ret_ranks);
    ret_ranks[rank] = 0;

    unsigned count = 0;
    for (unsigned other = 0; other < total; other++)
        if (ret_ranks[other] != 0)
            ret_ranks[count++] = other;
    return count;
}
