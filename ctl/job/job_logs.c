/* firnctl job logs: print the ends of the workers' logs, from the nodes that have them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/http_url.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/fetch.h"
#include "ctl/command/commands.h"
#include "ctl/view/name_list.h"
#include "ctl/view/terminal.h"

#define BYTES_DEFAULT 16384
#define FOLLOW_BYTES  65536
#define PERIOD_NS     (500 * NS_PER_MS)

struct log_source {
    char node[NAME_SIZE];
    unsigned slot;
    struct bytes seen; /* when following: the end of the log as last read */
};

struct logs {
    struct cluster_client *client;
    const char *job;
    uint64_t size_bytes;
    struct log_source *sources;
    struct fetch *fetches;
    unsigned count;
    const struct log_source *last; /* whose lines were printed last */
    struct error refused;          /* of the first node that wants a token; code 0: none */
    char silent[NAME_LIST_SIZE];   /* nodes that did not answer, already reported */
};

static void logs_done(struct logs *logs)
{
    for (unsigned i = 0; i < logs->count; i++)
        bytes_done(&logs->sources[i].seen);
    free(logs->sources);
    free(logs->fetches);
}

static int list_sources(struct logs *logs, const struct arguments *arguments,
                        const struct cluster *cluster, struct error *error)
{
    const char *only = arguments_text(arguments, "node", NULL);
    bool one_slot = arguments_has(arguments, "slot");
    unsigned slot_wanted = (unsigned)arguments_number(arguments, "slot", 0);
    size_t capacity = cluster->node_count * RECORD_SLOTS_MAX + 1;

    if (only && !cluster_find_node(cluster, only, error))
        return -ENOENT;
    logs->sources = calloc(capacity, sizeof(*logs->sources));
    logs->fetches = calloc(capacity, sizeof(*logs->fetches));
    if (!logs->sources || !logs->fetches)
        return error_set(error, -ENOMEM, "no memory for the logs");
    for (size_t i = 0; i < cluster->node_count; i++) {
        const struct cluster_node *node = &cluster->nodes[i];
        if (only && strcmp(only, node->name))
            continue;
        for (unsigned slot = 0; slot < node->record.slot_count; slot++) {
            if (one_slot && slot != slot_wanted)
                continue;
            struct log_source *source = &logs->sources[logs->count];
            snprintf(source->node, sizeof(source->node), "%s", node->name);
            source->slot = slot;
            snprintf(logs->fetches[logs->count++].url, FETCH_URL_SIZE,
                     "%s%s/v1/jobs/%s/logs?slot=%u&bytes=%" PRIu64,
                     http_url_scheme(node->record.http), node->record.http, logs->job, slot,
                     logs->size_bytes);
        }
    }
    return 0;
}

/* Return how much of @now was already in @seen: the length of the longest suffix of @seen that is a
 * prefix of @now, because a log only grows at its end. */
static size_t known_bytes(const struct bytes *seen, const struct bytes *now)
{
    for (size_t skip = 0; skip < seen->size_bytes; skip++) {
        size_t length = seen->size_bytes - skip;
        if (length <= now->size_bytes && !memcmp(seen->data + skip, now->data, length))
            return length;
    }
    return 0;
}

static void print_source(struct logs *logs, struct log_source *source, const char *text,
                         size_t size_bytes)
{
    if (!size_bytes)
        return;
    if (logs->last != source)
        printf("%s==> node %s, slot %u <==%s\n", terminal_color(TERMINAL_BOLD), source->node,
               source->slot, terminal_color(TERMINAL_PLAIN));
    fwrite(text, 1, size_bytes, stdout);
    if (text[size_bytes - 1] != '\n')
        putchar('\n');
    logs->last = source;
}

static unsigned print_round(struct logs *logs)
{
    unsigned found = 0;
    char silent_before[NAME_LIST_SIZE];

    memcpy(silent_before, logs->silent, sizeof(silent_before));
    fetch_all(logs->client, logs->fetches, logs->count, FETCH_QUICK_NS);
    for (unsigned i = 0; i < logs->count; i++) {
        struct fetch *fetch = &logs->fetches[i];
        struct log_source *source = &logs->sources[i];
        if (fetch_good(fetch)) {
            size_t known = known_bytes(&source->seen, &fetch->body);
            print_source(logs, source, (const char *)fetch->body.data + known,
                         fetch->body.size_bytes - known);
            bytes_done(&source->seen);
            source->seen = fetch->body;
            found++;
        } else {
            fetch_refused(logs->client, fetch, source->node, &logs->refused);
            fetch_note_silence(fetch, source->node, logs->silent);
            bytes_done(&fetch->body);
        }
        fetch->body = (struct bytes){0};
    }
    fflush(stdout);
    if (strcmp(logs->silent, silent_before) != 0)
        fprintf(stderr, "firnctl: no answer from %s: logs of theirs may be missing\n",
                logs->silent);
    return found;
}

static int open_logs(struct logs *logs, const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    int status = cluster_load(logs->client, &cluster, error);

    if (!status && !cluster_find_job(&cluster, logs->job, error))
        status = -ENOENT;
    return status ? status : list_sources(logs, arguments, &cluster, error);
}

/* Return whether the job is over or removed; false if etcd does not answer. */
static bool job_over(struct logs *logs)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};

    if (cluster_load(logs->client, &cluster, NULL))
        return false;
    const struct cluster_job *job = cluster_find_job(&cluster, logs->job, NULL);
    return !job || cluster_job_over(job);
}

int run_job_logs(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    CLEANUP(logs_done) struct logs logs = {.client = &client, .job = arguments->operands[0]};
    bool follow = arguments_has(arguments, "follow");
    int status = cluster_client_open(arguments, &client, error);

    logs.size_bytes = arguments_number(arguments, "bytes", follow ? FOLLOW_BYTES : BYTES_DEFAULT);
    if (!status)
        status = open_logs(&logs, arguments, error);
    if (status)
        return status;
    unsigned found = print_round(&logs);
    if (logs.refused.code) {
        *error = logs.refused;
        return error->code;
    }
    if (!found && !follow)
        return error_set(error, -ENOENT, "no node that answers has a log of job %s there",
                         logs.job);
    for (bool over = false; follow && !over && !ferror(stdout);) {
        over = job_over(&logs); /* asked before the last round, so that nothing is missed */
        cluster_client_pause(&client, PERIOD_NS);
        print_round(&logs);
    }
    if (logs.refused.code)
        *error = logs.refused;
    return logs.refused.code;
}
