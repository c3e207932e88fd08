/* The reports of a simulated worker to its firnd, and the planted bugs that falsify them. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "elastic/recovery/holdings.h"
#include "sim/check/sim_check.h"
#include "sim/node/sim_process.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_worker.h"
#include "worker/session/divergence.h"

static void describe_held(const struct sim_worker *worker, struct worker_report *report)
{
    const struct sim_state *state = &worker->state;
    report->applied_step = state->applied_step;
    report->frozen_layers = sim_frozen_layers(worker->sim, state->applied_step);
    report->holds = state->holds;
    if (state->holds)
        sim_record_to(&state->hold, &report->record);
    else if (state->committed.step == state->applied_step && state->applied_step > 0)
        sim_record_to(&state->committed, &report->record);
    bool held[SIM_UNITS];
    sim_state_list_held(state, held);
    holdings_describe(held, SIM_UNITS, worker->engine ? worker->plan : NULL, worker->rank, report);
}

static void describe_lost(const struct sim_worker *worker, struct worker_report *report)
{
    const struct sim_mesh *mesh = worker->mesh;
    for (unsigned i = 0; i < mesh->lost_count; i++) {
        const struct plan_worker *lost = &worker->plan->layout.workers[mesh->lost_ranks[i]];
        snprintf(report->lost[report->lost_count++], sizeof(report->lost[0]), "%s/%u", lost->node,
                 lost->slot);
    }
}

static void describe_unreached(const struct sim_worker *worker, struct worker_report *report)
{
    const struct mesh_unreached *unreached = &worker->unreached;
    report->unreached_count = MIN(unreached->count, (unsigned)REPORT_UNREACHED_MAX);
    memcpy(report->unreached, unreached->ranks,
           report->unreached_count * sizeof(report->unreached[0]));
}

/* Describe the divergence in the words of the real worker. */
static void describe_divergence(const struct sim_worker *worker, struct worker_report *report)
{
    struct error error = {0};
    AUTO_FREE struct step_record *record = sim_allocate(1, sizeof(*record));
    *record = worker->rounds.commit->down.record;
    record->lane_losses[0] = NAN;
    int status = divergence_check(&worker->sim->spec.train, record, &error);
    assert(status == -EDOM);
    snprintf(report->text, sizeof(report->text), "%.255s", error.text);
}

/* Planted bugs: falsify the worker's report. */
static void lie(const struct sim_worker *worker, struct worker_report *report)
{
    if (worker->sim->bug == BUG_UNTOLD_SHADOW)
        report->extra_count = 0;
    if (worker->sim->bug == BUG_UNTOLD_CUT)
        report->unreached_count = 0;
    for (unsigned i = 0; worker->sim->bug == BUG_WRONG_CUT && i < report->unreached_count; i++)
        report->unreached[i] = (report->unreached[i] + 1) % worker->plan->layout.worker_count;
    if (!report->holds)
        return;
    if (worker->sim->bug == BUG_IGNORED_HOLD) {
        report->holds = false;
        report->record.step = 0;
    } else if (worker->sim->bug == BUG_MOVE_OF_OTHER_STEP) {
        report->holds = false;
        report->applied_step++;
        report->record.step = 0;
    }
}

static void describe(const struct sim_worker *worker, enum worker_phase phase,
                     struct worker_report *ret_report)
{
    *ret_report = (struct worker_report){
        .slot = worker->slot,
        .instance = worker->instance,
        .phase = phase,
        .generation = phase == WORKER_PREPARED ? MAX(worker->generation, worker->prepared)
                                               : worker->generation,
        .links = worker->links,
    };
    ret_report->cause = worker->cause;
    if (worker->cause == CAUSE_STARTS)
        snprintf(ret_report->text, sizeof(ret_report->text), "has come to %llu",
                 (unsigned long long)worker->sim->now_ns);
    if (worker->cause == CAUSE_DIVERGED)
        describe_divergence(worker, ret_report);
    ret_report->root = phase == WORKER_RUNNING && worker->rank == 0;
    describe_held(worker, ret_report);
    if (phase == WORKER_STUCK)
        describe_unreached(worker, ret_report);
    if (phase == WORKER_STUCK && worker->mesh)
        describe_lost(worker, ret_report);
    sim_check_report(worker->sim, worker, ret_report);
    lie(worker, ret_report);
}

static void keep_checkpoint(struct sim_worker *worker, const struct control_checkpoint *checkpoint)
{
    control_checkpoint_done(&worker->kept_checkpoint);
    int status = control_checkpoint_copy(checkpoint, &worker->kept_checkpoint);
    assert(status == 0);
}

void worker_say(struct sim_worker *worker, const struct control_message *message)
{
    if (message->type == CONTROL_STATUS)
        *worker->kept_status = message->status;
    else if (message->type == CONTROL_CHECKPOINT)
        keep_checkpoint(worker, &message->checkpoint);
    if (worker->process && worker->accepted)
        sim_process_hear(worker->process, message);
}

void worker_report(struct sim_worker *worker, enum worker_phase phase)
{
    AUTO_FREE struct control_message *message = sim_allocate(1, sizeof(*message));
    message->type = CONTROL_STATUS;
    describe(worker, phase, &message->status);
    worker->phase = phase;
    sim_trace(worker->sim, "  %s says %s of %llu, applied %llu%s", worker->name,
              worker_phase_word(phase), (unsigned long long)message->status.generation,
              (unsigned long long)message->status.applied_step,
              message->status.holds ? " and holds" : "");
    worker_say(worker, message);
}
