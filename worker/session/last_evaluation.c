/*
 * The validation loss of the finished model. An evaluation at step s measures the parameters before
 * step s, so the parameters after the last step need an evaluation of their own. All ranks take
 * part, as in a step, and the sums are added in the same order: the value has the same bits on
 * every layout.
 *
 * The value belongs to the line of the last step, which is therefore written only now. If the links
 * break before, the next generation evaluates again. If all nodes must go, the line is written
 * without the value: the model is saved, and the job is complete.
 */
#include <errno.h>

#include "worker/session/commands.h"
#include "worker/session/commit_agreement.h"
#include "worker/session/generation.h"
#include "worker/session/metrics_writer.h"
#include "worker/session/session.h"
#include "worker/session/status_report.h"
#include "worker/session/step_watch.h"
#include "worker/session/trainer.h"
#include "worker/state/state_digest.h"
#include "worker/step/job_dataset.h"

/* The root has all parts: from now on some ranks may have the result, so no rank may leave. */
static void stop_looking(void *context)
{
    engine_look(context, false);
}

/* Run a round without a step: merge the ranks' parts of @record. */
static int merge(struct trainer *trainer, const struct step_record *record,
                 struct step_commit_down *down, struct error *error)
{
    AUTO_FREE struct step_commit_up *up = calloc(1, sizeof(*up));
    const struct commit_root root = {.gathered = stop_looking, .context = trainer->engine};

    if (!up)
        return error_set(error, -ENOMEM, "no memory for an evaluation");
    up->data_digest = dataset_digest(trainer->dataset).low;
    up->record = *record;
    return commit_agreement_run(trainer, true, up, &root, down, error);
}

/* Distribute the last step's results: a worker that joined after it does not have them. */
static int share_last_step(struct trainer *trainer, struct step_commit_down *down,
                           struct error *error)
{
    struct state *state = trainer->state;
    AUTO_FREE struct step_record *record = malloc(sizeof(*record));

    if (!record)
        return error_set(error, -ENOMEM, "no memory for an evaluation");
    if (state->committed.step == state->applied_step)
        *record = state->committed;
    else
        step_record_init(record, state->applied_step, state->unit_count, trainer->spec.train.lanes);
    int status = merge(trainer, record, down, error);
    if (!status && step_record_complete(&down->record))
        state->committed = down->record;
    return status;
}

static int evaluate(struct trainer *trainer, struct error *error)
{
    struct engine *engine = trainer->engine;
    AUTO_FREE struct step_commit_down *down = malloc(sizeof(*down));

    if (!down)
        return error_set(error, -ENOMEM, "no memory for an evaluation");
    step_watch_begin(trainer);
    int status = generation_finish_handover(trainer, error);
    if (status)
        return status;
    state_digest_run(engine->check, &engine->plan->layout, engine->part.rank, true);
    status = trainer->state->kernel->synchronize(trainer->state->device, error);
    if (!status)
        status = share_last_step(trainer, down, error);
    if (!status)
        status = generation_confirm(trainer);
    engine_look(engine,
                true); /* a rank may have nothing to evaluate, or be done long before others */
    if (!status)
        status = engine_evaluate(engine, error);
    if (!status)
        status = merge(trainer, &trainer->state->hold, down, error);
    engine_look(engine, false);
    if (status)
        return status;
    trainer->metrics.final_known = true;
    trainer->metrics.final_loss = step_record_validation_loss(
        &down->record, job_dataset_validation_counted(&trainer->spec.evaluate, &trainer->spec.train,
                                                      trainer->dataset));
    return 0;
}

bool session_write_last_line(struct trainer *trainer, const struct straggler_stage *slowest)
{
    const struct state *state = trainer->state;
    uint64_t step_ns = trainer->metrics.last_step_ns;

    trainer->metrics.last_step_ns = 0;
    if (state->committed.step != state->applied_step) /* restored: the checkpoint has the line */
        return false;
    metrics_writer_record(trainer, step_ns, slowest);
    return true;
}

int session_evaluate_last(struct trainer *trainer, const struct straggler_stage *slowest,
                          struct error *error)
{
    uint64_t step_ns = trainer->metrics.last_step_ns;
    int status = evaluate(trainer, error);

    if (status && !commands_stopping(&trainer->commands))
        return status;
    if (session_write_last_line(trainer, slowest) && !status)
        status_report_progress(trainer, MAX(step_ns, (uint64_t)1), true);
    return status;
}
