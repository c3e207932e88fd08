/* firnctl job list and show. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/size_words.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/layout.h"
#include "ctl/command/commands.h"
#include "ctl/job/job_hold.h"
#include "ctl/job/job_memory.h"
#include "ctl/job/job_risk.h"
#include "ctl/view/format.h"
#include "ctl/view/output.h"
#include "ctl/view/terminal.h"
#include "ctl/view/text_table.h"
#include "elastic/job/job_spec.h"

static const char *const wish_words[] = {
    [RECORD_RUNNING] = "running",
    [RECORD_PAUSED] = "paused",
    [RECORD_CANCELLED] = "cancelled",
};

/* ---- JSON ---- */

static int put(json_t *tree, const char *key, json_t *value)
{
    return json_object_set_new(tree, key, value) ? -ENOMEM : 0;
}

static json_t *checkpoints_json(const struct cluster_job *job)
{
    json_t *array = json_array();

    for (size_t i = 0; i < job->checkpoint_count && array; i++)
        if (json_array_append_new(array, checkpoint_record_encode(&job->checkpoints[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *job_json(const struct cluster_job *job, bool whole)
{
    json_t *tree =
        json_pack("{s:s, s:s, s:s, s:s, s:I}", "name", job->name, "state", cluster_job_state(job),
                  "text", job->state.text, "desired", wish_words[job->desired.wish], "steps",
                  (json_int_t)job->spec->train.steps);
    int status = tree ? 0 : -ENOMEM;

    if (!status && job->state.kept_until_unix_ns)
        status = put(tree, "kept_until_unix_ns",
                     json_integer((json_int_t)job->state.kept_until_unix_ns));
    if (!status && job->has_progress)
        status = put(tree, "progress", progress_record_encode(&job->progress));
    if (!status && job->plan)
        status = put(tree, "layout", plan_describe(job->plan));
    if (!status && whole)
        status = put(tree, "scale", desired_record_encode(&job->desired));
    if (!status && whole)
        status = put(tree, "spec", job_spec_encode(job->spec));
    if (!status && whole)
        status = put(tree, "checkpoints", checkpoints_json(job));
    if (!status && whole) {
        struct job_risk risk = job_risk(job, clock_unix_ns());
        status = put(tree, "risk", job_risk_json(&risk));
    }
    if (status) {
        json_decref(tree);
        return NULL;
    }
    return tree;
}

static int list_json(const struct cluster *cluster, struct error *error)
{
    json_t *jobs = json_array();

    for (size_t i = 0; i < cluster->job_count && jobs; i++)
        if (json_array_append_new(jobs, job_json(&cluster->jobs[i], false))) {
            json_decref(jobs);
            jobs = NULL;
        }
    return output_json(jobs ? json_pack("{s:o}", "jobs", jobs) : NULL, error);
}

/* ---- list ---- */

static bool runs(const struct cluster_job *job)
{
    return job->plan && job->plan->layout.worker_count && !cluster_job_over(job);
}

/* Return @text without the leading @layout, which has its own column. */
static const char *without_layout(const char *text, const char *layout)
{
    size_t length = strlen(layout);

    if (strncmp(text, layout, length))
        return text;
    if (!strncmp(text + length, ", ", 2) || !strncmp(text + length, "; ", 2))
        return text + length + 2;
    return text[length] ? text : "-";
}

static void add_row(struct text_table *table, const struct cluster_job *job)
{
    const struct progress_record *progress = &job->progress;
    char loss[FORMAT_SIZE], rate[FORMAT_SIZE], layout[LAYOUT_WORDS_SIZE];
    char date[FORMAT_SIZE], listed[FORMAT_SIZE + 32] = "";

    if (cluster_job_over(job) && job->state.kept_until_unix_ns)
        snprintf(listed, sizeof(listed), " (listed until %s)",
                 format_date(job->state.kept_until_unix_ns, date));
    text_table_cell(table, "%s", job->name);
    text_table_cell(table, "%s", cluster_job_state(job));
    text_table_cell(table, "%" PRIu64 "/%" PRIu64, progress->step, job->spec->train.steps);
    text_table_cell(table, "%s", format_loss(job->has_progress ? progress->loss : NAN, loss));
    text_table_cell(
        table, "%s",
        format_count(runs(job) && job->has_progress ? progress->tokens_per_second : NAN, rate));
    text_table_cell(table, "%u/%u", progress->frozen_layers, job->spec->model.layers);
    snprintf(layout, sizeof(layout), "-");
    if (cluster_job_change_waits(job) && progress->stages > 0)
        plan_layout_words(progress->stages, progress->replicas, layout);
    else if (runs(job))
        layout_words(job->plan, layout);
    text_table_cell(table, "%s", layout);
    text_table_cell(table, "%s%s%s%s", progress->alarm[0] ? "ALARM: " : "", progress->alarm,
                    progress->alarm[0] ? "" : without_layout(job->state.text, layout), listed);
}

static int list_table(const struct cluster *cluster, struct error *error)
{
    CLEANUP(text_table_done) struct text_table table = {0};

    if (!cluster->job_count) {
        printf("no jobs; firnctl job submit FILE adds one\n");
        return 0;
    }
    text_table_init(&table, "JOB|STATE|#STEP|#LOSS|#TOKENS/S|#FROZEN|LAYOUT|WHY");
    for (size_t i = 0; i < cluster->job_count; i++)
        add_row(&table, &cluster->jobs[i]);
    return text_table_print(&table) ? error_set(error, -ENOMEM, "no memory for the table") : 0;
}

static void warn_damage(const struct cluster *cluster)
{
    if (cluster->damaged)
        fprintf(stderr, "firnctl: %u keys cannot be read, first %s\n", cluster->damaged,
                cluster->damage);
}

int run_job_list(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    warn_damage(&cluster);
    return arguments_has(arguments, "json") ? list_json(&cluster, error)
                                            : list_table(&cluster, error);
}

/* ---- show ---- */

static void show_age(const struct cluster_job *job)
{
    double seconds = cluster_job_word_age(job, clock_unix_ns());
    char age[FORMAT_SIZE];

    if (seconds > 0)
        printf(
            "            %sas of %s ago: etcd has received no newer progress (see GET /v1/node of its nodes)%s\n",
            terminal_color(TERMINAL_RED), format_duration(seconds, age),
            terminal_color(TERMINAL_PLAIN));
}

static void show_progress(const struct cluster_job *job)
{
    const struct progress_record *progress = &job->progress;
    char loss[FORMAT_SIZE], validation[FORMAT_SIZE], step[FORMAT_SIZE], rate[FORMAT_SIZE];
    char left[FORMAT_SIZE];
    double steps_left =
        (double)(job->spec->train.steps - MIN(progress->step, job->spec->train.steps));

    printf("progress    step %" PRIu64 " of %" PRIu64 ", loss %s%s%s\n", progress->step,
           job->spec->train.steps, format_loss(progress->loss, loss),
           isnan(progress->validation_loss) ? "" : ", validation ",
           isnan(progress->validation_loss) ? ""
                                            : format_loss(progress->validation_loss, validation));
    show_age(job);
    if (runs(job))
        printf("speed       %s a step, %s tokens/s, about %s left\n",
               format_duration(progress->step_seconds, step),
               format_count(progress->tokens_per_second, rate),
               format_duration(progress->step_seconds * steps_left, left));
    printf("frozen      %u of %u layers\n", progress->frozen_layers, job->spec->model.layers);
    if (progress->alarm[0])
        printf("%sALARM       %s%s\n", terminal_color(TERMINAL_RED), progress->alarm,
               terminal_color(TERMINAL_PLAIN));
}

static void show_wish(const struct cluster_job *job)
{
    const struct desired_record *desired = &job->desired;

    if (cluster_job_over(job)) /* an ended job has no desired state */
        printf("asked for   ");
    else
        printf("asked for   %s, ", wish_words[desired->wish]);
    if (desired->devices)
        printf("at most %u slot%s", desired->devices, plural(desired->devices));
    else
        printf("%u to %u slot%s", job->spec->elastic.devices_min, job->spec->elastic.devices_max,
               plural(job->spec->elastic.devices_max));
    if (desired->stages)
        printf(", %u stage%s", desired->stages, plural(desired->stages));
    if (desired->replicas)
        printf(", %u replica%s", desired->replicas, plural(desired->replicas));
    printf("\n");
}

static int show_running_layout(const struct cluster_job *job, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};

    if (layout_waits_append(job, "trains      generation ", &text))
        return error_set(error, -ENOMEM, "no memory for the layout");
    if (text.size_bytes)
        fwrite(text.data, 1, text.size_bytes, stdout);
    return 0;
}

static int show_layout(const struct cluster_job *job, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    char words[LAYOUT_WORDS_SIZE];

    if (!job->plan)
        return 0;
    layout_words(job->plan, words);
    if (plan_says_layout(job->plan))
        printf("generation  %" PRIu64 " (%s): %s\n", job->plan->generation,
               plan_reason_word(job->plan->change.reason), job->plan->change.text);
    else
        printf("generation  %" PRIu64 ": %s (%s: %s)\n", job->plan->generation, words,
               plan_reason_word(job->plan->change.reason), job->plan->change.text);
    if (job->next)
        printf("preparing   generation %" PRIu64 ": %s (%s)\n", job->next->generation,
               layout_words(job->next, words), job->next->change.text);
    if (layout_append(job->plan, job->progress.frozen_layers, 12, &text))
        return error_set(error, -ENOMEM, "no memory for the layout");
    fwrite(text.data, 1, text.size_bytes, stdout);
    return 0;
}

static void show_checkpoints(const struct cluster_job *job)
{
    char size[FORMAT_SIZE];

    for (size_t i = 0; i < job->checkpoint_count; i++)
        printf("%-11s step %" PRIu64 ", %s, %s%s\n", i ? "" : "checkpoints",
               job->checkpoints[i].step, size_words(job->checkpoints[i].size_bytes, size),
               job->checkpoints[i].path, job->checkpoints[i].damaged[0] ? "  DAMAGED" : "");
}

static void show_hold(const char *node)
{
    if (node)
        printf(
            "%sHELD        node %s is cut off from etcd and commits nothing until it is back, or "
            "another node takes the job over%s\n",
            terminal_color(TERMINAL_RED), node, terminal_color(TERMINAL_PLAIN));
}

/* Reports of the nodes that etcd does not have. */
struct told {
    const char *held_by;       /* NULL: none */
    struct job_memory *memory; /* owned */
    unsigned worker_count;     /* in `memory` */
};

static void told_done(struct told *told)
{
    free(told->memory);
}

static int ask_nodes(struct cluster_client *client, const struct cluster *cluster,
                     const struct cluster_job *job, struct told *told, struct error *error)
{
    CLEANUP(worker_list_done) struct worker_list list = {0};
    int status;

    told->held_by = job_held_by(client, cluster, job);
    if (!job->plan || cluster_job_over(job))
        return 0;
    status = worker_list_load_job(client, cluster, job, &list, error);
    if (status)
        return status;
    if (list.refused.code)
        fprintf(stderr, "firnctl: %s\n", list.refused.text);
    if (job_memory_of(cluster, job, &list, &told->memory))
        return error_set(error, -ENOMEM, "no memory for the workers");
    told->worker_count = job->plan->layout.worker_count;
    return 0;
}

static int show_memory(const struct told *told, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};

    if (job_memory_append(told->memory, told->worker_count, &text))
        return error_set(error, -ENOMEM, "no memory for the table");
    if (text.size_bytes)
        printf("\n%.*s", (int)text.size_bytes, (const char *)text.data);
    return 0;
}

static int show(const struct cluster_job *job, const struct told *told, struct error *error)
{
    char words[sizeof(job->state.state) + sizeof(job->state.text) + 8], date[FORMAT_SIZE];

    cluster_job_words(job, words, sizeof(words));
    printf("job         %s\nstate       %s\n", job->name, words);
    show_hold(told->held_by);
    if (cluster_job_over(job) && job->state.kept_until_unix_ns)
        printf("listed      until %s; its checkpoints, metrics and logs stay on the disks\n",
               format_date(job->state.kept_until_unix_ns, date));
    show_wish(job);
    if (job->has_progress)
        show_progress(job);
    int status = cluster_job_over(job) ? 0 : show_running_layout(job, error);
    if (!status && !cluster_job_over(job))
        status = show_layout(job, error);
    if (status)
        return status;
    if (job->has_progress || job->checkpoint_count) {
        struct job_risk risk = job_risk(job, clock_unix_ns());
        job_risk_print(&risk);
    }
    show_checkpoints(job);
    return show_memory(told, error);
}

static int show_json(const struct cluster_job *job, const struct told *told, struct error *error)
{
    json_t *tree = job_json(job, true);

    if (tree && (put(tree, "held_by", told->held_by ? json_string(told->held_by) : json_null()) ||
                 put(tree, "memory", job_memory_json(told->memory, told->worker_count)))) {
        json_decref(tree);
        tree = NULL;
    }
    return output_json(tree, error);
}

int run_job_show(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    warn_damage(&cluster);
    const struct cluster_job *job = cluster_find_job(&cluster, arguments->operands[0], error);
    if (!job)
        return -ENOENT;
    CLEANUP(told_done) struct told told = {0};
    status = ask_nodes(&client, &cluster, job, &told, error);
    if (status)
        return status;
    return arguments_has(arguments, "json") ? show_json(job, &told, error)
                                            : show(job, &told, error);
}
