/*
 * Problem: after a change of layout each worker needs state of others, and the pause of a switch is
 * the time that the busiest source takes to push.
 *
 * Design: greedy over (worker, unit) in order: near before far, then the source with the least to
 * push. Ranks are found once for every holder; a source without a rank becomes a donor when it is
 * first chosen.
 *
 * Invariants: one move for each (unit, worker) that lacks the unit; none for a unit that is
 * present; a source holds every unit that it pushes; donors have moves.
 */
#include "elastic/recovery/state_moves.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define NO_RANK UINT_MAX

struct transfer {
    const struct plan *plan;
    const struct state_moves_holder *holders;
    unsigned holder_count;
    const size_t *unit_bytes;
    unsigned *rank_of; /* per holder: in the plan, or NO_RANK */
    bool *replaced;    /* per holder: another process of the plan has its slot */
    unsigned donor_count;
    size_t *load_bytes; /* per holder: to push */
    unsigned *node_of;  /* per holder: the first holder on the same node */
    struct plan_move *moves;
    unsigned move_count, move_room;
};

static bool has_unit(const struct state_moves_holder *holder, unsigned unit)
{
    for (unsigned i = 0; i < STATE_MOVES_RANGES_MAX; i++)
        if (unit - holder->held[i].first < holder->held[i].count)
            return true;
    return false;
}

static bool worker_is(const struct plan_worker *worker, const struct state_moves_holder *holder)
{
    return worker->slot == holder->slot && worker->instance == holder->instance &&
           strcmp(worker->node, holder->node) == 0;
}

static unsigned holder_of(const struct transfer *transfer, unsigned rank)
{
    for (unsigned i = 0; i < transfer->holder_count; i++)
        if (transfer->rank_of[i] == rank)
            return i;
    return NO_RANK;
}

/* Return the first holder on the node of @worker; NO_RANK: none. */
static unsigned node_of_worker(const struct transfer *transfer, const struct plan_worker *worker)
{
    for (unsigned i = 0; i < transfer->holder_count; i++)
        if (strcmp(transfer->holders[i].node, worker->node) == 0)
            return i;
    return NO_RANK;
}

/* Return whether another process of the plan has the holder's slot. There is one worker on a slot,
 * so such a holder cannot push. */
static bool slot_is_taken(const struct plan_layout *layout, const struct state_moves_holder *holder)
{
    int rank = plan_layout_find(layout, holder->node, holder->slot);
    return rank >= 0 && !worker_is(&layout->workers[rank], holder);
}

static bool better_source(const struct transfer *transfer, unsigned node, unsigned a, unsigned b)
{
    if (transfer->holders[a].avoid != transfer->holders[b].avoid)
        return !transfer->holders[a].avoid;
    bool near_a = transfer->node_of[a] == node, near_b = transfer->node_of[b] == node;
    if (near_a != near_b)
        return near_a;
    return transfer->load_bytes[a] < transfer->load_bytes[b];
}

static unsigned choose_source(const struct transfer *transfer, unsigned node, unsigned unit)
{
    unsigned chosen = NO_RANK;
    for (unsigned i = 0; i < transfer->holder_count; i++) {
        if (transfer->replaced[i] || !has_unit(&transfer->holders[i], unit))
            continue;
        if (chosen == NO_RANK || better_source(transfer, node, i, chosen))
            chosen = i;
    }
    return chosen;
}

static int add_move(struct transfer *transfer, unsigned unit, unsigned holder, unsigned rank)
{
    if (transfer->move_count == transfer->move_room) {
        unsigned room = transfer->move_room == 0 ? 64 : 2 * transfer->move_room;
        struct plan_move *grown = realloc(transfer->moves, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        transfer->moves = grown;
        transfer->move_room = room;
    }
    if (transfer->rank_of[holder] == NO_RANK)
        transfer->rank_of[holder] = transfer->plan->layout.worker_count + transfer->donor_count++;
    transfer->load_bytes[holder] += transfer->unit_bytes ? transfer->unit_bytes[unit] : 1;
    transfer->moves[transfer->move_count++] =
        (struct plan_move){unit, transfer->rank_of[holder], rank};
    return 0;
}

/* Add moves for the units of @stage to @rank, which computes or shadows it. */
static int serve_rank(struct transfer *transfer, unsigned rank, unsigned stage, struct error *error)
{
    const struct plan *plan = transfer->plan;
    unsigned own = holder_of(transfer, rank);
    unsigned node = node_of_worker(transfer, &plan->layout.workers[rank]);
    for (unsigned unit = plan->layout.stage_first_unit[stage];
         unit < plan->layout.stage_first_unit[stage + 1]; unit++) {
        if (own != NO_RANK && has_unit(&transfer->holders[own], unit))
            continue;
        unsigned source = choose_source(transfer, node, unit);
        if (source == NO_RANK)
            return error_set(error, -ENODATA, "nobody holds unit %u", unit);
        int status = add_move(transfer, unit, source, rank);
        if (status < 0)
            return error_set(error, status, "no memory for %u moves", transfer->move_count);
    }
    return 0;
}

int state_moves_add_donors(struct plan_layout *layout, const struct state_moves_holder *holders,
                           unsigned holder_count)
{
    unsigned total = layout->worker_count + layout->donor_count;
    if (holder_count == 0)
        return 0;
    struct plan_worker *grown =
        realloc(layout->workers, ((size_t)total + holder_count) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    layout->workers = grown;
    for (unsigned i = 0; i < holder_count; i++) {
        struct plan_worker *worker = &grown[total + i];
        memset(worker, 0, sizeof(*worker));
        memcpy(worker->node, holders[i].node, sizeof(worker->node));
        memcpy(worker->address, holders[i].address, sizeof(worker->address));
        worker->slot = holders[i].slot;
        worker->instance = holders[i].instance;
    }
    layout->donor_count += holder_count;
    return 0;
}

static bool node_has_history(const struct transfer *transfer, const struct plan_worker *worker)
{
    return node_of_worker(transfer, worker) != NO_RANK;
}

static bool lowest_on_node(const struct plan_layout *layout, unsigned rank)
{
    for (unsigned before = 0; before < rank; before++)
        if (strcmp(layout->workers[before].node, layout->workers[rank].node) == 0)
            return false;
    return true;
}

/* Plan the history moves. The donors must be in place: their nodes may be the only ones with the
 * history. */
static int fill_histories(const struct transfer *transfer, struct plan *plan)
{
    unsigned total = plan->layout.worker_count + plan->layout.donor_count, source = 0;
    while (source < total && !node_has_history(transfer, &plan->layout.workers[source]))
        source++;
    if (source == total)
        return 0;
    plan->start.histories = calloc(plan->layout.worker_count, sizeof(*plan->start.histories));
    if (!plan->start.histories)
        return -ENOMEM;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++)
        if (!node_has_history(transfer, &plan->layout.workers[rank]) &&
            lowest_on_node(&plan->layout, rank))
            plan->start.histories[plan->start.history_count++] =
                (struct plan_move){0, source, rank};
    return 0;
}

static void find_ranks(struct transfer *transfer)
{
    for (unsigned i = 0; i < transfer->holder_count; i++) {
        const struct state_moves_holder *holder = &transfer->holders[i];
        int rank = plan_layout_find(&transfer->plan->layout, holder->node, holder->slot);
        transfer->rank_of[i] = rank >= 0 ? (unsigned)rank : NO_RANK;
        if (slot_is_taken(&transfer->plan->layout, holder)) {
            transfer->rank_of[i] = NO_RANK;
            transfer->replaced[i] = true; /* never a source */
        }
        transfer->node_of[i] = i;
        for (unsigned j = 0; j < i; j++)
            if (strcmp(transfer->holders[j].node, holder->node) == 0) {
                transfer->node_of[i] = j;
                break;
            }
    }
}

/* Append the donors in the order of their ranks, as the moves name them. */
static int append_donors(const struct transfer *transfer, struct plan_layout *layout)
{
    for (unsigned donor = 0; donor < transfer->donor_count; donor++) {
        unsigned holder = holder_of(transfer, transfer->plan->layout.worker_count + donor);
        int status = state_moves_add_donors(layout, &transfer->holders[holder], 1);
        if (status < 0)
            return status;
    }
    return 0;
}

int state_moves_fill(struct plan *plan, const struct state_moves_holder *holders,
                     unsigned holder_count, const size_t *unit_bytes, struct error *error)
{
    AUTO_FREE unsigned *numbers = calloc(2 * (size_t)holder_count + 1, sizeof(unsigned));
    AUTO_FREE size_t *load_bytes = calloc((size_t)holder_count + 1, sizeof(size_t));
    AUTO_FREE bool *replaced = calloc((size_t)holder_count + 1, sizeof(bool));
    if (!numbers || !load_bytes || !replaced)
        return error_set(error, -ENOMEM, "no memory for %u holders", holder_count);
    struct transfer transfer = {.plan = plan,
                                .holders = holders,
                                .holder_count = holder_count,
                                .unit_bytes = unit_bytes,
                                .rank_of = numbers,
                                .node_of = numbers + holder_count,
                                .replaced = replaced,
                                .load_bytes = load_bytes};
    find_ranks(&transfer);
    int status = 0;
    for (unsigned rank = 0; status == 0 && rank < plan->layout.worker_count; rank++)
        status = serve_rank(&transfer, rank, rank % plan->layout.stage_count, error);
    for (unsigned i = 0; status == 0 && i < plan->layout.shadow_count; i++)
        status = serve_rank(&transfer, plan->layout.shadows[i].rank, plan->layout.shadows[i].stage,
                            error);
    if (status == 0) {
        status = append_donors(&transfer, &plan->layout);
        if (status == 0)
            status = fill_histories(&transfer, plan);
        if (status < 0)
            error_set(error, status, "no memory for donors and histories");
    }
    if (status < 0) {
        free(transfer.moves);
        return status;
    }
    plan->start.moves = transfer.moves;
    plan->start.move_count = transfer.move_count;
    return 0;
}
