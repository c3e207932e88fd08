#include "ctl/cluster/collector.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/http_url.h"

#define STEPS_AHEAD 4096 /* of the slowest node: about as many as an answer holds */
/* firnd cuts an answer off behind 256 KiB. A short answer had all there was; asking again would
 * never end if a job commits faster than nodes answer. */
#define CUT_OFF_BYTES ((size_t)64 << 10)

struct collector_source {
    char node[NAME_SIZE];
    uint64_t last_step, last_event_ns;
    bool asked, more; /* in this round */
};

enum what { METRICS, EVENTS };

void collector_init(struct collector *collector, struct cluster_client *client, const char *job,
                    uint64_t from_step)
{
    *collector = (struct collector){.client = client, .from_step = from_step};
    snprintf(collector->job, sizeof(collector->job), "%s", job);
}

void collector_done(struct collector *collector)
{
    history_done(&collector->history);
    event_list_done(&collector->events);
    free(collector->sources);
    *collector = (struct collector){0};
}

static struct collector_source *find_or_add(struct collector *collector, const char *node)
{
    for (size_t i = 0; i < collector->source_count; i++)
        if (!strcmp(collector->sources[i].node, node))
            return &collector->sources[i];
    struct collector_source *sources =
        reallocarray(collector->sources, collector->source_count + 1, sizeof(*sources));
    if (!sources)
        return NULL;
    collector->sources = sources;
    struct collector_source *source = &sources[collector->source_count++];
    *source =
        (struct collector_source){.last_step = collector->from_step ? collector->from_step - 1 : 0};
    snprintf(source->node, sizeof(source->node), "%s", node);
    return source;
}

static void make_url(const struct collector *collector, enum what what,
                     const struct collector_source *source, const struct cluster_node *node,
                     struct fetch *fetch)
{
    const char *scheme = http_url_scheme(node->record.http);

    if (what == METRICS)
        snprintf(fetch->url, sizeof(fetch->url), "%s%s/v1/jobs/%s/metrics?from=%" PRIu64, scheme,
                 node->record.http, collector->job, source->last_step + 1);
    else
        snprintf(fetch->url, sizeof(fetch->url), "%s%s/v1/jobs/%s/events?from=%" PRIu64, scheme,
                 node->record.http, collector->job, source->last_event_ns + 1);
}

/* Take one node's answer; the node may have more if the answer was long and had new entries. */
static int take(struct collector *collector, enum what what, struct collector_source *source,
                const struct fetch *fetch, struct error *error)
{
    const char *text = (const char *)fetch->body.data;
    uint64_t last = 0, *known = what == METRICS ? &source->last_step : &source->last_event_ns;
    int status = what == METRICS
                     ? history_add(&collector->history, source->node, text, fetch->body.size_bytes,
                                   &last, error)
                     : event_list_add(&collector->events, text, fetch->body.size_bytes, &last);

    source->more = !status && last > *known && fetch->body.size_bytes >= CUT_OFF_BYTES;
    *known = MAX(*known, last);
    return status;
}

/* Return the step up to which every node that has more to send has sent its steps. */
static uint64_t settled_step(const struct collector *collector)
{
    uint64_t step = UINT64_MAX;

    for (size_t i = 0; i < collector->source_count; i++)
        if (collector->sources[i].more)
            step = MIN(step, collector->sources[i].last_step);
    return step;
}

static bool is_far_ahead(enum what what, const struct collector_source *source, uint64_t least)
{
    return what == METRICS && source->asked && source->last_step - least > STEPS_AHEAD;
}

/* Ask all remaining nodes once. Return: the number of nodes that have more, or an error. */
static int ask_round(struct collector *collector, const struct cluster *cluster, enum what what,
                     struct error *error)
{
    AUTO_FREE struct fetch *fetches = calloc(cluster->node_count + 1, sizeof(*fetches));
    AUTO_FREE unsigned *sources = calloc(cluster->node_count + 1, sizeof(*sources));
    uint64_t least = settled_step(collector);
    unsigned count = 0;
    int more = 0, status = fetches && sources ? 0 : -ENOMEM;

    for (size_t i = 0; i < cluster->node_count && !status; i++) {
        struct collector_source *source = find_or_add(collector, cluster->nodes[i].name);
        if (!source) {
            status = -ENOMEM;
        } else if (source->more && !is_far_ahead(what, source, least)) {
            sources[count] = (unsigned)(source - collector->sources);
            make_url(collector, what, source, &cluster->nodes[i], &fetches[count++]);
        }
    }
    if (!status)
        fetch_all(collector->client, fetches, count, FETCH_QUICK_NS);
    for (unsigned i = 0; i < count; i++) {
        struct collector_source *source = &collector->sources[sources[i]];
        bool first = !source->asked;
        source->asked = true;
        source->more = false;
        fetch_refused(collector->client, &fetches[i], source->node, &collector->refused);
        collector->answered += first && !fetches[i].status;
        collector->silent += first && fetches[i].status;
        if (first)
            fetch_note_silence(&fetches[i], source->node, collector->silent_names);
        if (!status && fetch_good(&fetches[i]))
            status = take(collector, what, source, &fetches[i], error);
        bytes_done(&fetches[i].body);
    }
    for (size_t i = 0; i < collector->source_count; i++)
        more += collector->sources[i].more;
    if (status == -ENOMEM)
        error_set(error, status, "no memory for the answers of the nodes");
    return status ? status : more;
}

/* Return: 1: continue; else an error */
static int hand_out(struct collector *collector, uint64_t end, struct error *error)
{
    int status = history_hand_out(&collector->history, end, collector->take, collector->context);

    return status == 0         ? 1
           : status == -ENOMEM ? error_set(error, status, "no memory for the steps of the job")
                               : status;
}

static int collect(struct collector *collector, const struct cluster *cluster, enum what what,
                   struct error *error)
{
    int more = 1;

    collector->answered = collector->silent = 0;
    collector->silent_names[0] = '\0';
    error_clear(&collector->refused);
    for (size_t i = 0; i < collector->source_count; i++)
        collector->sources[i].more = collector->sources[i].asked = false;
    for (size_t i = 0; i < cluster->node_count; i++) {
        struct collector_source *source = find_or_add(collector, cluster->nodes[i].name);
        if (!source)
            return error_set(error, -ENOMEM, "no memory for the answers of the nodes");
        source->more = true;
    }
    while (more > 0) {
        more = ask_round(collector, cluster, what, error);
        if (more > 0 && what == METRICS && collector->take)
            more = hand_out(collector, settled_step(collector) + 1, error);
    }
    event_list_order(&collector->events);
    return MIN(more, 0);
}

int collector_check(const struct collector *collector, struct error *error)
{
    if (collector->refused.code)
        *error = collector->refused;
    return collector->refused.code;
}

int collector_metrics(struct collector *collector, const struct cluster *cluster,
                      struct error *error)
{
    return collect(collector, cluster, METRICS, error);
}

int collector_events(struct collector *collector, const struct cluster *cluster,
                     struct error *error)
{
    return collect(collector, cluster, EVENTS, error);
}
