/*
 * Copies of sums on another replica: worker/step/sum_copies.c around the real
 * protocol/sum_copies.h. The sums of one copy arrive together, after a drawn time.
 */
#include <stdlib.h>

#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_worker.h"

/* Of the way of a copy: the computing that it takes. Drawn ways may be longer than a step. */
#define COST_PARTS         10
#define COST_PARTS_DRAWN   1000
#define LOOKS_PER_INTERVAL 4
#define LOOK_LEAST_NS      NS_PER_MS

static uint64_t step_of(const struct sim_worker *worker)
{
    return worker->state.applied_step + 1;
}

static unsigned replica_of(const struct sim_worker *worker)
{
    return worker->rank / worker->plan->layout.stage_count;
}

/* Return the worker of this one's stage in @replica. */
static unsigned rank_in(const struct sim_worker *worker, unsigned replica)
{
    const struct plan_layout *layout = &worker->plan->layout;
    return plan_layout_rank(layout, replica, worker->rank % layout->stage_count);
}

static bool copies_sums(const struct sim_worker *worker)
{
    return sum_copies_keeper(&worker->plan->layout, replica_of(worker)) != replica_of(worker);
}

static bool is_in_this_step(const struct sim_worker *worker)
{
    const struct sim_copies *copies = &worker->share.copies;
    return worker->alive && worker->engine && worker->mesh && copies->step == step_of(worker) &&
           copies->generation == worker->generation && worker->point >= POINT_FORWARD &&
           worker->point <= POINT_REDUCE;
}

static bool take_sums(struct sim_worker *worker, unsigned rank, enum sim_tag tag,
                      struct step_sums *sums)
{
    CLEANUP(bytes_done) struct bytes content = {0};
    if (!sim_mesh_has(worker->mesh, rank, tag, step_of(worker)) ||
        !sim_mesh_take_bytes(worker->mesh, rank, tag, step_of(worker), &content))
        return false;
    struct words_reader reader = {.at = content.data, .count = content.size_bytes / 8};
    if (step_sums_unpack(&reader, SIM_LANES, worker->sim->spec.train.micro_batches_per_lane,
                         SIM_UNITS, rank, sums))
        abort();
    return true;
}

/* ---- the keeper ---- */

static void keep(struct sim_copies *copies, const struct step_sum *sum)
{
    struct step_sums *kept = &copies->kept;
    unsigned left = 0;
    for (unsigned i = 0; i < kept->count; i++)
        if (!sum_copies_replaces(sum, &kept->list[i]))
            kept->list[left++] = kept->list[i];
    kept->count = left;
    if (step_sums_add(kept, sum))
        abort();
}

static void ask(struct sim_worker *worker)
{
    unsigned owner = sum_copies_owner(&worker->plan->layout, replica_of(worker));
    sim_sums_send(worker, rank_in(worker, owner), SIM_COPIES_ASKED, &worker->share.copies.kept);
}

static bool take_copies(struct sim_worker *worker)
{
    unsigned owner = sum_copies_owner(&worker->plan->layout, replica_of(worker));
    CLEANUP(step_sums_done) struct step_sums sums = {0};
    bool taken = take_sums(worker, rank_in(worker, owner), SIM_COPIES, &sums);
    for (unsigned i = 0; i < sums.count; i++)
        keep(&worker->share.copies, &sums.list[i]);
    return taken;
}

void sim_copies_list(struct sim_worker *worker, struct step_sums *sums)
{
    const struct sim_copies *copies = &worker->share.copies;
    if (copies->kept_step != step_of(worker) && worker->sim->bug != BUG_STALE_COPIES)
        return;
    for (unsigned i = 0; i < copies->kept.count; i++) {
        struct step_sum sum = copies->kept.list[i];
        sum.offered = sum.copied = true;
        sum.source = worker->rank;
        bool is_own =
            sum.unit >= worker->first_unit && sum.unit < worker->first_unit + worker->unit_count;
        if (is_own && step_sums_add(sums, &sum))
            abort();
    }
}

void sim_copies_check(const struct sim_worker *worker, const struct step_sums *sums)
{
    bool current = worker->share.copies.kept_step == step_of(worker);
    unsigned count = 0;
    for (unsigned i = 0; i < sums->count; i++)
        count +=
            sums->list[i].chosen && sums->list[i].offered && sums->list[i].source == worker->rank;
    if (count > 0)
        sim_trace(worker->sim, "  %s goes on with copies of %u sums", worker->name, count);
    if (count > 0 && !current)
        sim_fail(worker->sim, "%s goes on with a copy of another step's sum", worker->name);
}

/* ---- the owner ---- */

/* The copy leaves when it would have arrived: a worker that dies before has copied nothing. */
static void arrive(void *context)
{
    struct sim_worker *worker = context;
    struct sim_copies *copies = &worker->share.copies;
    if (!copies->sending || copies->arrive_ns > worker->sim->now_ns || !is_in_this_step(worker) ||
        worker->mesh->state != SIM_MESH_OPEN)
        return;
    unsigned keeper = sum_copies_keeper(&worker->plan->layout, replica_of(worker));
    sim_sums_send(worker, rank_in(worker, keeper), SIM_COPIES, &copies->sent);
    uint64_t parts = worker->sim->costs.lane_ns > 0 ? COST_PARTS : COST_PARTS_DRAWN;
    copies->cost = (struct sum_copies_cost){copies->began_ns,
                                            (worker->sim->now_ns - copies->began_ns) / parts};
    copies->due_ns = sum_copies_due_ns(&worker->plan->layout, copies->began_ns, &copies->cost);
    copies->sending = false;
}

static void copy(struct sim_worker *worker)
{
    struct sim *sim = worker->sim;
    struct sim_copies *copies = &worker->share.copies;
    CLEANUP(step_sums_done) struct step_sums own = {0};
    sim_sums_list_own(worker, &own);
    step_sums_done(&copies->sent);
    if (sum_copies_missing(&own, &copies->asked, &copies->sent))
        abort();
    if (!copies->sent.count)
        return;
    copies->has_asked = false;
    copies->sending = true;
    copies->began_ns = copies->cost.began_ns = sim->now_ns;
    copies->arrive_ns =
        sim->now_ns + copies->sent.count * (sim->costs.unit_ns / 3) +
        sim_scale_sums_ns(sim, worker->instance, sim_mix(worker->generation, sim->now_ns));
    sim_post(sim, copies->arrive_ns, &worker->pause, arrive, worker);
}

/* ---- both ---- */

/* Look around between two micro-batches. */
static void look(void *context)
{
    struct sim_worker *worker = context;
    struct sim *sim = worker->sim;
    struct sim_copies *copies = &worker->share.copies;
    copies->looks = false;
    if (!is_in_this_step(worker) || worker->mesh->state != SIM_MESH_OPEN)
        return;
    if (take_copies(worker))
        ask(worker);
    CLEANUP(step_sums_done) struct step_sums asked = {0};
    unsigned keeper = sum_copies_keeper(&worker->plan->layout, replica_of(worker));
    if (take_sums(worker, rank_in(worker, keeper), SIM_COPIES_ASKED, &asked)) {
        step_sums_done(&copies->asked);
        copies->asked = asked;
        asked = (struct step_sums){0};
        copies->has_asked = true;
    }
    bool computes = worker->point == POINT_FORWARD; /* sums that are reduced are overwritten */
    if (copies->has_asked && !copies->sending && computes && copies->due_ns <= sim->now_ns)
        copy(worker);
    copies->looks = true;
    uint64_t interval_ns = (uint64_t)(worker->plan->layout.copy_seconds * NS_PER_SECOND);
    uint64_t pause_ns = MAX(interval_ns / LOOKS_PER_INTERVAL, sim_division_operation_ns(worker));
    sim_post(sim, sim->now_ns + MAX(LOOK_LEAST_NS, pause_ns), &worker->pause, look, worker);
}

static void drop_others(struct sim_worker *worker)
{
    struct step_sums *kept = &worker->share.copies.kept;
    unsigned owner = sum_copies_owner(&worker->plan->layout, replica_of(worker)), left = 0;
    struct step_division division;
    sim_division_find(worker, &division);
    for (unsigned i = 0; i < kept->count; i++)
        if (sum_copies_are_of_use(&division, kept->list[i].span, owner))
            kept->list[left++] = kept->list[i];
    kept->count = left;
}

void sim_copies_begin(struct sim_worker *worker)
{
    struct sim_copies *copies = &worker->share.copies;
    if (copies->kept_step != step_of(worker))
        step_sums_done(&copies->kept);
    step_sums_done(&copies->asked);
    copies->kept_step = copies->step = step_of(worker);
    copies->generation = worker->generation;
    copies->has_asked = copies->sending = false;
    if (!copies_sums(worker)) {
        step_sums_done(&copies->kept);
        return;
    }
    bool goes_on = worker->share.division.step == copies->step;
    copies->due_ns =
        sum_copies_due_ns(&worker->plan->layout, goes_on ? 0 : worker->sim->now_ns, &copies->cost);
    drop_others(worker);
    ask(worker);
    if (!copies->looks)
        look(worker);
}

void sim_copies_forget(struct sim_worker *worker)
{
    worker->share.copies.kept_step = 0;
}

void sim_copies_done(struct sim_worker *worker)
{
    struct sim_copies *copies = &worker->share.copies;
    step_sums_done(&copies->kept);
    step_sums_done(&copies->asked);
    step_sums_done(&copies->sent);
}
