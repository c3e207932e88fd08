#include "ctl/job/job_risk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "checkpoint/format/folder_marks.h"
#include "ctl/view/format.h"

struct job_risk job_risk(const struct cluster_job *job, uint64_t now_unix_ns)
{
    struct job_risk risk = {.lost_seconds = NAN};
    uint64_t step = job->has_progress ? job->progress.step : 0, durable_step = 0;

    risk.durable = cluster_sound_checkpoint(job);
    risk.all_damaged = !risk.durable && job->checkpoint_count > 0;
    if (risk.durable) {
        durable_step = risk.durable->step;
        risk.durable_age_seconds = now_unix_ns > risk.durable->unix_ns
                                       ? (double)(now_unix_ns - risk.durable->unix_ns) / 1e9
                                       : 0;
    }
    for (size_t i = 0; i < job->checkpoint_count && !risk.verified; i++)
        if (!job->checkpoints[i].damaged[0] && checkpoint_verified(job->checkpoints[i].path))
            risk.verified = &job->checkpoints[i];
    risk.lost_steps = step > durable_step ? step - durable_step : 0;
    if (risk.lost_steps == 0)
        risk.lost_seconds = 0;
    else if (job->progress.step_seconds > 0)
        risk.lost_seconds = (double)risk.lost_steps * job->progress.step_seconds;
    return risk;
}

static json_t *step_or_null(const struct checkpoint_record *record)
{
    return record ? json_integer((json_int_t)record->step) : json_null();
}

json_t *job_risk_json(const struct job_risk *risk)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "lost_steps", (json_int_t)risk->lost_steps,
                     "lost_seconds",
                     isfinite(risk->lost_seconds) ? json_real(risk->lost_seconds) : json_null(),
                     "durable_step", step_or_null(risk->durable), "durable_age_seconds",
                     risk->durable ? json_real(risk->durable_age_seconds) : json_null(),
                     "verified_step", step_or_null(risk->verified));
}

void job_risk_print(const struct job_risk *risk)
{
    char seconds[FORMAT_SIZE], age[FORMAT_SIZE], verified[64] = "none is verified";

    if (risk->lost_steps)
        printf("at risk     %" PRIu64 " step%s, %s of computing, if every process died now\n",
               risk->lost_steps, risk->lost_steps == 1 ? "" : "s",
               format_duration(risk->lost_seconds, seconds));
    else
        printf("at risk     nothing: the newest checkpoint has the newest step\n");
    if (risk->verified)
        snprintf(verified, sizeof(verified), "verified: step %" PRIu64, risk->verified->step);
    if (risk->durable)
        printf("durable     step %" PRIu64 ", %s ago; %s\n", risk->durable->step,
               format_duration(risk->durable_age_seconds, age), verified);
    else
        printf("durable     nothing: there is no %scheckpoint%s\n",
               risk->all_damaged ? "sound " : "", risk->all_damaged ? "" : " yet");
}
