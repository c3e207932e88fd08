/*
 * Problem: every step is slower when a replica spans nodes without need, and a switch is slower for
 * every byte of state that has to move.
 *
 * Design: topology first, state second. A group of slots (one node's whole replicas, or the slots
 * left over from all nodes) has the same number of seats for each stage. Pairs of slot and stage
 * are taken in order of the bytes that the slot already holds of the stage; seats that remain go to
 * the remaining slots in turn. Then the seats are joined into replicas, preferring the node of the
 * previous stage.
 *
 * Replicas are interchangeable (lanes carry no state), so only the stage of a slot matters here.
 */
#include "elastic/planner/placement.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "elastic/planner/planner_time.h"
#include "elastic/planner/process_memory.h"

#define NO_STAGE UINT_MAX

struct placement {
    const struct planner_input *input;
    const struct placement_request *request;
    size_t *bytes_before; /* unit_count + 1: held bytes are differences of these */
    unsigned *node_of;    /* per slot: index of the first slot on the same node */
    unsigned *stage_of;   /* per slot: NO_STAGE while it has no seat */
    unsigned *group;      /* slots that compete for the seats of one group, in order */
    unsigned *quota;      /* per stage */
    struct pair *pairs;
    unsigned *ret_slots;
    unsigned replicas_done;
};

struct pair {
    size_t bytes;
    unsigned order, slot, stage; /* order: place in the group */
};

static bool usable(const struct placement *placement, unsigned slot)
{
    const struct planner_slot *offered = &placement->input->slots[slot];
    return slot_speed(offered) >= placement->request->speed_min &&
           (offered->memory_bytes == 0 ||
            process_room(offered->memory_bytes, placement->input->process_bytes) >=
                placement->request->memory_bytes_min);
}

static size_t held_bytes(const struct placement *placement, unsigned slot, unsigned first,
                         unsigned end)
{
    const struct planner_slot *offered = &placement->input->slots[slot];
    unsigned held_end = offered->held_first_unit + offered->held_unit_count;
    unsigned from = MAX(first, offered->held_first_unit);
    unsigned to = MIN(MIN(end, held_end), placement->input->unit_count);
    return from < to ? placement->bytes_before[to] - placement->bytes_before[from] : 0;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    return (left->stage > right->stage) - (left->stage < right->stage);
}

/* Sort the pairs of a slot in the group and a stage that it holds bytes of, the most bytes
 * first. */
static int rank_pairs(struct placement *placement, unsigned count, unsigned *ret_pair_count)
{
    unsigned pairs = 0, room = 0;
    const unsigned *cuts = placement->request->stage_first_unit;
    for (unsigned i = 0; i < count; i++)
        for (unsigned stage = 0; stage < placement->request->stage_count; stage++) {
            unsigned slot = placement->group[i];
            size_t bytes = held_bytes(placement, slot, cuts[stage], cuts[stage + 1]);
            if (bytes == 0)
                continue;
            if (pairs == room) {
                room = room == 0 ? 64 : room * 2;
                struct pair *grown = realloc(placement->pairs, room * sizeof(*grown));
                if (!grown)
                    return -ENOMEM;
                placement->pairs = grown;
            }
            placement->pairs[pairs++] = (struct pair){bytes, i, slot, stage};
        }
    if (pairs > 0)
        qsort(placement->pairs, pairs, sizeof(*placement->pairs), compare_pairs);
    *ret_pair_count = pairs;
    return 0;
}

/* Give @replicas seats of every stage to the first @count slots of the group. */
static int seat_group(struct placement *placement, unsigned count, unsigned replicas)
{
    unsigned stages = placement->request->stage_count, pair_count;
    int status = rank_pairs(placement, count, &pair_count);
    if (status < 0)
        return status;
    for (unsigned stage = 0; stage < stages; stage++)
        placement->quota[stage] = replicas;
    for (unsigned i = 0; i < pair_count; i++) {
        const struct pair *pair = &placement->pairs[i];
        if (placement->stage_of[pair->slot] != NO_STAGE || placement->quota[pair->stage] == 0)
            continue;
        placement->stage_of[pair->slot] = pair->stage;
        placement->quota[pair->stage]--;
    }
    unsigned open = 0;
    for (unsigned stage = 0; stage < stages; stage++)
        open += placement->quota[stage];
    unsigned stage = 0;
    for (unsigned i = 0; i < count && open > 0; i++) {
        unsigned slot = placement->group[i];
        if (placement->stage_of[slot] != NO_STAGE)
            continue;
        while (placement->quota[stage] == 0)
            stage = (stage + 1) % stages;
        placement->stage_of[slot] = stage;
        placement->quota[stage]--;
        open--;
        stage = (stage + 1) % stages;
    }
    assert(open == 0);
    return 0;
}

/* Turn the seats of the group into ranks of the next @replicas replicas. */
static void string_replicas(struct placement *placement, unsigned count, unsigned replicas)
{
    unsigned stages = placement->request->stage_count;
    for (unsigned i = 0; i < replicas; i++) {
        unsigned rank = placement->replicas_done++ * stages, before = NO_STAGE;
        for (unsigned stage = 0; stage < stages; stage++) {
            unsigned chosen = NO_STAGE;
            for (unsigned j = 0; j < count; j++) {
                unsigned slot = placement->group[j];
                if (slot == NO_STAGE || placement->stage_of[slot] != stage)
                    continue;
                if (chosen == NO_STAGE)
                    chosen = j;
                if (before == NO_STAGE || placement->node_of[slot] == before) {
                    chosen = j;
                    break;
                }
            }
            assert(chosen != NO_STAGE);
            unsigned slot = placement->group[chosen];
            placement->group[chosen] = NO_STAGE; /* has its rank; its stage stays with it */
            placement->ret_slots[rank + stage] = slot;
            before = placement->node_of[slot];
        }
    }
}

/* Collect the usable slots without a seat, of the given nodes, into the group. */
static unsigned gather_group(struct placement *placement, const unsigned *nodes,
                             unsigned node_count)
{
    unsigned count = 0;
    for (unsigned n = 0; n < node_count; n++)
        for (unsigned slot = nodes[n]; slot < placement->input->slot_count; slot++)
            if (placement->node_of[slot] == nodes[n] && usable(placement, slot) &&
                placement->stage_of[slot] == NO_STAGE)
                placement->group[count++] = slot;
    return count;
}

static int place_group(struct placement *placement, unsigned count, unsigned replicas)
{
    int status = seat_group(placement, count, replicas);
    if (status == 0)
        string_replicas(placement, count, replicas);
    return status;
}

static int place_all(struct placement *placement, const unsigned *nodes, unsigned node_count)
{
    const struct placement_request *request = placement->request;
    for (unsigned n = 0; n < node_count; n++) {
        unsigned count = gather_group(placement, &nodes[n], 1);
        unsigned whole =
            MIN(count / request->stage_count, request->replica_count - placement->replicas_done);
        if (whole == 0)
            continue;
        int status = place_group(placement, count, whole);
        if (status < 0)
            return status;
    }
    unsigned left = request->replica_count - placement->replicas_done;
    return left == 0 ? 0 : place_group(placement, gather_group(placement, nodes, node_count), left);
}

struct node_rank {
    size_t held;
    unsigned first_slot;
};

static int compare_nodes(const void *a, const void *b)
{
    const struct node_rank *left = a, *right = b;
    if (left->held != right->held)
        return left->held > right->held ? -1 : 1;
    return (left->first_slot > right->first_slot) - (left->first_slot < right->first_slot);
}

/* Sort the nodes by the bytes that their slots hold, most first; a node is identified by its first
 * slot. */
static unsigned order_nodes(struct placement *placement, struct node_rank *ranks, unsigned *nodes)
{
    const struct planner_input *input = placement->input;
    unsigned count = 0;
    for (unsigned slot = 0; slot < input->slot_count; slot++) {
        size_t held =
            usable(placement, slot) ? held_bytes(placement, slot, 0, input->unit_count) : 0;
        unsigned n = count;
        while (n > 0 &&
               strcmp(input->slots[ranks[n - 1].first_slot].node, input->slots[slot].node) != 0)
            n--;
        if (n == 0) {
            ranks[count++] = (struct node_rank){held, slot};
            placement->node_of[slot] = slot;
        } else {
            ranks[n - 1].held += held;
            placement->node_of[slot] = ranks[n - 1].first_slot;
        }
    }
    qsort(ranks, count, sizeof(*ranks), compare_nodes);
    for (unsigned n = 0; n < count; n++)
        nodes[n] = ranks[n].first_slot;
    return count;
}

static void sum_bytes(struct placement *placement)
{
    const struct planner_input *input = placement->input;
    placement->bytes_before[0] = 0;
    for (unsigned unit = 0; unit < input->unit_count; unit++)
        placement->bytes_before[unit + 1] =
            placement->bytes_before[unit] + 1 +
            input->units[unit].parameter_bytes * (planner_unit_takes(&input->units[unit]) ? 3 : 1);
}

int placement_assign(const struct planner_input *input, const struct placement_request *request,
                     unsigned *ret_slots)
{
    size_t slots = input->slot_count;
    AUTO_FREE size_t *bytes_before = calloc((size_t)input->unit_count + 1, sizeof(size_t));
    AUTO_FREE unsigned *numbers = calloc(4 * slots + request->stage_count, sizeof(unsigned));
    AUTO_FREE struct node_rank *ranks = calloc(slots, sizeof(*ranks));
    if (!bytes_before || !numbers || !ranks)
        return -ENOMEM;
    struct placement placement = {.input = input,
                                  .request = request,
                                  .bytes_before = bytes_before,
                                  .node_of = numbers,
                                  .stage_of = numbers + slots,
                                  .group = numbers + 2 * slots,
                                  .quota = numbers + 4 * slots,
                                  .ret_slots = ret_slots};
    for (unsigned slot = 0; slot < slots; slot++)
        placement.stage_of[slot] = NO_STAGE;
    sum_bytes(&placement);
    unsigned *nodes = numbers + 3 * slots;
    unsigned node_count = order_nodes(&placement, ranks, nodes);
    int status = place_all(&placement, nodes, node_count);
    free(placement.pairs);
    return status;
}
