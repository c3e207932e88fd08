#include "worker/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "elastic/job/job_spec.h"
#include "elastic/plan/plan_words.h"
#include "protocol/stay.h"
#include "worker/session/checkpoint_duty.h"
#include "worker/session/commands.h"
#include "worker/session/commit_agreement.h"
#include "worker/session/data_agreement.h"
#include "worker/session/generation.h"
#include "worker/session/metrics_writer.h"
#include "worker/session/numerics_agreement.h"
#include "worker/session/status_report.h"
#include "worker/session/step_agreement.h"
#include "worker/state/handover.h"
#include "worker/state/state_digest.h"
#include "worker/trace/recorder.h"

#define WAIT_TOLD_SECONDS 0.1
#define PART_LEAST        3 /* a third of a step tells how long the whole step takes */

/* ---- opening ---- */

/* Handle events between two micro-batches. */
static bool look_around(void *context, const struct engine_progress *progress)
{
    struct trainer *trainer = context;

    checkpoint_duty_look(trainer);
    int status = trainer->handover ? handover_advance(trainer->handover) : 0;
    if (!status && trainer->sums)
        status = moved_sums_advance(trainer->sums);
    if (status) {
        char reason[96];
        snprintf(reason, sizeof(reason), "handing over state failed: %s", strerror(-status));
        mesh_abort(trainer->links.mesh, reason);
        return true;
    }
    status_report_running(trainer);
    return step_watch_leaves(trainer, progress);
}

/* Straggler statistics restart with each engine, which has other lanes or fewer computations.
 * @division: of a step in progress, with its kept sums; NULL: as the plan says */
static int make_engine(struct trainer *trainer, unsigned rank, const struct step_division *division,
                       struct error *error)
{
    double factor = trainer->spec.elastic.evict_stragglers.factor;
    const struct engine_options options = {
        .state = trainer->state,
        .dataset = trainer->dataset,
        .plan = trainer->plan,
        .rank = rank,
        .routes = &trainer->links.routes,
        .watch = {.leaves = look_around, .context = trainer},
        .recorder = trainer->recorder,
        .division = division,
        .calendar = &trainer->checkpoints.calendar,
        .kept = trainer->kept,
        .offered = trainer->sums && division ? moved_sums_list(trainer->sums) : NULL,
        .frozen = &trainer->frozen,
        .handover = trainer->handover,
        .warm = &trainer->device.warm,
    };
    uint64_t began_ns = clock_monotonic_ns();

    trainer->kept = NULL;
    int status = engine_new(&options, &trainer->engine, error);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_BUILD, trainer->state->applied_step + 1);
    straggler_free(trainer->commit.straggler);
    trainer->commit.straggler = NULL;
    if (!status && trainer->sums && division) {
        trainer->engine->arrivals.sums = trainer->sums;
        status = moved_sums_arrive(trainer->sums, trainer->engine->gradients);
        if (status)
            error_set(error, status, "receiving sums of the step failed: %s", strerror(-status));
    }
    if (status || rank != 0 || factor == 0)
        return status;
    if (straggler_new(trainer->plan, factor, trainer->spec.elastic.evict_stragglers.steps,
                      &trainer->commit.straggler))
        return error_set(error, -ENOMEM, "no memory to watch for stragglers");
    return 0;
}

static void tell_division(struct trainer *trainer, unsigned rank,
                          const struct step_division *division)
{
    unsigned all = division->lanes * division->micro_batches;
    unsigned left = step_division_left(division, UINT_MAX);
    char text[128];

    if (!division->step)
        return;
    snprintf(text, sizeof(text), "step %" PRIu64 " goes on with %u of %u micro-batches done",
             division->step, all - left, all);
    if (rank == 0)
        status_report_event(trainer, text);
    else
        log_info("%s", text);
}

/* Sums of this rank may be under way. */
static void give_up_step(struct trainer *trainer)
{
    mesh_abort(trainer->links.mesh, "the step in progress cannot be divided");
    generation_end_sums(trainer);
    generation_forget_step(trainer);
}

/* A generation that begins from memory may begin within a step. */
static int begin_engine(struct trainer *trainer, unsigned rank, bool again, struct error *error)
{
    const struct step_agreement agreement = {.mesh = trainer->links.mesh,
                                             .plan = trainer->plan,
                                             .rank = rank,
                                             .state = trainer->state,
                                             .begins = !again};
    AUTO_FREE struct step_division *division = NULL;

    if (trainer->plan->start.source != PLAN_SOURCE_MEMORY) {
        trainer->commit.before_ns = 0;
        return make_engine(trainer, rank, NULL, error);
    }
    division = malloc(sizeof(*division));
    if (!division)
        return error_set(error, -ENOMEM, "no memory to divide a step");
    int status = step_agreement_run(&agreement, &trainer->kept, &trainer->sums, division, error);
    if (status && status != -ECONNRESET && status != -ETIMEDOUT)
        give_up_step(trainer); /* the same facts would fail again */
    if (status)
        return status;
    if (!division->step) {
        generation_forget_step(trainer);
        trainer->commit.before_ns = 0;
    }
    tell_division(trainer, rank, division);
    return make_engine(trainer, rank, division, error);
}

/* The data digest behind the state is binding from the first step on. */
static int agree_on_data(struct trainer *trainer, unsigned rank, struct error *error)
{
    struct state *state = trainer->state;
    uint64_t digest = dataset_digest(trainer->dataset).low;
    int status = data_agreement_run(trainer->links.mesh, &trainer->plan->layout, rank, digest,
                                    state->applied_step ? state->data_digest : 0, error);

    if (!status)
        state->data_digest = digest;
    return status;
}

/* On GPUs libraries choose the algorithms. Unlike devices may share a job that allows it. */
static int agree_on_numerics(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct slot_device *slot = &trainer->device;

    if (slot->kernel->host_memory || trainer->spec.elastic.mixed_devices)
        return 0;
    AUTO_FREE char *description = malloc(NUMERICS_DESCRIPTION_SIZE);
    if (!description)
        return error_set(error, -ENOMEM, "no memory to compare algorithms");
    slot->kernel->describe(slot->device, description, NUMERICS_DESCRIPTION_SIZE);
    return numerics_agreement_run(trainer->links.mesh, &trainer->plan->layout, rank, description,
                                  slot->has_trained, error);
}

/* Open the metrics, with the lines of the run before the generation. */
static int open_metrics(struct trainer *trainer, unsigned rank, struct error *error)
{
    struct error metrics_error = {0};

    if (metrics_writer_open(trainer, rank, &metrics_error))
        status_report_alarm(&trainer->report, ALARM_METRICS, metrics_error.text);
    return metrics_writer_exchange_histories(trainer, rank, error);
}

/* @again: over new links of a generation that has begun long ago */
static int open_session(struct trainer *trainer, unsigned rank, bool again, struct error *error)
{
    int status = agree_on_data(trainer, rank, error);

    if (!status && !again)
        status = open_metrics(trainer, rank, error);
    if (!status)
        status =
            snapshot_reserve(trainer->checkpoints.snapshot, &trainer->plan->layout, rank, error);
    if (status)
        return status;
    const struct routes_options routes = {
        .mesh = trainer->links.mesh,
        .plan = trainer->plan,
        .rank = rank,
        .kernel = trainer->device.kernel,
        .device = trainer->device.device,
        .nccl = &trainer->device.nccl,
        .failure_timeout_ns = trainer->options->failure_timeout_ns,
    };
    status = routes_open(&routes, &trainer->links.routes, error);
    if (status)
        return status;
    checkpoint_calendar_begin(&trainer->checkpoints.calendar, &trainer->spec, trainer->plan,
                              trainer->state->applied_step);
    status = begin_engine(trainer, rank, again, error);
    if (!status)
        status = agree_on_numerics(trainer, rank, error);
    trainer->commit.first = true;
    trainer->checkpoints.unanswered = 0;
    memset(&trainer->checkpoints.writers, 0, sizeof(trainer->checkpoints.writers));
    checkpoint_vote_close(&trainer->checkpoints.vote);
    return status;
}

int session_open(struct trainer *trainer, unsigned rank, struct error *error)
{
    return open_session(trainer, rank, false, error);
}

/* ---- after a commit ---- */

static void look_after_checkpoint(struct trainer *trainer, const struct step_commit_down *down)
{
    const struct state *state = trainer->state;
    struct error error = {0};

    checkpoint_duty_take_reports(&trainer->checkpoints, down);
    checkpoint_duty_give_up(trainer, down->checkpoint_failed);
    snapshot_commit(trainer->checkpoints.snapshot, down->checkpoint_durable);
    snapshot_all_told(trainer->checkpoints.snapshot, down->checkpoint_durable);
    if (trainer->engine->part.rank == 0)
        status_report_checkpoint(trainer, false);
    else if (down->checkpoint_durable > down->checkpoint_failed &&
             snapshot_settled(trainer->checkpoints.snapshot) &&
             !snapshot_sits_out(trainer->checkpoints.snapshot))
        status_report_alarm(&trainer->report, ALARM_CHECKPOINT, "");
    if (!checkpoint_calendar_due(&trainer->checkpoints.calendar, state->applied_step) ||
        down->switch_generation)
        return;
    if (down->checkpoint_busy) {
        checkpoint_calendar_left_out(&trainer->checkpoints.calendar, state->applied_step);
    } else {
        checkpoint_writers_begin(&trainer->checkpoints.writers, trainer->plan, state->applied_step);
        checkpoint_duty_begin_vote(trainer);
    }
    int status = down->checkpoint_busy ? -EBUSY : checkpoint_duty_begin(trainer, &error);
    if (status == -EBUSY)
        checkpoint_duty_tell_busy(trainer);
    else if (status)
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &error);
}

static void tell_thaw(struct trainer *trainer, unsigned frozen_before)
{
    const struct freeze_state *freeze = &trainer->state->freeze;
    unsigned frozen = freeze->frozen_layers;
    double above = freeze->last_validation / freeze->best_validation - 1;
    char layers[48], loss[48] = "not a number", text[320];

    if (frozen_before - frozen > 1)
        snprintf(layers, sizeof(layers), "layers %u-%u train", frozen, frozen_before - 1);
    else
        snprintf(layers, sizeof(layers), "layer %u trains", frozen);
    if (isfinite(above))
        snprintf(loss, sizeof(loss), "%.3g %% above its best", 100 * above);
    snprintf(text, sizeof(text),
             "%s again from step %" PRIu64
             " on (%u of %u are frozen): the validation loss is %s, and elastic.freeze.thaw is %g",
             layers, trainer->state->applied_step + 1, frozen, trainer->spec.model.layers, loss,
             trainer->spec.elastic.freeze.thaw);
    status_report_event(trainer, text);
}

static void tell_freeze(struct trainer *trainer, unsigned frozen_before)
{
    unsigned frozen = trainer->state->freeze.frozen_layers;
    char text[256];

    if (frozen - frozen_before > 1)
        snprintf(text, sizeof(text), "layers %u-%u frozen at step %" PRIu64 " (%u of %u)",
                 frozen_before, frozen - 1, trainer->state->applied_step, frozen,
                 trainer->spec.model.layers);
    else
        snprintf(text, sizeof(text), "layer %u frozen at step %" PRIu64 " (%u of %u)",
                 frozen_before, trainer->state->applied_step, frozen, trainer->spec.model.layers);
    status_report_event(trainer, text);
}

static void tell_frozen(struct trainer *trainer, unsigned frozen_before)
{
    unsigned frozen = trainer->state->freeze.frozen_layers;

    if (trainer->engine->part.rank != 0 || frozen == frozen_before)
        return;
    if (frozen < frozen_before)
        tell_thaw(trainer, frozen_before);
    else
        tell_freeze(trainer, frozen_before);
}

/* Rank 0 reports, and all ranks count: the next generation may have another rank 0. */
static void tell_divergence(struct trainer *trainer)
{
    const char *text = divergence_alarm(&trainer->commit.divergence, &trainer->state->committed);

    status_report_alarm(&trainer->report, ALARM_DIVERGENCE,
                        trainer->engine->part.rank == 0 ? text : "");
}

/* ---- the step ---- */

/* Return the time by which layouts are judged: a step less this rank's part of its evaluation. */
static uint64_t without_evaluation(const struct trainer *trainer, uint64_t step_ns)
{
    uint64_t evaluation_ns = trainer->engine->timing.evaluation_ns;

    return step_ns > evaluation_ns ? step_ns - evaluation_ns : step_ns;
}

static void measure_pause(struct trainer *trainer, uint64_t now_ns)
{
    char text[PLAN_REASON_SIZE + 160], words[LAYOUT_WORDS_SIZE], layout[LAYOUT_WORDS_SIZE + 4] = "";
    char pause[40] = "begins"; /* these workers know of no earlier step */
    const struct plan *plan = trainer->plan;

    if (!trainer->commit.first)
        return;
    if (trainer->commit.last_ns)
        recorder_add_kind(trainer->recorder, trainer->commit.last_ns, TRACE_PAUSE,
                          trainer->state->applied_step + 1);
    trainer->report.pause_seconds =
        trainer->commit.last_ns ? (double)(now_ns - trainer->commit.last_ns) / 1e9 : 0;
    if (plan->change.planned)
        trainer->commit.switch_seconds = trainer->report.pause_seconds;
    if (trainer->engine->part.rank != 0)
        return;
    plan_layout_words(plan->layout.stage_count, plan->layout.replica_count, words);
    if (!plan_says_layout(plan)) /* most reasons name the layout */
        snprintf(layout, sizeof(layout), "%s, ", words);
    if (trainer->commit.last_ns)
        snprintf(pause, sizeof(pause), "pause %.0f ms", trainer->report.pause_seconds * 1e3);
    snprintf(text, sizeof(text), "generation %" PRIu64 " (%s): %s%s", plan->generation,
             plan->change.text, layout, pause);
    status_report_event(trainer, text);
}

/* After the first step of a generation: count its waits for state as a part of the pause. */
static void add_wait(struct trainer *trainer)
{
    double seconds = (double)trainer->engine->arrivals.waited_ns / 1e9;
    char text[128];

    trainer->report.pause_seconds += seconds;
    if (trainer->plan->change.planned)
        trainer->commit.switch_seconds += seconds;
    if (seconds < WAIT_TOLD_SECONDS)
        return;
    snprintf(text, sizeof(text),
             "the first step of generation %" PRIu64 " waited %.2f s for state of other workers",
             trainer->plan->generation, seconds);
    if (trainer->engine->part.rank == 0)
        status_report_event(trainer, text);
    else
        log_info("%s", text);
}

static bool is_permitted(const void *context)
{
    const struct trainer *trainer = context;

    return __atomic_load_n(&trainer->commands.held_generation, __ATOMIC_ACQUIRE) <
           trainer->commands.generation;
}

/* Wait for firnd's permission: firnd may be the only one that knows that the job was given away.
 * Another plan or an order to stop breaks the links and so ends the wait, too. */
static int await_permission(void *context)
{
    const struct trainer *trainer = context;

    return mesh_await(trainer->links.mesh, is_permitted, trainer) ? -ECONNRESET : 0;
}

static int commit_step(struct trainer *trainer, struct step_commit_down *down, struct error *error)
{
    struct state *state = trainer->state;
    AUTO_FREE struct step_commit_up *up = malloc(sizeof(*up));
    struct error share_error = {0};
    uint64_t announced = commands_ready_generation(trainer);
    const struct commit_root root = {
        .next = trainer->commands.pending.plan, .may_commit = await_permission, .context = trainer};
    int status;

    if (!up)
        return error_set(error, -ENOMEM, "no memory for a commit");
    if (checkpoint_duty_poll(trainer, 0, &share_error))
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &share_error);
    up->data_digest = dataset_digest(trainer->dataset).low;
    up->checkpoint_durable = snapshot_durable_step(trainer->checkpoints.snapshot);
    checkpoint_duty_report_share(&trainer->checkpoints, &trainer->engine->part, up);
    up->checkpoint_busy = checkpoint_duty_is_busy(trainer);
    readiness_init(&up->readiness, trainer->engine->part.rank, announced);
    up->busy_ns = trainer->engine->timing.busy_ns;
    up->record = state->hold;
    status = commit_agreement_run(trainer, false, up, &root, down, error);
    if (!status && trainer->commit.straggler)
        straggler_step(trainer->commit.straggler, down->busy_ns);
    return status && !error->code
               ? error_set(error, status, "the links broke while step %" PRIu64 " was committed",
                           state->hold.step)
               : status;
}

/* Run a round without a step, in which all units are compared. */
static int compare_all(struct trainer *trainer, struct error *error)
{
    const struct engine *engine = trainer->engine;
    const struct commit_root root = {0};
    AUTO_FREE struct step_commit_up *up = calloc(1, sizeof(*up));
    AUTO_FREE struct step_commit_down *down = malloc(sizeof(*down));

    if (!up || !down)
        return -ENOMEM;
    state_digest_run(engine->check, &engine->plan->layout, engine->part.rank, true);
    int status = trainer->device.kernel->synchronize(trainer->device.device, error);
    if (status)
        return status;
    step_record_init(&up->record, trainer->state->applied_step, 0, 0);
    up->data_digest = dataset_digest(trainer->dataset).low;
    return commit_agreement_run(trainer, true, up, &root, down, error);
}

/* A wrong bit in one replica may look like a run that diverges. That would end the job, so it is
 * accepted only when all replicas hold the same. */
static int check_divergence(struct trainer *trainer, const struct step_record *record,
                            struct error *error)
{
    struct error divergence = {0};

    if (!divergence_check(&trainer->spec.train, record, &divergence))
        return 0;
    int status = compare_all(trainer, error);
    if (!status)
        *error = divergence;
    return status ? status : divergence.code;
}

static int renew_engine(struct trainer *trainer, struct error *error)
{
    unsigned rank = trainer->engine->part.rank;

    if (!engine_stale(trainer->engine))
        return 0;
    reserve_end(trainer);
    engine_free(trainer->engine);
    trainer->engine = NULL;
    int status = make_engine(trainer, rank, NULL, error);
    assert(status || trainer->engine);
    return status;
}

/* Agree on the step that this worker holds. */
static int agree(struct trainer *trainer, struct step_commit_down *down, struct error *error)
{
    uint64_t began_ns = clock_monotonic_ns();
    int status = commit_step(trainer, down, error);

    if (!status)
        status = check_divergence(trainer, &down->record, error);
    if (!status)
        status = generation_confirm(trainer);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_COMMIT, trainer->state->hold.step);
    return status;
}

/* Compute the next step to its end, and apply it. */
static int advance(struct trainer *trainer, struct step_commit_down *down, struct error *error)
{
    uint64_t step = trainer->state->applied_step + 1, began_ns = clock_monotonic_ns();
    int status = engine_compute(trainer->engine, error);

    if (!status)
        status_report_running(trainer);
    if (!status)
        status = agree(trainer, down, error);
    if (!status)
        generation_apply(trainer, &down->record);
    recorder_add(
        trainer->recorder, began_ns,
        (struct trace_span){
            .kind = TRACE_STEP, .step = step, .lane = TRACE_NO_LANE, .broken = status != 0});
    return status;
}

/* Return the time that a whole step takes in this generation, of which the last one, which took
 * @part_ns, may have been a part only: of a small part the plan knows better. */
static uint64_t whole_step_ns(const struct trainer *trainer, uint64_t part_ns)
{
    const struct step_division *division = trainer->engine->share.division;
    unsigned all = division->lanes * division->micro_batches, left = all;
    double expected = plan_layout_expected_seconds(&trainer->plan->layout);
    uint64_t waited_ns = MIN(trainer->engine->arrivals.waited_ns, part_ns);

    if (division->step == trainer->state->applied_step)
        left = step_division_left(division, UINT_MAX);
    if (left == all)
        return part_ns;
    if (left * PART_LEAST >= all)
        return (uint64_t)((double)(part_ns - waited_ns) / left * all);
    return expected > 0 ? (uint64_t)(expected * 1e9) : part_ns + trainer->commit.before_ns;
}

static int run_step(struct trainer *trainer, struct step_commit_down *down, struct error *error)
{
    unsigned frozen_before = trainer->state->freeze.frozen_layers;
    uint64_t began_ns = clock_monotonic_ns();
    bool first = trainer->commit.first;
    int status = renew_engine(trainer, error);

    trainer->commit.began_ns = began_ns;
    if (!status) {
        measure_pause(trainer, began_ns);
        step_watch_begin(trainer);
        status = advance(trainer, down, error);
    }
    if (status)
        return status;
    if (first)
        add_wait(trainer);
    trainer->commit.last_ns = clock_monotonic_ns();
    uint64_t part_ns = trainer->commit.last_ns - began_ns;
    uint64_t whole_ns = whole_step_ns(trainer, without_evaluation(trainer, part_ns));
    trainer->metrics.last_step_ns = part_ns + trainer->commit.before_ns;
    trainer->commit.before_ns = 0;
    step_watch_end(trainer, whole_ns);
    if (!metrics_writer_waits(trainer))
        metrics_writer_record(trainer, trainer->metrics.last_step_ns, down->slowest);
    status_report_progress(trainer, whole_ns,
                           down->switch_generation != 0 ||
                               trainer->state->freeze.frozen_layers != frozen_before ||
                               trainer->state->applied_step == trainer->spec.train.steps);
    tell_frozen(trainer, frozen_before);
    tell_divergence(trainer);
    recorder_add_kind(trainer->recorder, trainer->commit.last_ns, TRACE_METRICS,
                      trainer->state->applied_step);
    look_after_checkpoint(trainer, down);
    return 0;
}

/* @slowest: of the last step, NULL where this generation began after it */
static int evaluate_last(struct trainer *trainer, const struct straggler_stage *slowest,
                         struct error *error)
{
    int status = renew_engine(trainer, error);

    if (status)
        return status;
    measure_pause(trainer, clock_monotonic_ns());
    return session_evaluate_last(trainer, slowest, error);
}

/* Link the ranks again, and write the state of the boundary before a step or an evaluation that was
 * left. */
static enum session_outcome finish_early(struct trainer *trainer, struct error *error)
{
    unsigned rank = trainer->engine->part.rank;

    reserve_end(trainer);
    int status = generation_rejoin(trainer, rank, trainer->commands.pending.plan, error);
    if (!status)
        status = open_session(trainer, rank, true, error);
    if (!status)
        return session_finish(trainer, SESSION_LEFT, error);
    if (!error->code)
        error_set(error, status, "the links for the last checkpoint: %s", strerror(-status));
    return commands_stopping(&trainer->commands) ? SESSION_STOPPED : SESSION_BROKEN;
}

/* A step or the last evaluation was left: for a plan that is to begin at once, or for a failure.
 * All ranks computed until now, so the pause begins here even if sums are lost. */
static void leave(struct trainer *trainer, struct stay *stay, int status, struct error *error)
{
    trainer->commit.stopped_ns = clock_monotonic_ns();
    if (stay->action == STAY_STEP)
        trainer->commit.before_ns += trainer->commit.stopped_ns - trainer->commit.began_ns;
    trainer->commit.turn_ns =
        trainer->engine ? engine_turn_ns(&trainer->engine->timing, trainer->commit.stopped_ns) : 0;
    stay_left(stay,
              status == -ECONNRESET ? step_watch_switch(trainer, trainer->state->hold.step) : 0);
    if (stay->action == STAY_AWAIT_PLAN) {
        error_clear(error);
        trainer->commit.last_ns = trainer->commit.stopped_ns;
    } else if (!error->code) {
        error_set(error, status, "step %" PRIu64 " failed: %s", trainer->state->applied_step + 1,
                  strerror(-status));
    }
}

static void await_plan(struct trainer *trainer, struct stay *stay, struct error *error)
{
    stay_has_plan(stay, commands_announced_plan(trainer, stay->announced));
    if (stay->action == STAY_BREAK)
        error_set(error, -ETIMEDOUT,
                  "the plan of generation %" PRIu64 ", announced at step %" PRIu64
                  ", did not arrive from firnd",
                  stay->announced, trainer->state->applied_step);
}

static enum session_outcome end(struct trainer *trainer, const struct stay *stay,
                                struct error *error)
{
    bool leaves_early = stay->action == STAY_FINISH_EARLY || stay->action == STAY_LEAVE;

    if (commands_stopping(&trainer->commands) && !stay_ends_job(stay))
        return SESSION_STOPPED;
    if (leaves_early && metrics_writer_waits(trainer))
        session_write_last_line(trainer, NULL);
    switch (stay->action) {
    case STAY_SWITCH:
        return SESSION_SWITCH;
    case STAY_FINISH:
        return session_finish(trainer, stay_ends_job(stay) ? SESSION_FINISHED : SESSION_LEFT,
                              error);
    case STAY_FINISH_EARLY:
        return finish_early(trainer, error);
    case STAY_LEAVE:
        return SESSION_LEFT;
    default:
        return SESSION_BROKEN;
    }
}

/* Carry out the next action of the stay. Return 0, or the error by which it was left. */
static int act(struct trainer *trainer, struct stay *stay, struct step_commit_down *down,
               struct error *error)
{
    int status = 0;

    switch (stay->action) {
    case STAY_STEP:
        status = run_step(trainer, down, error);
        if (status)
            return status;
        trainer->commit.stopped_ns = clock_monotonic_ns();
        stay_stepped(stay, down->switch_generation);
        return 0;
    case STAY_EVALUATE:
        status = evaluate_last(trainer, stay->stepped ? down->slowest : NULL, error);
        if (!status)
            stay_evaluated(stay);
        return status;
    default:
        await_plan(trainer, stay, error);
        return 0;
    }
}

enum session_outcome session_train(struct trainer *trainer, struct error *error)
{
    AUTO_FREE struct step_commit_down *down = malloc(sizeof(*down));
    struct stay stay;

    if (!down) {
        error_set(error, -ENOMEM, "no memory for a commit");
        return SESSION_BROKEN;
    }
    trainer->metrics.final_known = false;
    trainer->metrics.last_step_ns = 0;
    trainer->watch.last_ns = 0;
    stay_begin(&stay, trainer->plan, trainer->state->applied_step, trainer->spec.train.steps,
               trainer->spec.evaluate.every > 0);
    while (stay.action <= STAY_AWAIT_PLAN) {
        if (stay.action == STAY_STEP)
            commands_take(trainer, 0);
        if (stay.action == STAY_STEP && commands_stopping(&trainer->commands))
            return SESSION_STOPPED;
        int status = act(trainer, &stay, down, error);
        if (status)
            leave(trainer, &stay, status, error);
    }
    return end(trainer, &stay, error);
}
