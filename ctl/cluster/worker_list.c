#include "ctl/cluster/worker_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/http_url.h"
#include "base/json.h"
#include "ctl/cluster/fetch.h"
#include "elastic/job/job_spec.h"

#define SLOWER_WORTH_SAYING 1.1 /* times the fastest of the stage */

void worker_list_done(struct worker_list *list)
{
    free(list->workers);
    *list = (struct worker_list){0};
}

static int get_place(const json_t *tree, const char *key, int *ret_place, struct error *error)
{
    const json_t *value = json_object_get(tree, key);

    if (!json_is_integer(value) || json_integer_value(value) < -1 ||
        json_integer_value(value) > INT32_MAX)
        return error_set(error, -EINVAL, "\"%s\" must be a small integer", key);
    *ret_place = (int)json_integer_value(value);
    return 0;
}

static int decode(const json_t *tree, struct worker_info *info, struct error *error)
{
    int status = json_get_unsigned(tree, "slot", 4096, &info->slot, error);

    if (!status)
        status = get_place(tree, "pid", &info->pid, error);
    if (!status)
        status = json_get_text(tree, "phase", info->phase, sizeof(info->phase), error);
    if (!status)
        status = json_get_u64(tree, "generation", INT64_MAX, &info->generation, error);
    if (!status)
        status = json_get_u64(tree, "step", INT64_MAX, &info->step, error);
    if (!status)
        status = get_place(tree, "stage", &info->stage, error);
    if (!status)
        status = get_place(tree, "replica", &info->replica, error);
    if (!status)
        status = json_get_unsigned(tree, "first_unit", 65536, &info->first_unit, error);
    if (!status)
        status = json_get_unsigned(tree, "unit_count", 65536, &info->unit_count, error);
    if (!status && json_has(tree, "lanes")) /* an older firnd does not report it */
        status = json_get_unsigned(tree, "lanes", 65536, &info->lanes, error);
    if (!status && json_has(tree, "held")) /* an older firnd does not report it */
        status = json_get_bool(tree, "held", &info->held, error);
    if (!status && json_has(tree, "memory_bytes")) /* an older firnd does not report it */
        status = json_get_u64(tree, "memory_bytes", INT64_MAX, &info->memory_bytes, error);
    if (!status)
        status = json_get_double(tree, "compute_seconds", &info->compute_seconds, error);
    if (!status)
        status = json_get_double(tree, "wait_seconds", &info->wait_seconds, error);
    if (!status)
        status = json_get_double(tree, "step_seconds", &info->step_seconds, error);
    return status;
}

static int append(struct worker_list *list, const struct worker_info *info)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        struct worker_info *workers = reallocarray(list->workers, capacity, sizeof(*workers));
        if (!workers)
            return -ENOMEM;
        list->workers = workers;
        list->capacity = capacity;
    }
    list->workers[list->count++] = *info;
    return 0;
}

int worker_list_add(struct worker_list *list, const char *job, const char *node,
                    unsigned model_units, const char *text, size_t size_bytes, struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    json_t *workers;
    int status = json_parse(text, size_bytes, "workers", &tree, error);

    if (!status)
        status = json_get_array(tree, "workers", 4096, &workers, error);
    for (size_t i = 0; !status && i < json_array_size(workers); i++) {
        struct worker_info info = {.model_units = model_units};
        snprintf(info.job, sizeof(info.job), "%s", job);
        snprintf(info.node, sizeof(info.node), "%s", node);
        status = decode(json_array_get(workers, i), &info, error);
        if (!status)
            status = append(list, &info);
    }
    if (status && status != -ENOMEM) {
        error_prefix(error, "node %s, job %s: ", node, job);
        status = -EBADMSG;
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    const struct worker_info *x = a, *y = b;
    int order = strcmp(x->job, y->job);

    if (order)
        return order;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    if (x->replica != y->replica)
        return x->replica < y->replica ? -1 : 1;
    order = strcmp(x->node, y->node);
    return order ? order : x->slot < y->slot ? -1 : x->slot > y->slot;
}

static double lane_seconds(const struct worker_info *info)
{
    return info->compute_seconds / (info->lanes ? info->lanes : 1);
}

/* Mark the slowest of [@first, @end), the workers of one stage, if it is clearly slower. */
static void mark(struct worker_list *list, size_t first, size_t end)
{
    struct worker_info *slowest = &list->workers[first], *fastest = slowest;

    for (struct worker_info *info = slowest; info < &list->workers[end]; info++) {
        slowest = lane_seconds(info) > lane_seconds(slowest) ? info : slowest;
        fastest = lane_seconds(info) < lane_seconds(fastest) ? info : fastest;
    }
    slowest->slowest =
        slowest->stage >= 0 && lane_seconds(slowest) > SLOWER_WORTH_SAYING * lane_seconds(fastest);
}

void worker_list_finish(struct worker_list *list)
{
    size_t first = 0;

    if (list->count)
        qsort(list->workers, list->count, sizeof(*list->workers), compare);
    for (size_t i = 1; i <= list->count; i++) {
        if (i < list->count && !strcmp(list->workers[i].job, list->workers[first].job) &&
            list->workers[i].stage == list->workers[first].stage)
            continue;
        mark(list, first, i);
        first = i;
    }
}

static void ask(struct fetch *fetch, const struct cluster_node *node, const char *job)
{
    snprintf(fetch->url, sizeof(fetch->url), "%s%s/v1/jobs/%s/workers",
             http_url_scheme(node->record.http), node->record.http, job);
}

/* Add a node's answer, if it has answered. */
static int take(const struct cluster_client *client, struct worker_list *list,
                const struct cluster_job *job, const char *node, const struct fetch *fetch,
                struct error *error)
{
    if (fetch->status != 0)
        name_list_add(list->silent, node);
    fetch_refused(client, fetch, node, &list->refused);
    return fetch_good(fetch)
               ? worker_list_add(list, job->name, node, job_model_unit_count(&job->spec->model),
                                 (const char *)fetch->body.data, fetch->body.size_bytes, error)
               : 0;
}

int worker_list_load_node(struct cluster_client *client, const struct cluster_node *node,
                          const struct cluster_job *job, struct worker_list *list,
                          struct error *error)
{
    struct fetch fetch = {0};

    ask(&fetch, node, job->name);
    fetch_all(client, &fetch, 1, FETCH_QUICK_NS);
    int status = take(client, list, job, node->name, &fetch, error);
    bytes_done(&fetch.body);
    return status;
}

static bool always(const struct cluster_job *job, const struct cluster_node *node)
{
    (void)job;
    (void)node;
    return true;
}

static bool in_plan(const struct cluster_job *job, const struct cluster_node *node)
{
    for (unsigned rank = 0; job->plan && rank < job->plan->layout.worker_count; rank++)
        if (!strcmp(job->plan->layout.workers[rank].node, node->name))
            return true;
    return false;
}

/* Of the nodes that are @asked. */
static int load_job(struct cluster_client *client, const struct cluster *cluster,
                    const struct cluster_job *job,
                    bool (*asked)(const struct cluster_job *job, const struct cluster_node *node),
                    struct worker_list *list, struct error *error)
{
    AUTO_FREE struct fetch *fetches = calloc(cluster->node_count + 1, sizeof(*fetches));
    AUTO_FREE const struct cluster_node **nodes = calloc(cluster->node_count + 1, sizeof(*nodes));
    int status = fetches && nodes ? 0 : error_set(error, -ENOMEM, "no memory for the workers");
    unsigned count = 0;

    if (status)
        return status;
    for (size_t i = 0; i < cluster->node_count; i++)
        if (asked(job, &cluster->nodes[i])) {
            nodes[count] = &cluster->nodes[i];
            ask(&fetches[count++], &cluster->nodes[i], job->name);
        }
    fetch_all(client, fetches, count, FETCH_QUICK_NS);
    for (unsigned i = 0; i < count; i++) {
        if (!status)
            status = take(client, list, job, nodes[i]->name, &fetches[i], error);
        bytes_done(&fetches[i].body);
    }
    return status;
}

int worker_list_load_job(struct cluster_client *client, const struct cluster *cluster,
                         const struct cluster_job *job, struct worker_list *list,
                         struct error *error)
{
    return load_job(client, cluster, job, in_plan, list, error);
}

int worker_list_load(struct cluster_client *client, const struct cluster *cluster,
                     struct worker_list *ret_list, struct error *error)
{
    struct worker_list list = {0};
    int status = 0;

    for (size_t i = 0; i < cluster->job_count && !status; i++)
        if (!cluster_job_over(&cluster->jobs[i]))
            status = load_job(client, cluster, &cluster->jobs[i], always, &list, error);
    worker_list_finish(&list);
    if (status)
        worker_list_done(&list);
    else
        *ret_list = list;
    return status;
}
