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
    info->lanes_computed = info->lanes;
    if (!status && json_has(tree, "lanes_computed")) /* an older firnd does not report it */
        status = json_get_double(tree, "lanes_computed", &info->lanes_computed, error);
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
    return info->compute_seconds / (info->lanes_computed > 0 ? info->lanes_computed : 1);
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
    fetch_note_silence(fetch, node, list->silent);
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

static int compare_name(const void *name, const void *node)
{
    return strcmp(name, ((const struct cluster_node *)node)->name);
}

/* Mark the nodes that have workers of @plan. */
static void mark_nodes(const struct cluster *cluster, const struct plan *plan, bool *marks)
{
    const struct plan_layout *layout = plan ? &plan->layout : NULL;

    for (unsigned rank = 0;
         layout && cluster->node_count > 0 && rank < layout->worker_count + layout->donor_count;
         rank++) {
        const struct cluster_node *node =
            bsearch(layout->workers[rank].node, cluster->nodes, cluster->node_count,
                    sizeof(*cluster->nodes), compare_name);
        if (node)
            marks[node - cluster->nodes] = true;
    }
}

/* Nodes that may have workers of jobs, and their answers. */
struct questions {
    const struct cluster_job **jobs;
    const struct cluster_node **nodes;
    struct fetch *fetches;
    unsigned count, capacity;
};

static void questions_done(struct questions *questions)
{
    for (unsigned i = 0; i < questions->count; i++)
        bytes_done(&questions->fetches[i].body);
    free(questions->jobs);
    free(questions->nodes);
    free(questions->fetches);
}

static int make_room(struct questions *questions)
{
    unsigned capacity = questions->capacity ? 2 * questions->capacity : 64;

    if (questions->count < questions->capacity)
        return 0;
    void *jobs = reallocarray(questions->jobs, capacity, sizeof(*questions->jobs));
    questions->jobs = jobs ? jobs : questions->jobs;
    void *nodes = reallocarray(questions->nodes, capacity, sizeof(*questions->nodes));
    questions->nodes = nodes ? nodes : questions->nodes;
    void *fetches = reallocarray(questions->fetches, capacity, sizeof(*questions->fetches));
    questions->fetches = fetches ? fetches : questions->fetches;
    if (!jobs || !nodes || !fetches)
        return -ENOMEM;
    questions->capacity = capacity;
    return 0;
}

/* Ask the nodes of the job's plan in force and of the next plan, whose workers may be starting. */
static int ask_about(struct questions *questions, const struct cluster *cluster,
                     const struct cluster_job *job)
{
    AUTO_FREE bool *marks = calloc(cluster->node_count + 1, sizeof(*marks));

    if (!marks)
        return -ENOMEM;
    mark_nodes(cluster, job->plan, marks);
    mark_nodes(cluster, job->next, marks);
    for (size_t i = 0; i < cluster->node_count; i++) {
        if (!marks[i])
            continue;
        if (make_room(questions))
            return -ENOMEM;
        unsigned at = questions->count++;
        questions->jobs[at] = job;
        questions->nodes[at] = &cluster->nodes[i];
        questions->fetches[at] = (struct fetch){0};
        ask(&questions->fetches[at], &cluster->nodes[i], job->name);
    }
    return 0;
}

static int take_answers(struct cluster_client *client, struct questions *questions,
                        struct worker_list *list, struct error *error)
{
    int status = 0;

    fetch_all(client, questions->fetches, questions->count, FETCH_QUICK_NS);
    for (unsigned i = 0; i < questions->count && !status; i++)
        status = take(client, list, questions->jobs[i], questions->nodes[i]->name,
                      &questions->fetches[i], error);
    return status;
}

int worker_list_load_job(struct cluster_client *client, const struct cluster *cluster,
                         const struct cluster_job *job, struct worker_list *list,
                         struct error *error)
{
    CLEANUP(questions_done) struct questions questions = {0};

    if (ask_about(&questions, cluster, job))
        return error_set(error, -ENOMEM, "no memory for the workers");
    return take_answers(client, &questions, list, error);
}

int worker_list_load(struct cluster_client *client, const struct cluster *cluster,
                     struct worker_list *ret_list, struct error *error)
{
    CLEANUP(questions_done) struct questions questions = {0};
    struct worker_list list = {0};
    int status = 0;

    for (size_t i = 0; i < cluster->job_count && !status; i++)
        if (!cluster_job_over(&cluster->jobs[i]))
            status = ask_about(&questions, cluster, &cluster->jobs[i]);
    if (status)
        return error_set(error, status, "no memory for the workers");
    status = take_answers(client, &questions, &list, error);
    worker_list_finish(&list);
    if (status)
        worker_list_done(&list);
    else
        *ret_list = list;
    return status;
}
