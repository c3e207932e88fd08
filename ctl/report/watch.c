#include "ctl/report/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/cluster/collector.h"
#include "ctl/cluster/layout.h"
#include "ctl/command/commands.h"
#include "ctl/view/format.h"
#include "ctl/view/terminal.h"

#define LIVE_PERIOD_NS  (250 * NS_PER_MS)
#define PLAIN_PERIOD_NS (500 * NS_PER_MS)
#define REST_SHARE      10 /* multiple of the time of a look, at most REST_MAX_NS */
#define REST_MAX_NS     (5 * NS_PER_SECOND)
#define PLAIN_LINE_NS   (5 * NS_PER_SECOND) /* between two lines of progress */
#define PAST_EVENTS     8

struct watch {
    struct cluster_client *client;
    const char *job;
    struct collector collector;
    struct collector steps; /* while etcd is unreachable: the nodes' steps since etcd's last
                             * progress */
    struct terminal_picture picture;
    bool live, store_away, looked, refused, nobody;
    uint64_t since_ns;
    uint64_t said_step, said_generation, said_ns;
    char said_state[sizeof(((struct state_record *)0)->state)];
};

/* Return whether to print an event; the details of a change of layout are for `job events`. */
static bool is_worth_a_line(const struct event *event)
{
    static const char *const details[] = {"prepare", "plan", "stuck"};

    for (size_t i = 0; i < ARRAY_COUNT(details); i++)
        if (!strcmp(event->kind, details[i]))
            return false;
    return true;
}

static void forget_past(struct watch *watch)
{
    struct event_list *list = &watch->collector.events;

    for (size_t i = 0; i < list->count; i++)
        if (watch->since_ns ? list->events[i].unix_ns < watch->since_ns
                            : i + PAST_EVENTS < list->count)
            list->events[i].printed = true;
}

static int print_events(struct watch *watch)
{
    struct event_list *list = &watch->collector.events;
    CLEANUP(bytes_done) struct bytes text = {0};
    int status = 0;

    for (size_t i = 0; i < list->count && !status; i++) {
        struct event *event = &list->events[i];
        if (!event->printed && is_worth_a_line(event))
            status = event_append_text(event, false, &text);
        event->printed = true;
    }
    if (!status && text.size_bytes) {
        terminal_erase(&watch->picture);
        fwrite(text.data, 1, text.size_bytes, stdout);
    }
    return status;
}

static int draw(struct watch *watch, const struct cluster_job *job)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    int status = watch_picture(job, &text);

    if (!status)
        status = bytes_append(&text, "", 1);
    if (!status)
        terminal_draw(&watch->picture, (const char *)text.data);
    return status;
}

/* Without a terminal, print a line when the state or the layout changes, and at intervals. */
static int print_plain(struct watch *watch, const struct cluster_job *job)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    uint64_t now_ns = clock_monotonic_ns();
    bool over = cluster_job_over(job), runs = job->plan && job->plan->layout.worker_count;
    int status = 0;

    if (strcmp(watch->said_state, cluster_job_state(job))) {
        char words[sizeof(job->state.state) + sizeof(job->state.text) + 8];
        cluster_job_words(job, words, sizeof(words));
        snprintf(watch->said_state, sizeof(watch->said_state), "%s", cluster_job_state(job));
        status = bytes_append_format(&text, "%s %s\n", job->name, words);
    }
    if (!status && !over && runs && job->plan->generation != watch->said_generation) {
        watch->said_generation = job->plan->generation;
        status = layout_append(job->plan, job->progress.frozen_layers, 2, &text);
    }
    if (!status && job->has_progress && job->progress.step != watch->said_step &&
        (over || now_ns - watch->said_ns >= PLAIN_LINE_NS)) {
        watch->said_step = job->progress.step;
        watch->said_ns = now_ns;
        status = watch_line(job, &text);
    }
    fwrite(text.data, 1, text.size_bytes, stdout);
    fflush(stdout);
    return status;
}

static void say_store(struct watch *watch, const struct error *error)
{
    if (error->code && !watch->store_away) {
        terminal_erase(&watch->picture);
        fflush(stdout);
        fprintf(
            stderr,
            "firnctl: %s\nThe job continues without etcd; waiting until etcd is reachable again\n",
            error->text);
    }
    watch->store_away = error->code != 0;
}

/* Read progress from the nodes' metrics while etcd is unreachable. */
static int ask_for_progress(struct watch *watch, const struct cluster *cluster,
                            struct cluster_job *job, struct error *error)
{
    if (!watch->steps.client)
        collector_init(&watch->steps, watch->client, job->name,
                       MAX(job->progress.step, (uint64_t)1));
    int status = collector_metrics(&watch->steps, cluster, error);
    const struct history *history = &watch->steps.history;
    if (status || history->count == 0)
        return status;
    const struct history_step *last = &history->steps[history->count - 1];
    job->has_progress = true;
    job->progress.step = MAX(job->progress.step, last->step);
    job->progress.loss = last->loss;
    job->progress.frozen_layers = last->frozen_layers;
    job->progress.step_seconds = last->step_ms / 1e3;
    if (last->final_evaluated || last->evaluated)
        job->progress.validation_loss = last->final_evaluated ? last->final_loss : last->val_loss;
    return 0;
}

/* Report a node's refusal once; states and progress still come from etcd. */
static void say_refusal(struct watch *watch)
{
    struct error error = {0};

    if (watch->refused || !collector_check(&watch->collector, &error))
        return;
    watch->refused = true;
    terminal_erase(&watch->picture);
    fflush(stdout);
    fprintf(stderr, "firnctl: %s\nIts events are missing here\n", error.text);
}

/* Report once that no node answers: then only the last progress in etcd is known. */
static void say_nobody(struct watch *watch, const struct cluster *cluster)
{
    bool nobody = cluster->node_count == 0 || watch->collector.answered == 0;

    if (nobody == watch->nobody)
        return;
    watch->nobody = nobody;
    terminal_erase(&watch->picture);
    fflush(stdout);
    if (nobody && cluster->node_count == 0)
        fprintf(stderr,
                "firnctl: no firnd is registered; the job waits for one, and its last known "
                "state is shown\n");
    else if (nobody)
        fprintf(stderr, "firnctl: no node answers; showing the last known state of the job\n");
    else
        fprintf(stderr, "firnctl: a node answers\n");
}

/* Look once. *ret_end: the exit code, once the job is over. */
static int look(struct watch *watch, const struct cluster *cluster, int *ret_end,
                struct error *error)
{
    struct cluster_job *job = cluster_find_job(cluster, watch->job, error);

    if (!job && watch->looked)
        return error_set(error, -ENOENT, "job %s was removed", watch->job);
    if (!job)
        return -ENOENT;
    int status = collector_events(&watch->collector, cluster, error);
    say_refusal(watch);
    say_nobody(watch, cluster);
    if (!status && watch->client->away)
        status = ask_for_progress(watch, cluster, job, error);
    if (!watch->looked)
        forget_past(watch);
    watch->looked = true;
    if (!status)
        status = print_events(watch);
    if (!status)
        status = watch->live ? draw(watch, job) : print_plain(watch, job);
    if (!status && cluster_job_over(job))
        *ret_end = strcmp(job->state.state, "completed") ? COMMAND_FAILED : COMMAND_DONE;
    return status;
}

/* Rest for a multiple of the time of a look, which reads the whole cluster from etcd and asks all
 * nodes: that takes long in a large cluster, and users may watch hundreds of jobs. */
static uint64_t rest_ns(const struct watch *watch, uint64_t took_ns)
{
    uint64_t period_ns = watch->live ? LIVE_PERIOD_NS : PLAIN_PERIOD_NS;

    return MAX(period_ns, MIN(REST_SHARE * took_ns, REST_MAX_NS));
}

static int follow(struct watch *watch, struct error *error)
{
    int end = -1, status = 0;

    while (end < 0 && !status) {
        uint64_t began_ns = clock_monotonic_ns();
        CLEANUP(cluster_done) struct cluster cluster = {0};
        struct error store_error = {0};
        int loaded = cluster_load(watch->client, &cluster, &store_error);
        if (loaded && !watch->looked) {
            *error = store_error;
            return loaded;
        }
        watch->client->quiet = true; /* from now on this file reports it, apart from the picture */
        say_store(watch, &store_error);
        if (!loaded)
            status = look(watch, &cluster, &end, error);
        if (end < 0 && !status)
            cluster_client_pause(watch->client, rest_ns(watch, clock_monotonic_ns() - began_ns));
        if (end < 0 && !status && ferror(stdout))
            status = -EPIPE;
        if (end < 0 && !status && watch->live && terminal_asked_to_leave()) {
            end = COMMAND_FAILED; /* only a completed job is a success */
            error_set(error, -ECANCELED, "job %s goes on; firnctl watch %s looks at it again",
                      watch->job, watch->job);
        }
    }
    return status ? status : end;
}

int watch_job(struct cluster_client *client, const char *job, uint64_t since_ns,
              struct error *error)
{
    struct watch watch = {
        .client = client, .job = job, .live = terminal_is_live(), .since_ns = since_ns};

    if (watch.live)
        terminal_take_keys();
    collector_init(&watch.collector, client, job, 0);
    int status = follow(&watch, error);
    collector_done(&watch.collector);
    collector_done(&watch.steps);
    return status;
}

int run_watch(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    int status = cluster_client_open(arguments, &client, error);

    return status ? status : watch_job(&client, arguments->operands[0], 0, error);
}
