#include "ctl/cluster/trace_collector.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/http_url.h"
#include "ctl/cluster/fetch.h"

void trace_collector_done(struct trace_collector *collector)
{
    trace_set_done(&collector->set);
    event_list_done(&collector->events);
}

static void begin_url(const struct trace_collector *collector, size_t node, const char *page,
                      struct fetch *fetch)
{
    const struct cluster_node *asked = &collector->cluster->nodes[node];

    snprintf(fetch->url, sizeof(fetch->url), "%s%s/v1/jobs/%s/%s",
             http_url_scheme(asked->record.http), asked->record.http, collector->job, page);
}

static void note_silence(struct trace_collector *collector, size_t node, const struct fetch *fetch)
{
    fetch_note_silence(fetch, collector->cluster->nodes[node].name, collector->silent_names);
}

/* Ask all nodes for one page. @ret_fetches: one per node; the caller frees it and the bodies */
static int ask_all(struct trace_collector *collector, const char *page, struct fetch **ret_fetches)
{
    size_t count = collector->cluster->node_count;
    struct fetch *fetches = calloc(count + 1, sizeof(*fetches));

    if (!fetches)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        begin_url(collector, i, page, &fetches[i]);
    fetch_all(collector->client, fetches, (unsigned)count, FETCH_QUICK_NS);
    *ret_fetches = fetches;
    return 0;
}

int trace_collector_list(struct trace_collector *collector, struct error *error)
{
    AUTO_FREE struct fetch *fetches = NULL;
    struct error refused = {0};
    int status = ask_all(collector, "trace", &fetches);

    for (size_t i = 0; fetches && i < collector->cluster->node_count; i++) {
        const char *name = collector->cluster->nodes[i].name;
        struct fetch *fetch = &fetches[i];
        if (!fetch_refused(collector->client, fetch, name, &refused))
            note_silence(collector, i, fetch);
        if (!status)
            status = trace_set_add_node(&collector->set, name);
        if (!status && fetch_good(fetch))
            status = trace_set_list(&collector->set, (const char *)fetch->body.data,
                                    fetch->body.size_bytes);
        bytes_done(&fetch->body);
    }
    if (status)
        return error_set(error, status, "no memory for the traces");
    if (refused.code)
        *error = refused;
    return refused.code;
}

/* ---- spans ---- */

/* One round: for each node, the first worker that has more. */
struct round {
    struct fetch *fetches;
    size_t *workers; /* of each fetch */
    unsigned count;
};

static void round_done(struct round *round)
{
    for (unsigned i = 0; i < round->count; i++)
        bytes_done(&round->fetches[i].body);
    free(round->fetches);
    free(round->workers);
}

/* @over: by worker */
static void choose(const struct trace_collector *collector, const bool *over, uint64_t from,
                   uint64_t to, struct round *round)
{
    const struct trace_set *set = &collector->set;
    char page[128];

    for (size_t i = 0; i < set->worker_count; i++) {
        const struct trace_worker *worker = &set->workers[i];
        bool asked =
            round->count && set->workers[round->workers[round->count - 1]].node == worker->node;
        if (over[i] || asked)
            continue;
        snprintf(page, sizeof(page),
                 "trace?slot=%u&age=%u&from=%" PRIu64 "&to=%" PRIu64 "&after=%" PRIu64,
                 worker->entry.slot, worker->entry.age, from, to, worker->last_number);
        begin_url(collector, worker->node, page, &round->fetches[round->count]);
        round->workers[round->count++] = i;
    }
}

static int take(struct trace_collector *collector, const struct fetch *fetch, size_t index,
                bool *ret_more, struct error *error)
{
    struct trace_worker *worker = &collector->set.workers[index];

    *ret_more = false;
    note_silence(collector, worker->node, fetch);
    return fetch_good(fetch) ? trace_set_take(&collector->set, worker, fetch->body.data,
                                              fetch->body.size_bytes, ret_more, error)
                             : 0;
}

/* Return: the number of workers asked about, or an error */
static int ask_round(struct trace_collector *collector, uint64_t from, uint64_t to, bool *over,
                     struct error *error)
{
    size_t count = collector->cluster->node_count + 1;
    CLEANUP(round_done)
    struct round round = {.fetches = calloc(count, sizeof(*round.fetches)),
                          .workers = calloc(count, sizeof(*round.workers))};
    int status = 0;

    if (!round.fetches || !round.workers)
        return error_set(error, -ENOMEM, "no memory for the traces");
    choose(collector, over, from, to, &round);
    fetch_all(collector->client, round.fetches, round.count, FETCH_QUICK_NS);
    for (unsigned i = 0; !status && i < round.count; i++) {
        bool more;
        status = take(collector, &round.fetches[i], round.workers[i], &more, error);
        over[round.workers[i]] = !more;
    }
    return status ? status : (int)round.count;
}

int trace_collector_spans(struct trace_collector *collector, uint64_t from, uint64_t to,
                          struct error *error)
{
    const struct trace_set *set = &collector->set;
    AUTO_FREE bool *over = calloc(set->worker_count + 1, sizeof(*over));
    int asked = 1;

    if (!over)
        return error_set(error, -ENOMEM, "no memory for the traces");
    for (size_t i = 0; i < set->worker_count; i++)
        over[i] = set->workers[i].entry.problem[0];
    while (asked > 0)
        asked = ask_round(collector, from, to, over, error);
    return asked;
}

/* ---- events ---- */

int trace_collector_events(struct trace_collector *collector, uint64_t unix_ns, struct error *error)
{
    AUTO_FREE struct fetch *fetches = NULL;
    char page[64];

    snprintf(page, sizeof(page), "events?from=%" PRIu64, unix_ns);
    int status = ask_all(collector, page, &fetches);
    for (size_t i = 0; fetches && i < collector->cluster->node_count; i++) {
        struct fetch *fetch = &fetches[i];
        if (!status && fetch_good(fetch))
            status = event_list_add(&collector->events, (const char *)fetch->body.data,
                                    fetch->body.size_bytes, NULL);
        bytes_done(&fetch->body);
    }
    event_list_order(&collector->events);
    return status ? error_set(error, status, "no memory for the events") : 0;
}
