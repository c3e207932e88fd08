#include "daemon/jobs/job_progress.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/core/daemon.h"
#include "daemon/core/outbox.h"
#include "daemon/jobs/job.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"

static void take_stragglers(const struct control_progress *progress, struct progress_record *record)
{
    record->straggler_count = MIN(progress->judgement_count, (unsigned)RECORD_STRAGGLERS_MAX);
    for (unsigned i = 0; i < record->straggler_count; i++) {
        record->stragglers[i].rank = progress->judgements[i].rank;
        record->stragglers[i].speed = progress->judgements[i].speed;
    }
}

/* Take the layout of the progress's generation, which trains on while a planned change waits. */
static void take_layout(const struct job_plans *plans, struct progress_record *record)
{
    const struct job_plan_before *before = &plans->before;

    if (plans->plan && plans->plan->generation == record->generation) {
        record->stages = plans->plan->layout.stage_count;
        record->replicas = plans->plan->layout.replica_count;
        record->workers = plans->plan->layout.worker_count;
    } else if (before->generation == record->generation) {
        record->stages = before->stages;
        record->replicas = before->replicas;
        record->workers = before->workers;
    }
}

bool job_progress_is_of_root(const struct job *job, unsigned slot)
{
    const struct plan *plan = job->plans.plan;
    const struct worker_report *status = &job->workers.statuses[slot];
    uint64_t generation = job->workers.progress[slot].generation;

    if (!plan)
        return false;
    if (plan->change.planned && generation == plan->follows)
        return status->root && status->generation == generation;
    return plan->layout.worker_count > 0 &&
           plan_layout_find(&plan->layout, job->daemon->config->node, slot) == 0;
}

void job_progress_write(struct job *job, unsigned slot)
{
    const struct control_progress *progress = &job->workers.progress[slot];
    struct daemon *daemon = job->daemon;
    char key[KV_KEY_MAX];
    struct progress_record record = {
        .generation = progress->generation,
        .step = progress->step,
        .steps = job->spec.train.steps,
        .frozen_layers = progress->frozen_layers,
        .kept_units = progress->kept.unit_count,
        .kept_share = progress->kept.share,
        .loss = progress->loss,
        .grad_norm = progress->grad_norm,
        .validation_loss = progress->validation_loss,
        .step_seconds = progress->step_seconds,
        .tokens_per_second = progress->tokens_per_second,
        .pause_seconds = progress->pause_seconds,
        .checkpoint_step = job->record.step,
        .unix_ns = clock_unix_ns(),
    };

    job->workers.progress_written_ns = clock_monotonic_ns();
    take_layout(&job->plans, &record);
    take_stragglers(progress, &record);
    snprintf(record.alarm, sizeof(record.alarm), "%s", slot_alarms_shown(&job->workers.alarms));
    AUTO_JSON json_t *tree = progress_record_encode(&record);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    if (!text || outbox_put(daemon->keys.outbox,
                            keys_said(key, daemon->config->cluster, job->name, "progress"), text))
        log_error("no memory to write progress");
}
