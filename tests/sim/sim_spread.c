#include "sim/sim_spread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elastic/copies/copies.h"
#include "sim/sim_check.h"
#include "sim/sim_folders.h"
#include "sim/sim_node.h"

#define TRIES_MAX     5
#define KEEPERS_NS    (60 * NS_PER_SECOND)
#define LOOK_LEAST_US 10000
#define LOOK_MOST_US  200000
#define WORK_LEAST_US 1000
#define WORK_MOST_US  40000

enum spread_phase {
    SPREAD_MERGE, /* rank 0: all parts are read */
    SPREAD_RECEIVE,
    SPREAD_AWAIT_RECEIPTS, /* rank 0, of store `next` */
    SPREAD_AWAIT_PLACED,   /* the same */
    SPREAD_AWAIT_SEAL,     /* the others */
    SPREAD_DONE,
};

struct sim_spread {
    struct sim_worker *worker;
    struct plan *plan;
    uint64_t step;
    bool leads; /* rank 0 */
    unsigned self, writer_count, next, tries;
    enum spread_phase phase;
    uint64_t has[SIM_NODES_MAX]; /* by store: of which stores it has copies, a bit each */
    uint64_t deadline_ns;
    int status;
    struct sim_event *event;
};

static unsigned node_of(const struct sim_spread *spread, unsigned store)
{
    return sim_node_index(spread->worker->sim, spread->plan->checkpoints.stores[store].node);
}

bool sim_serves(const struct sim *sim, unsigned node, unsigned to)
{
    const struct sim_node *there = &sim->nodes[node];
    return node == to || (there->up && there->firnd && there->firnd_pause.until_ns <= sim->now_ns &&
                          sim_reachable(sim, node, to));
}

/* Its part folder on @store, as this node sees it; NULL: not there, or not within reach. */
static struct sim_folder *look_at_part(const struct sim_spread *spread, unsigned store)
{
    const struct sim *sim = spread->worker->sim;
    return sim_serves(sim, node_of(spread, store), spread->worker->node)
               ? sim_folder_part(sim, node_of(spread, store), spread->step,
                                 spread->plan->generation)
               : NULL;
}

static uint64_t ranks_of(const struct sim_spread *spread, unsigned store)
{
    uint64_t ranks = 0;
    for (unsigned rank = 0; rank < spread->plan->layout.worker_count; rank++)
        if (strcmp(spread->plan->layout.workers[rank].node,
                   spread->plan->checkpoints.stores[store].node) == 0)
            ranks |= (uint64_t)1 << rank;
    return ranks;
}

/* ---- steps ---- */

static void go_on(void *context);

static void again_at(struct sim_spread *spread, uint64_t at_ns)
{
    spread->event = sim_post(spread->worker->sim, at_ns, &spread->worker->pause, go_on, spread);
}

static void look_again(struct sim_spread *spread)
{
    if (spread->leads)
        sim_check_awaited(spread->worker->sim, spread->worker, spread->step,
                          spread->plan->generation);
    again_at(spread, sim_soon(spread->worker->sim, LOOK_LEAST_US, LOOK_MOST_US));
}

static void work_on(struct sim_spread *spread)
{
    again_at(spread, sim_soon(spread->worker->sim, WORK_LEAST_US, WORK_MOST_US));
}

static void enter(struct sim_spread *spread, enum spread_phase phase)
{
    spread->phase = phase;
    spread->next = 0;
    spread->deadline_ns = spread->worker->sim->now_ns + KEEPERS_NS;
    work_on(spread);
}

static void finish(struct sim_spread *spread, int status)
{
    struct sim_worker *worker = spread->worker;
    spread->phase = SPREAD_DONE;
    spread->status = status;
    if (status < 0 && !spread->leads)
        sim_check_cannot(worker->sim, spread->step, spread->plan->generation);
    if (status < 0 && spread->leads)
        sim_folders_abandon(worker->sim, worker->node, spread->step, spread->plan->generation);
    sim_worker_wake(worker);
}

/* Merge the descriptions of all ranks' shares; the commit cannot begin without all of them. */
static void merge(struct sim_spread *spread)
{
    for (unsigned store = 0; store < spread->writer_count; store++) {
        const struct sim_folder *part = look_at_part(spread, store);
        uint64_t ranks = ranks_of(spread, store);
        if (!part || (part->ranks & ranks) != ranks) {
            finish(spread, -EHOSTUNREACH);
            return;
        }
    }
    enter(spread, SPREAD_RECEIVE);
}

static bool is_target(const struct sim_spread *spread, unsigned store)
{
    unsigned targets[COPIES_MAX - 1];
    unsigned count = copies_targets(spread->plan, store, targets);
    for (unsigned i = 0; i < count; i++)
        if (targets[i] == spread->self)
            return true;
    return false;
}

static void write_receipt(struct sim_spread *spread)
{
    struct sim_folder *mine = look_at_part(spread, spread->self);
    sim_disk_strain(spread->worker->sim, spread->worker->node);
    if (!mine || sim_disk_is_broken(spread->worker->sim, spread->worker->node)) {
        finish(spread, -EIO);
        return;
    }
    mine->receipt = true;
    mine->copied = spread->has[spread->self];
    enter(spread, spread->leads ? SPREAD_AWAIT_RECEIPTS : SPREAD_AWAIT_SEAL);
}

/* Receive one share after the other; a share that cannot be had is a problem, no failure. */
static void receive(struct sim_spread *spread)
{
    struct sim *sim = spread->worker->sim;
    while (spread->next < spread->writer_count && !is_target(spread, spread->next))
        spread->next++;
    if (spread->next == spread->writer_count) {
        write_receipt(spread);
        return;
    }
    unsigned from = node_of(spread, spread->next);
    if (!sim_serves(sim, from, spread->worker->node) && ++spread->tries < TRIES_MAX) {
        again_at(spread, sim->now_ns + SIM_FAILURE_TIMEOUT);
        return;
    }
    bool here = sim_serves(sim, from, spread->worker->node) &&
                !sim_disk_is_broken(sim, spread->worker->node) && sim->bug != BUG_CLAIMED_COPIES &&
                sim_folders_copy(sim, from, spread->worker->node, spread->step,
                                 spread->plan->generation, ranks_of(spread, spread->next));
    if (here || sim->bug == BUG_CLAIMED_COPIES)
        spread->has[spread->self] |= (uint64_t)1 << spread->next;
    spread->next++;
    spread->tries = 0;
    work_on(spread);
}

/* ---- rank 0 ---- */

static void check_merged(const struct sim_spread *spread)
{
    struct sim *sim = spread->worker->sim;
    struct sim_checkpoint checkpoint = {.step = spread->step, .made_by = spread->plan->generation};
    for (unsigned rank = 0; rank < spread->plan->layout.worker_count; rank++) {
        const struct sim_part *part =
            sim_disk_find_part(sim, spread->step, spread->plan->generation, rank);
        for (unsigned unit = 0; part && unit < SIM_UNITS; unit++)
            if (part->units[unit].held)
                checkpoint.units[unit] = part->units[unit];
    }
    sim_check_checkpoint(sim, &checkpoint);
    sim_check_sealed(sim, spread->step, spread->plan->generation);
}

static void seal(struct sim_spread *spread)
{
    struct sim_folder *mine = look_at_part(spread, spread->self);
    if (!mine || sim_disk_is_broken(spread->worker->sim, spread->worker->node)) {
        finish(spread, -EIO);
        return;
    }
    check_merged(spread);
    mine->sealed = true;
    enter(spread, SPREAD_AWAIT_PLACED);
}

static void await_receipts(struct sim_spread *spread)
{
    for (; spread->next < spread->writer_count; spread->next++) {
        const struct sim_folder *part = look_at_part(spread, spread->next);
        if (spread->next == spread->self)
            continue;
        if (part && part->receipt) {
            spread->has[spread->next] = part->copied;
        } else if (spread->worker->sim->now_ns > spread->deadline_ns) {
            finish(spread, -ETIMEDOUT);
            return;
        } else {
            look_again(spread);
            return;
        }
    }
    seal(spread);
}

static bool has_placed(const struct sim_spread *spread, unsigned store)
{
    const struct sim *sim = spread->worker->sim;
    const struct sim_folder *placed = sim_folder_placed(sim, node_of(spread, store), spread->step);
    return store == spread->self || sim->bug == BUG_PLACED_UNHEARD ||
           (sim_serves(sim, node_of(spread, store), spread->worker->node) && placed &&
            placed->generation == spread->plan->generation);
}

/* ---- both ---- */

static void place(struct sim_spread *spread)
{
    struct sim *sim = spread->worker->sim;
    unsigned node = spread->worker->node;
    if (!look_at_part(spread, spread->self) || sim_disk_is_broken(sim, node)) {
        finish(spread, -EIO);
        return;
    }
    sim_folders_place(sim, node, spread->step, spread->plan->generation);
    finish(spread, 0);
}

static void await_placed(struct sim_spread *spread)
{
    while (spread->next < spread->writer_count && has_placed(spread, spread->next))
        spread->next++;
    if (spread->next == spread->writer_count)
        place(spread);
    else if (spread->worker->sim->now_ns > spread->deadline_ns)
        finish(spread, -ETIMEDOUT);
    else
        look_again(spread);
}

static void await_seal(struct sim_spread *spread)
{
    const struct sim_folder *first = look_at_part(spread, 0);
    if (first && first->sealed)
        place(spread);
    else
        look_again(spread);
}

static void go_on(void *context)
{
    static void (*const at[SPREAD_DONE])(struct sim_spread *) = {
        [SPREAD_MERGE] = merge,
        [SPREAD_RECEIVE] = receive,
        [SPREAD_AWAIT_RECEIPTS] = await_receipts,
        [SPREAD_AWAIT_PLACED] = await_placed,
        [SPREAD_AWAIT_SEAL] = await_seal,
    };
    struct sim_spread *spread = context;
    spread->event = NULL;
    at[spread->phase](spread);
}

/* ---- start and end ---- */

struct sim_spread *sim_spread_start(struct sim_worker *worker)
{
    struct sim_spread *spread = sim_allocate(1, sizeof(*spread));
    const char *name = sim_node_name(worker->sim, worker->node);
    spread->worker = worker;
    spread->plan = plan_copy(worker->plan);
    assert(spread->plan);
    copies_leave_out(spread->plan, worker->snapshot.left_out);
    spread->step = worker->snapshot.begun_step;
    spread->leads = worker->rank == 0;
    spread->self = (unsigned)copies_find(&spread->plan->checkpoints, name);
    spread->writer_count = copies_writer_count(spread->plan);
    enter(spread, spread->leads ? SPREAD_MERGE : SPREAD_RECEIVE);
    return spread;
}

bool sim_spread_done(const struct sim_spread *spread, int *ret_status)
{
    if (spread->phase != SPREAD_DONE)
        return false;
    *ret_status = spread->status;
    return true;
}

static bool has_copy(const void *context, unsigned keeper, unsigned writer)
{
    const struct sim_spread *spread = context;
    return (spread->has[keeper] >> writer & 1) != 0;
}

char *sim_spread_shares(const struct sim_spread *spread)
{
    char *text;
    int status = copies_places(spread->plan, has_copy, spread, &text);
    assert(status == 0);
    return text;
}

void sim_spread_stop(struct sim_spread *spread)
{
    if (!spread)
        return;
    if (spread->phase != SPREAD_DONE && spread->leads && spread->worker->alive)
        sim_folders_abandon(spread->worker->sim, spread->worker->node, spread->step,
                            spread->plan->generation);
    sim_cancel(spread->worker->sim, spread->event);
    plan_free(spread->plan);
    free(spread);
}
