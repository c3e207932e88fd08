/* Format the text of `watch` about a job at one moment: one line, or a picture of several lines. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/cluster/layout.h"
#include "ctl/report/watch.h"
#include "ctl/view/format.h"
#include "ctl/view/terminal.h"
#include "elastic/job/job_spec.h"

#define NUMBERS_SIZE 256

/* Format "loss 2.3456  val 2.4012  12.3k tokens/s  1m 20s left", or "... as of 40s ago" if etcd has
 * nothing newer. */
static void describe_numbers(const struct cluster_job *job, char *text, size_t size)
{
    const struct progress_record *progress = &job->progress;
    double age = cluster_job_word_age(job, clock_unix_ns());
    char loss[FORMAT_SIZE], val[FORMAT_SIZE], rate[FORMAT_SIZE], left[FORMAT_SIZE];
    uint64_t steps = job->spec->train.steps;
    double steps_left = (double)(steps - MIN(progress->step, steps));
    int used = snprintf(text, size, "loss %s", format_loss(progress->loss, loss));

    if (!isnan(progress->validation_loss))
        used += snprintf(text + used, size - (size_t)used, "  val %s",
                         format_loss(progress->validation_loss, val));
    if (age > 0)
        used += snprintf(text + used, size - (size_t)used, "  as of %s ago",
                         format_duration(age, left));
    if (age > 0 || cluster_job_over(job) || isnan(progress->step_seconds))
        return;
    snprintf(text + used, size - (size_t)used, "  %s tokens/s  %s left",
             format_count(progress->tokens_per_second, rate),
             format_duration(progress->step_seconds * steps_left, left));
}

/* Append "step 120/400  loss 2.3456  ...", without a newline. */
static int append_numbers(const struct cluster_job *job, struct bytes *into)
{
    const struct progress_record *progress = &job->progress;
    char numbers[NUMBERS_SIZE], layout[LAYOUT_WORDS_SIZE];

    describe_numbers(job, numbers, sizeof(numbers));
    return bytes_append_format(into, "step %" PRIu64 "/%" PRIu64 "  %s  %s  frozen %u/%u",
                               progress->step, job->spec->train.steps, numbers,
                               layout_words(job->plan, layout), progress->frozen_layers,
                               job->spec->model.layers);
}

int watch_line(const struct cluster_job *job, struct bytes *into)
{
    const char *alarm = job->progress.alarm;
    int status = append_numbers(job, into);

    return status ? status
                  : bytes_append_format(into, "%s%s\n", alarm[0] ? "  ALARM: " : "", alarm);
}

/* Append the alarm on its own line: behind the numbers a narrow terminal would cut it off. */
static int append_alarm(const struct cluster_job *job, struct bytes *into)
{
    return job->progress.alarm[0]
               ? bytes_append_format(into, "  %sALARM %s%s\n", terminal_color(TERMINAL_RED),
                                     job->progress.alarm, terminal_color(TERMINAL_PLAIN))
               : 0;
}

static enum terminal_color state_color(const struct cluster_job *job)
{
    const char *state = cluster_job_state(job);

    if (!strcmp(state, "running") || !strcmp(state, "completed"))
        return TERMINAL_GREEN;
    return !strcmp(state, "failed") ? TERMINAL_RED : TERMINAL_YELLOW;
}

int watch_brief(const struct cluster_job *job, struct bytes *into)
{
    const char *state = cluster_job_state(job);
    bool over = cluster_job_over(job);

    if (over && strcmp(state, "failed"))
        return 0;
    int status =
        bytes_append_format(into, "%s%s%s %s%s%s  ", terminal_color(TERMINAL_BOLD), job->name,
                            terminal_color(TERMINAL_PLAIN), terminal_color(state_color(job)), state,
                            terminal_color(TERMINAL_PLAIN));
    if (!status && !strcmp(state, "running") && job->has_progress)
        status = append_numbers(job, into);
    else if (!status)
        status = bytes_append_format(into, "%s", job->state.text);
    if (!status)
        status = bytes_append_format(into, "\n");
    return status || over ? status : append_alarm(job, into);
}

static int append_progress(const struct cluster_job *job, struct bytes *into)
{
    const struct progress_record *progress = &job->progress;
    char bar[FORMAT_BAR_SIZE], numbers[NUMBERS_SIZE];
    double share = (double)progress->step / (double)MAX(job->spec->train.steps, 1ul);

    describe_numbers(job, numbers, sizeof(numbers));
    int status = bytes_append_format(into, "  │%s│ %3.0f %%  step %" PRIu64 "/%" PRIu64 "  %s\n",
                                     format_bar(share, bar), floor(share * 100), progress->step,
                                     job->spec->train.steps, numbers);
    return status ? status : append_alarm(job, into);
}

int watch_picture(const struct cluster_job *job, struct bytes *into)
{
    const struct progress_record *progress = &job->progress;
    char words[LAYOUT_WORDS_SIZE];
    int status = bytes_append_format(into, "\n%s%s%s  %s%s%s  %s\n", terminal_color(TERMINAL_BOLD),
                                     job->name, terminal_color(TERMINAL_PLAIN),
                                     terminal_color(state_color(job)), cluster_job_state(job),
                                     terminal_color(TERMINAL_PLAIN), job->state.text);

    if (!status && job->has_progress)
        status = append_progress(job, into);
    if (status || cluster_job_over(job) || !job->plan || !job->plan->layout.worker_count)
        return status;
    status = layout_waits_append(job, "  generation ", into);
    if (status)
        return status;
    status = bytes_append_format(into, "  generation %" PRIu64 ": %s, %u of %u layers frozen",
                                 job->plan->generation, layout_words(job->plan, words),
                                 progress->frozen_layers, job->spec->model.layers);
    if (!status && progress->checkpoint_step)
        status =
            bytes_append_format(into, ", checkpoint of step %" PRIu64, progress->checkpoint_step);
    if (!status)
        status = bytes_append_format(into, "\n");
    return status ? status : layout_append(job->plan, progress->frozen_layers, 2, into);
}
