#include "protocol/checkpoint_progress.h"

bool checkpoint_progress_may_begin(const struct checkpoint_progress *progress)
{
    return !progress->writes && !progress->keeps &&
           !(progress->begun.has_copies && progress->commits);
}

void checkpoint_progress_begin(struct checkpoint_progress *progress,
                               const struct checkpoint_begin *begin)
{
    progress->begun = *begin;
    progress->writes = !begin->sits_out;
    if (begin->sits_out)
        progress->durable = begin->step;
}

static bool is_committed(const struct checkpoint_progress *progress)
{
    return progress->begun.step == progress->committed &&
           progress->begun.generation == progress->committed_generation;
}

bool checkpoint_progress_is_abandoned(const struct checkpoint_progress *progress)
{
    return progress->begun.step && progress->begun.step == progress->abandoned;
}

/* True while a step was begun, and rank 0 does not know its outcome yet. */
static bool is_open(const struct checkpoint_progress *progress)
{
    return progress->begun.step && !is_committed(progress) &&
           !checkpoint_progress_is_abandoned(progress) && progress->begun.step != progress->failed;
}

bool checkpoint_progress_is_busy(const struct checkpoint_progress *progress)
{
    return !checkpoint_progress_may_begin(progress) ||
           (progress->begun.has_copies && progress->begun.rank == 0 && is_open(progress));
}

bool checkpoint_progress_is_settled(const struct checkpoint_progress *progress)
{
    return !progress->writes && !progress->keeps && !progress->commits;
}

bool checkpoint_progress_is_unable(const struct checkpoint_progress *progress)
{
    return progress->unable && progress->unable == progress->failed;
}

static void note(struct checkpoint_progress *progress, enum checkpoint_outcome outcome)
{
    if (outcome == CHECKPOINT_OUTCOME_DONE)
        return;
    progress->failed = progress->begun.step;
    if (outcome == CHECKPOINT_OUTCOME_UNABLE && !checkpoint_progress_is_abandoned(progress))
        progress->unable = progress->begun.step;
}

bool checkpoint_progress_share_ended(struct checkpoint_progress *progress,
                                     enum checkpoint_outcome outcome)
{
    progress->writes = false;
    if (outcome == CHECKPOINT_OUTCOME_DONE)
        progress->durable = progress->begun.step;
    note(progress, outcome);
    return outcome != CHECKPOINT_OUTCOME_DONE && !checkpoint_progress_is_abandoned(progress);
}

void checkpoint_progress_copies_ended(struct checkpoint_progress *progress,
                                      enum checkpoint_outcome outcome)
{
    progress->keeps = false;
    note(progress, outcome);
}

void checkpoint_progress_commit_ended(struct checkpoint_progress *progress, uint64_t step,
                                      uint64_t generation, bool is_done)
{
    progress->commits = false;
    if (is_done) {
        progress->committed = step;
        progress->committed_generation = generation;
    } else if (step == progress->begun.step) {
        progress->failed = step;
    }
}

enum checkpoint_work checkpoint_progress_start(struct checkpoint_progress *progress,
                                               uint64_t durable_step)
{
    const struct checkpoint_begin *begun = &progress->begun;

    if (!durable_step || durable_step != begun->step || durable_step == progress->failed ||
        progress->commits || is_committed(progress) || checkpoint_progress_is_abandoned(progress))
        return CHECKPOINT_WORK_NONE;
    if (begun->rank == 0) {
        progress->commits = true;
        return CHECKPOINT_WORK_COMMIT;
    }
    if (!begun->has_copies || !begun->is_keeper || progress->kept == begun->step)
        return CHECKPOINT_WORK_NONE;
    progress->kept = begun->step;
    progress->keeps = true;
    return CHECKPOINT_WORK_KEEP;
}

void checkpoint_progress_not_started(struct checkpoint_progress *progress,
                                     enum checkpoint_work work)
{
    if (work == CHECKPOINT_WORK_COMMIT)
        progress->commits = false;
    else
        progress->keeps = false;
    if (progress->begun.has_copies)
        progress->failed = progress->begun.step;
}

bool checkpoint_progress_abandon(struct checkpoint_progress *progress, uint64_t failed_step)
{
    if (!failed_step || failed_step != progress->begun.step ||
        checkpoint_progress_is_abandoned(progress))
        return false;
    progress->abandoned = failed_step;
    return progress->begun.rank == 0 || progress->begun.has_copies;
}

void checkpoint_progress_end_copies(struct checkpoint_progress *progress)
{
    progress->begun.has_copies = progress->keeps = false;
}

void checkpoint_progress_forget(struct checkpoint_progress *progress)
{
    const struct checkpoint_progress left = {.writes = progress->writes,
                                             .keeps = progress->keeps,
                                             .commits = progress->commits,
                                             .committed = progress->committed,
                                             .committed_generation =
                                                 progress->committed_generation};
    *progress = left;
}
