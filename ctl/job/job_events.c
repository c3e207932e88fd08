/* firnctl job events. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "ctl/cluster/collector.h"
#include "ctl/command/commands.h"

#define PERIOD_NS (500 * NS_PER_MS)

static int print_new(struct event_list *list, bool json, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    int status = 0;

    for (size_t i = 0; i < list->count && !status; i++) {
        struct event *event = &list->events[i];
        if (event->printed)
            continue;
        event->printed = true;
        status = json ? bytes_append_format(&text, "%s\n", event->line)
                      : event_append_text(event, true, &text);
    }
    fwrite(text.data, 1, text.size_bytes, stdout);
    fflush(stdout);
    return status ? error_set(error, status, "no memory for the events") : 0;
}

static int round_of(struct collector *collector, bool json, bool *ret_over, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    int status = cluster_load(collector->client, &cluster, error);

    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, collector->job, error);
    if (!job)
        return -ENOENT;
    *ret_over = cluster_job_over(job);
    status = collector_events(collector, &cluster, error);
    if (!status)
        status = collector_check(collector, error);
    return status ? status : print_new(&collector->events, json, error);
}

int run_job_events(const struct arguments *arguments, struct error *error)
{
    CLEANUP(collector_done) struct collector collector = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    bool over = false, json = arguments_has(arguments, "json");
    int status = cluster_client_open(arguments, &client, error);

    if (status)
        return status;
    collector_init(&collector, &client, arguments->operands[0], 0);
    status = round_of(&collector, json, &over, error);
    while (!status && !over && arguments_has(arguments, "follow") && !ferror(stdout)) {
        cluster_client_pause(&client, PERIOD_NS);
        status = round_of(&collector, json, &over, error);
    }
    if (!status && collector.silent)
        fprintf(stderr, "firnctl: no answer from %s: events of theirs are missing\n",
                collector.silent_names);
    return status;
}
