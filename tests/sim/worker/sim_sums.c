/*
 * The sums that workers exchange when a generation begins within a step: worker/step/moved_sums.c
 * around the real protocol/step_sums.h. A simulated worker has the same sums for all units of its
 * stage, and they arrive together.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/check/sim_check.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_worker.h"

static const struct plan_move *pair_of(const struct sim_worker *worker, unsigned index)
{
    return &worker->plan->start.sums[index];
}

static uint64_t step_of(const struct sim_worker *worker)
{
    return worker->state.applied_step + 1;
}

static unsigned micro_batches(const struct sim_worker *worker) /* of a lane */
{
    return worker->sim->spec.train.micro_batches_per_lane;
}

static void add(struct step_sums *sums, const struct step_sum *sum)
{
    if (step_sums_add(sums, sum))
        abort();
}

/* List the kept sums of @unit, each span once. */
static void list_unit(const struct sim_worker *worker, const struct sim_kept *kept, unsigned unit,
                      struct step_sums *sums)
{
    for (unsigned lane = 0; lane < SIM_LANES; lane++) {
        const struct lane_fact *fact = &kept->lanes[lane];
        if (fact->span.count > 0 && fact->span.first == lane && fact->micro_batches > 0)
            add(sums, &(struct step_sum){.unit = unit,
                                         .source = worker->rank,
                                         .span = fact->span,
                                         .micro_batches = fact->micro_batches});
    }
}

static bool is_in_stage(const struct sim_worker *worker, unsigned rank, unsigned unit)
{
    const struct plan_layout *layout = &worker->plan->layout;
    const unsigned *first = &layout->stage_first_unit[rank % layout->stage_count];
    return unit >= first[0] && unit < first[1];
}

/* List the kept sums of the stage of @rank; for another stage, without the units of this worker's
 * own stage. */
static void list_kept(const struct sim_worker *worker, unsigned rank, struct step_sums *sums)
{
    const struct sim_kept *kept = &worker->share.kept;
    bool computes = worker->rank < worker->plan->layout.worker_count;
    if (kept->step != step_of(worker))
        return;
    for (unsigned unit = kept->first_unit; unit < kept->first_unit + kept->unit_count; unit++) {
        bool is_own = computes && is_in_stage(worker, worker->rank, unit);
        if (is_in_stage(worker, rank, unit) && (rank == worker->rank || !is_own))
            list_unit(worker, kept, unit, sums);
    }
}

void sim_sums_list_own(const struct sim_worker *worker, struct step_sums *sums)
{
    struct sim_kept kept;
    sim_division_done(worker, &kept);
    for (unsigned unit = kept.first_unit; unit < kept.first_unit + kept.unit_count; unit++)
        list_unit(worker, &kept, unit, sums);
}

void sim_sums_send(struct sim_worker *worker, unsigned rank, enum sim_tag tag,
                   const struct step_sums *sums)
{
    CLEANUP(bytes_done) struct bytes content = {0};
    struct words_writer writer = {.bytes = &content};
    if (step_sums_pack(sums, SIM_LANES, &writer))
        abort();
    sim_mesh_send_bytes(worker->mesh, rank, tag, step_of(worker), &content);
}

void sim_sums_begin(struct sim_worker *worker)
{
    struct sim_sums *moved = &worker->share.sums;
    sim_sums_done(worker);
    for (unsigned i = 0; i < worker->plan->start.sums_count; i++) {
        CLEANUP(step_sums_done) struct step_sums offer = {0};
        if (pair_of(worker, i)->from_rank != worker->rank)
            continue;
        list_kept(worker, pair_of(worker, i)->to_rank, &offer);
        sim_sums_send(worker, pair_of(worker, i)->to_rank, SIM_OFFER, &offer);
    }
    if (worker->rank >= worker->plan->layout.worker_count)
        return;
    list_kept(worker, worker->rank, &moved->list);
    if (worker->share.kept.step == step_of(worker))
        sim_copies_list(worker, &moved->list);
}

/* Take the message of each pair in which this worker is the second (offers) or the first. */
static int take_all(struct sim_worker *worker, bool offers, struct step_sums *list)
{
    struct sim_sums *moved = &worker->share.sums;
    for (; moved->next_pair < worker->plan->start.sums_count; moved->next_pair++) {
        CLEANUP(bytes_done) struct bytes content = {0};
        const struct plan_move *pair = pair_of(worker, moved->next_pair);
        unsigned peer = offers ? pair->from_rank : pair->to_rank, before = list->count;
        if ((offers ? pair->to_rank : pair->from_rank) != worker->rank)
            continue;
        if (!sim_mesh_take_bytes(worker->mesh, peer, offers ? SIM_OFFER : SIM_WANTED,
                                 step_of(worker), &content))
            return worker->mesh->state == SIM_MESH_FAILED ? -ECONNRESET : -EAGAIN;
        struct words_reader reader = {.at = content.data, .count = content.size_bytes / 8};
        if (step_sums_unpack(&reader, SIM_LANES, micro_batches(worker), SIM_UNITS, peer, list))
            abort();
        if (!offers && list->count > before)
            moved->asked_by[peer] = true;
    }
    moved->next_pair = 0;
    return 0;
}

int sim_sums_take_offers(struct sim_worker *worker)
{
    return take_all(worker, true, &worker->share.sums.list);
}

int sim_sums_take_wanted(struct sim_worker *worker)
{
    struct sim_sums *moved = &worker->share.sums;
    int status = moved->gives ? 0 : take_all(worker, false, &moved->given);
    if (!status)
        step_sums_done(&moved->given);
    moved->gives = !status;
    return status;
}

struct step_facts sim_sums_facts(struct sim_worker *worker)
{
    const struct step_sums_stage stage = {worker->first_unit,
                                          worker->first_unit + worker->unit_count, false};
    struct step_facts facts;
    if (step_sums_facts(&worker->share.sums.list, &stage, SIM_LANES, micro_batches(worker), &facts))
        abort();
    return facts;
}

/* All requested sums are here: donors may leave. */
static void release(void *context)
{
    struct sim_worker *worker = context;
    const struct sim_payload nothing = {0};
    if (!worker->alive || !worker->mesh || worker->mesh->state != SIM_MESH_OPEN ||
        worker->share.sums.arrive_ns > worker->sim->now_ns)
        return;
    for (unsigned i = 0; i < worker->plan->start.sums_count; i++) {
        const struct plan_move *pair = pair_of(worker, i);
        if (pair->to_rank == worker->rank && pair->from_rank >= worker->plan->layout.worker_count &&
            step_sums_chosen(&worker->share.sums.list, pair->from_rank) > 0)
            sim_mesh_send(worker->mesh, pair->from_rank, SIM_SUMS_RELEASE, 0, &nothing);
    }
}

void sim_sums_settle(struct sim_worker *worker, const struct step_division *division)
{
    const struct step_sums_stage stage = {worker->first_unit,
                                          worker->first_unit + worker->unit_count, false};
    struct sim *sim = worker->sim;
    struct sim_sums *moved = &worker->share.sums;
    unsigned replica = worker->rank / worker->plan->layout.stage_count, asked = 0;
    if (!division->step)
        step_sums_done(&moved->list);
    step_sums_choose(&moved->list, division, replica);
    if (!step_sums_suffice(&moved->list, &stage, division, replica))
        sim_fail(sim, "%s does not have the sums that a division counts on", worker->name);
    sim_copies_check(worker, &moved->list);
    for (unsigned i = 0; i < worker->plan->start.sums_count; i++) {
        CLEANUP(step_sums_done) struct step_sums wanted = {0};
        const struct plan_move *pair = pair_of(worker, i);
        if (pair->to_rank != worker->rank)
            continue;
        for (unsigned k = 0; k < moved->list.count; k++)
            if (moved->list.list[k].chosen && moved->list.list[k].offered &&
                moved->list.list[k].source == pair->from_rank)
                add(&wanted, &moved->list.list[k]);
        asked += wanted.count;
        sim_sums_send(worker, pair->from_rank, SIM_WANTED, &wanted);
    }
    if (asked == 0)
        return;
    sim_trace(sim, "  %s goes on with %u sums of other workers", worker->name, asked);
    moved->arrive_ns = sim->now_ns + asked * (sim->costs.unit_ns / 3) +
                       sim_scale_sums_ns(sim, worker->instance, worker->plan->generation);
    sim_post(sim, moved->arrive_ns, &worker->pause, release, worker);
}

bool sim_sums_have_arrived(const struct sim_worker *worker)
{
    return worker->share.sums.arrive_ns <= worker->sim->now_ns;
}

bool sim_sums_misses(const struct sim_worker *worker, unsigned lane)
{
    const struct step_sums *list = &worker->share.sums.list;
    if (sim_sums_have_arrived(worker))
        return false;
    for (unsigned k = 0; k < list->count; k++)
        if (list->list[k].chosen && list->list[k].offered &&
            lane - list->list[k].span.first < list->list[k].span.count)
            return true;
    return false;
}

int sim_sums_await_release(struct sim_worker *worker)
{
    struct sim_payload payload;
    for (unsigned rank = 0; rank < worker->plan->layout.worker_count; rank++) {
        if (!worker->share.sums.asked_by[rank])
            continue;
        if (!sim_mesh_take(worker->mesh, rank, SIM_SUMS_RELEASE, 0, 0, &payload))
            return worker->mesh->state == SIM_MESH_FAILED ? -ECONNRESET : -EAGAIN;
        worker->share.sums.asked_by[rank] = false;
    }
    return 0;
}

void sim_sums_done(struct sim_worker *worker)
{
    step_sums_done(&worker->share.sums.list);
    step_sums_done(&worker->share.sums.given);
    worker->share.sums = (struct sim_sums){0};
}
