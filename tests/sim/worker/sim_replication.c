#include "sim/worker/sim_replication.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elastic/copies/copies.h"
#include "sim/check/sim_check.h"
#include "sim/node/sim_folders.h"
#include "sim/node/sim_node.h"

#define TRIES_MAX     5
#define KEEPERS_NS    (60 * NS_PER_SECOND)
#define LOOK_LEAST_US 10000
#define LOOK_MOST_US  200000
#define WORK_LEAST_US 1000
#define WORK_MOST_US  40000

enum replication_phase {
    REPLICATION_MERGE, /* rank 0: all parts are read */
    REPLICATION_RECEIVE,
    SPREAD_AWAIT_RECEIPTS, /* rank 0, of copy node `next` */
    SPREAD_AWAIT_PLACED,   /* rank 0, of copy node `next` */
    SPREAD_AWAIT_SEAL,     /* other keepers */
    REPLICATION_DONE,
};

struct sim_replication {
    struct sim_worker *worker;
    struct plan *plan;
    uint64_t step;
    bool leads; /* rank 0 */
    unsigned self, writer_count, next, tries;
    enum replication_phase phase;
    uint64_t seal;               /* of the manifest, once it is known */
    uint64_t has[SIM_NODES_MAX]; /* by copy node: the copy nodes whose shares it has, a bit each */
    uint64_t deadline_ns;
    bool keepers_told; /* until then rank 0 waits for receipts without a limit */
    int status;
    struct sim_event *event;
};

static unsigned node_of(const struct sim_replication *replication, unsigned copy_node)
{
    return sim_node_index(replication->worker->sim,
                          replication->plan->checkpoints.copy_nodes[copy_node].node);
}

bool sim_serves(const struct sim *sim, unsigned node, unsigned to)
{
    const struct sim_node *there = &sim->nodes[node];
    return node == to || (there->up && there->firnd && there->firnd_pause.until_ns <= sim->now_ns &&
                          sim_reachable(sim, node, to));
}

/* Return the part folder on @copy_node, as this node sees it; NULL: not there, or out of reach. */
static struct sim_folder *look_at_part(const struct sim_replication *replication,
                                       unsigned copy_node)
{
    const struct sim *sim = replication->worker->sim;
    return sim_serves(sim, node_of(replication, copy_node), replication->worker->node)
               ? sim_folder_part(sim, node_of(replication, copy_node), replication->step,
                                 replication->plan->generation)
               : NULL;
}

static uint64_t ranks_of(const struct sim_replication *replication, unsigned copy_node)
{
    uint64_t ranks = 0;
    for (unsigned rank = 0; rank < replication->plan->layout.worker_count; rank++)
        if (strcmp(replication->plan->layout.workers[rank].node,
                   replication->plan->checkpoints.copy_nodes[copy_node].node) == 0)
            ranks |= (uint64_t)1 << rank;
    return ranks;
}

/* ---- steps ---- */

static void go_on(void *context);

static void again_at(struct sim_replication *replication, uint64_t at_ns)
{
    replication->event =
        sim_post(replication->worker->sim, at_ns, &replication->worker->pause, go_on, replication);
}

static void look_again(struct sim_replication *replication)
{
    if (replication->leads)
        sim_check_awaited(replication->worker->sim, replication->worker, replication->step,
                          replication->plan->generation);
    again_at(replication, sim_soon(replication->worker->sim, LOOK_LEAST_US, LOOK_MOST_US));
}

static void work_on(struct sim_replication *replication)
{
    again_at(replication, sim_soon(replication->worker->sim, WORK_LEAST_US, WORK_MOST_US));
}

static void enter(struct sim_replication *replication, enum replication_phase phase)
{
    replication->phase = phase;
    replication->next = 0;
    replication->deadline_ns = replication->worker->sim->now_ns + KEEPERS_NS;
    work_on(replication);
}

static void finish(struct sim_replication *replication, int status)
{
    struct sim_worker *worker = replication->worker;
    replication->phase = REPLICATION_DONE;
    replication->status = status;
    if (status < 0 && !replication->leads)
        sim_check_cannot(worker->sim, replication->step, replication->plan->generation);
    if (status < 0 && replication->leads)
        sim_folders_abandon(worker->sim, worker->node, replication->step,
                            replication->plan->generation);
    sim_worker_wake(worker);
}

/* Merge the descriptions of all ranks' shares; the commit cannot begin without all of them. */
static void merge(struct sim_replication *replication)
{
    for (unsigned copy_node = 0; copy_node < replication->writer_count; copy_node++) {
        const struct sim_folder *part = look_at_part(replication, copy_node);
        uint64_t ranks = ranks_of(replication, copy_node);
        if (!part || (part->ranks & ranks) != ranks) {
            finish(replication, -EHOSTUNREACH);
            return;
        }
    }
    enter(replication, REPLICATION_RECEIVE);
}

static bool is_target(const struct sim_replication *replication, unsigned copy_node)
{
    unsigned targets[COPIES_MAX - 1];
    unsigned count = copies_targets(replication->plan, copy_node, targets);
    for (unsigned i = 0; i < count; i++)
        if (targets[i] == replication->self)
            return true;
    return false;
}

static void write_receipt(struct sim_replication *replication)
{
    struct sim_folder *mine = look_at_part(replication, replication->self);
    sim_disk_strain(replication->worker->sim, replication->worker->node);
    if (!mine || sim_disk_is_broken(replication->worker->sim, replication->worker->node)) {
        finish(replication, -EIO);
        return;
    }
    mine->receipt = true;
    mine->copied = replication->has[replication->self];
    enter(replication, replication->leads ? SPREAD_AWAIT_RECEIPTS : SPREAD_AWAIT_SEAL);
}

/* Receive one share after the other; a share that cannot be read is a problem, but no failure. */
static void receive(struct sim_replication *replication)
{
    struct sim *sim = replication->worker->sim;
    while (replication->next < replication->writer_count &&
           !is_target(replication, replication->next))
        replication->next++;
    if (replication->next == replication->writer_count) {
        write_receipt(replication);
        return;
    }
    unsigned from = node_of(replication, replication->next);
    if (!sim_serves(sim, from, replication->worker->node) && ++replication->tries < TRIES_MAX) {
        again_at(replication, sim->now_ns + SIM_FAILURE_TIMEOUT);
        return;
    }
    bool here =
        sim_serves(sim, from, replication->worker->node) &&
        !sim_disk_is_broken(sim, replication->worker->node) && sim->bug != BUG_CLAIMED_COPIES &&
        sim_folders_copy(sim, from, replication->worker->node, replication->step,
                         replication->plan->generation, ranks_of(replication, replication->next));
    if (here || sim->bug == BUG_CLAIMED_COPIES)
        replication->has[replication->self] |= (uint64_t)1 << replication->next;
    replication->next++;
    replication->tries = 0;
    work_on(replication);
}

/* ---- rank 0 ---- */

static void check_merged(const struct sim_replication *replication)
{
    struct sim *sim = replication->worker->sim;
    struct sim_checkpoint checkpoint = {.step = replication->step,
                                        .made_by = replication->plan->generation};
    for (unsigned rank = 0; rank < replication->plan->layout.worker_count; rank++) {
        const struct sim_part *part =
            sim_disk_find_part(sim, replication->step, replication->plan->generation, rank);
        for (unsigned unit = 0; part && unit < SIM_UNITS; unit++)
            if (part->units[unit].held)
                checkpoint.units[unit] = part->units[unit];
    }
    sim_check_checkpoint(sim, &checkpoint);
    sim_check_sealed(sim, replication->step, replication->plan->generation);
}

void sim_replication_keepers_told(struct sim_replication *replication)
{
    if (!replication || replication->keepers_told)
        return;
    replication->keepers_told = true;
    replication->deadline_ns = replication->worker->sim->now_ns + KEEPERS_NS;
}

static void seal(struct sim_replication *replication)
{
    struct sim_folder *mine = look_at_part(replication, replication->self);
    if (!mine || sim_disk_is_broken(replication->worker->sim, replication->worker->node)) {
        finish(replication, -EIO);
        return;
    }
    check_merged(replication);
    mine->seal = replication->seal = replication->worker->sim->now_ns;
    enter(replication, SPREAD_AWAIT_PLACED);
}

static void await_receipts(struct sim_replication *replication)
{
    for (; replication->next < replication->writer_count; replication->next++) {
        const struct sim_folder *part = look_at_part(replication, replication->next);
        if (replication->next == replication->self)
            continue;
        if (part && part->receipt) {
            replication->has[replication->next] = part->copied;
        } else if (replication->keepers_told &&
                   replication->worker->sim->now_ns > replication->deadline_ns) {
            finish(replication, -ETIMEDOUT);
            return;
        } else {
            look_again(replication);
            return;
        }
    }
    seal(replication);
}

static bool has_placed(const struct sim_replication *replication, unsigned copy_node)
{
    const struct sim *sim = replication->worker->sim;
    const struct sim_folder *placed =
        sim_folder_placed(sim, node_of(replication, copy_node), replication->step);
    return copy_node == replication->self || sim->bug == BUG_PLACED_UNHEARD ||
           (sim_serves(sim, node_of(replication, copy_node), replication->worker->node) && placed &&
            placed->seal == replication->seal);
}

/* ---- both ---- */

static void place(struct sim_replication *replication)
{
    struct sim *sim = replication->worker->sim;
    unsigned node = replication->worker->node;
    if (!look_at_part(replication, replication->self) || sim_disk_is_broken(sim, node)) {
        finish(replication, -EIO);
        return;
    }
    sim_folders_place(sim, node, replication->step, replication->plan->generation,
                      replication->seal);
    finish(replication, 0);
}

static void await_placed(struct sim_replication *replication)
{
    while (replication->next < replication->writer_count &&
           has_placed(replication, replication->next))
        replication->next++;
    if (replication->next == replication->writer_count)
        place(replication);
    else if (replication->worker->sim->now_ns > replication->deadline_ns)
        finish(replication, -ETIMEDOUT);
    else
        look_again(replication);
}

static void await_seal(struct sim_replication *replication)
{
    const struct sim_folder *first = look_at_part(replication, 0);
    if (first && first->seal) {
        replication->seal = first->seal;
        place(replication);
    } else
        look_again(replication);
}

static void go_on(void *context)
{
    static void (*const at[REPLICATION_DONE])(struct sim_replication *) = {
        [REPLICATION_MERGE] = merge,
        [REPLICATION_RECEIVE] = receive,
        [SPREAD_AWAIT_RECEIPTS] = await_receipts,
        [SPREAD_AWAIT_PLACED] = await_placed,
        [SPREAD_AWAIT_SEAL] = await_seal,
    };
    struct sim_replication *replication = context;
    replication->event = NULL;
    at[replication->phase](replication);
}

/* ---- start and end ---- */

struct sim_replication *sim_replication_start(struct sim_worker *worker)
{
    struct sim_replication *replication = sim_allocate(1, sizeof(*replication));
    const char *name = sim_node_name(worker->sim, worker->node);
    replication->worker = worker;
    replication->plan = plan_copy(worker->plan);
    assert(replication->plan);
    copies_leave_out(replication->plan, worker->snapshot.left_out);
    replication->step = worker->snapshot.progress.begun.step;
    replication->leads = worker->rank == 0;
    replication->self = (unsigned)copies_find(&replication->plan->checkpoints, name);
    replication->writer_count = copies_writer_count(replication->plan);
    enter(replication, replication->leads ? REPLICATION_MERGE : REPLICATION_RECEIVE);
    return replication;
}

bool sim_replication_done(const struct sim_replication *replication, int *ret_status)
{
    if (replication->phase != REPLICATION_DONE)
        return false;
    *ret_status = replication->status;
    return true;
}

static bool has_copy(const void *context, unsigned keeper, unsigned writer)
{
    const struct sim_replication *replication = context;
    return (replication->has[keeper] >> writer & 1) != 0;
}

char *sim_replication_shares(const struct sim_replication *replication)
{
    char *text;
    int status = copies_places(replication->plan, has_copy, replication, &text);
    assert(status == 0);
    return text;
}

void sim_replication_stop(struct sim_replication *replication)
{
    if (!replication)
        return;
    if (replication->phase != REPLICATION_DONE && replication->leads && replication->worker->alive)
        sim_folders_abandon(replication->worker->sim, replication->worker->node, replication->step,
                            replication->plan->generation);
    sim_cancel(replication->worker->sim, replication->event);
    plan_free(replication->plan);
    free(replication);
}
