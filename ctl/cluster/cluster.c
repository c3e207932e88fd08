#include "ctl/cluster/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "ctl/cluster/remembered.h"
#include "ctl/view/format.h"
#include "elastic/job/edit_distance.h"
#include "elastic/job/job_spec.h"

#define REMEMBER_NS     (10 * NS_PER_SECOND)
#define WORD_SECONDS    10 /* a job reports progress at least this often, or after each step */
#define AWAY_TIMEOUT_NS (NS_PER_SECOND / 4)

struct parser {
    struct cluster *cluster;
    const char *name;
    char drains[KV_KEY_MAX], leader[KV_KEY_MAX];
};

/* ---- lists that grow ---- */

static void *grow(void *array, size_t count, size_t item_size)
{
    /* Grow at every power of two. */
    if (count & (count - 1))
        return array;
    return reallocarray(array, count ? 2 * count : 1, item_size);
}

static struct cluster_node *add_node(struct cluster *cluster, const char *name)
{
    struct cluster_node *nodes = grow(cluster->nodes, cluster->node_count, sizeof(*nodes));

    if (!nodes)
        return NULL;
    cluster->nodes = nodes;
    struct cluster_node *node = &nodes[cluster->node_count++];
    *node = (struct cluster_node){0};
    snprintf(node->name, sizeof(node->name), "%s", name);
    return node;
}

static struct cluster_job *find_or_add_job(struct cluster *cluster, const char *name)
{
    for (size_t i = 0; i < cluster->job_count; i++)
        if (!strcmp(cluster->jobs[i].name, name))
            return &cluster->jobs[i];
    struct cluster_job *jobs = grow(cluster->jobs, cluster->job_count, sizeof(*jobs));
    if (!jobs)
        return NULL;
    cluster->jobs = jobs;
    struct cluster_job *job = &jobs[cluster->job_count++];
    *job = (struct cluster_job){0};
    snprintf(job->name, sizeof(job->name), "%s", name);
    return job;
}

/* ---- one key each ---- */

static void damaged(struct cluster *cluster, const char *key, const struct error *error)
{
    if (!cluster->damaged++)
        snprintf(cluster->damage, sizeof(cluster->damage), "%.120s: %.120s", key, error->text);
}

static int take_spec(struct cluster_job *job, const json_t *tree, const char *key,
                     struct error *error)
{
    struct job_spec *spec = calloc(1, sizeof(*spec));
    int status = spec ? job_spec_decode(tree, key, NULL, NULL, spec, error) : -ENOMEM;

    if (status) {
        free(spec);
        return status;
    }
    free(job->spec);
    job->spec = spec;
    return 0;
}

static int take_checkpoint(struct cluster_job *job, const json_t *tree, struct error *error)
{
    struct checkpoint_record record;
    int status = checkpoint_record_decode(tree, &record, error);

    if (status)
        return status;
    struct checkpoint_record *records =
        grow(job->checkpoints, job->checkpoint_count, sizeof(*records));
    if (!records) {
        checkpoint_record_done(&record);
        return -ENOMEM;
    }
    job->checkpoints = records;
    records[job->checkpoint_count++] = record;
    return 0;
}

static int take_object(struct cluster_job *job, const json_t *tree, struct error *error)
{
    struct object_record record;
    int status = object_record_decode(tree, &record, error);

    if (status)
        return status;
    struct object_record *records = grow(job->objects, job->object_count, sizeof(*records));
    if (!records)
        return -ENOMEM;
    job->objects = records;
    records[job->object_count++] = record;
    return 0;
}

static int take_progress(struct cluster_job *job, const json_t *tree, struct error *error)
{
    int status = progress_record_decode(tree, &job->progress, error);

    job->has_progress = !status;
    return status;
}

static void note_revision(struct cluster_job *job, const char *leaf, int64_t revision)
{
    const struct {
        const char *leaf;
        int64_t *revision;
    } noted[] = {
        {"spec", &job->revisions.spec},   {"desired", &job->revisions.desired},
        {"state", &job->revisions.state}, {"generation", &job->revisions.generation},
        {"next", &job->revisions.next},
    };

    for (size_t i = 0; i < ARRAY_COUNT(noted); i++)
        if (!strcmp(leaf, noted[i].leaf))
            *noted[i].revision = revision;
}

static int take_job_leaf(struct cluster_job *job, const char *leaf, const struct kv_entry *entry,
                         const json_t *tree, struct error *error)
{
    if (!strcmp(leaf, "spec"))
        return take_spec(job, tree, entry->key, error);
    if (!strcmp(leaf, "desired"))
        return desired_record_decode(tree, &job->desired, error);
    if (!strcmp(leaf, "submission"))
        return submission_record_decode(tree, &job->submission, error);
    if (!strcmp(leaf, "state"))
        return state_record_decode(tree, &job->state, error);
    if (!strcmp(leaf, "progress"))
        return take_progress(job, tree, error);
    if (!strcmp(leaf, "generation"))
        return plan_decode(tree, &job->plan, error);
    if (!strcmp(leaf, "next"))
        return plan_decode(tree, &job->next, error);
    if (!strncmp(leaf, "objects/", 8))
        return take_object(job, tree, error);
    return take_checkpoint(job, tree, error);
}

static bool leaf_matters(const char *leaf)
{
    return strncmp(leaf, "reports/", 8) != 0; /* only for firnds, and most of the bytes */
}

static int take_json(struct parser *parser, const struct kv_entry *entry, struct error *error)
{
    char name[NAME_SIZE], leaf[128];
    AUTO_JSON json_t *tree = NULL;
    bool is_node = keys_match_node(entry->key, parser->name, name);
    bool is_job = !is_node && (keys_match_job(entry->key, parser->name, name, leaf) ||
                               keys_match_said(entry->key, parser->name, name, leaf));
    int status;

    if (!is_node && (!is_job || !leaf_matters(leaf)))
        return 0;
    struct cluster_job *job = is_job ? find_or_add_job(parser->cluster, name) : NULL;
    if (is_job && !job)
        return -ENOMEM;
    if (is_job)
        note_revision(job, leaf, entry->mod_revision);
    status = json_parse(entry->value, entry->value_bytes, entry->key, &tree, error);
    if (status)
        return status;
    if (is_node) {
        struct node_record record;
        status = node_record_decode(tree, &record, error);
        struct cluster_node *node = status ? NULL : add_node(parser->cluster, name);
        if (node)
            node->record = record;
        return status ? status : node ? 0 : -ENOMEM;
    }
    return take_job_leaf(job, leaf, entry, tree, error);
}

static int take_entry(struct parser *parser, const struct kv_entry *entry)
{
    struct error error = {0};
    int status;

    if (!strcmp(entry->key, parser->leader)) {
        snprintf(parser->cluster->leader, NAME_SIZE, "%.*s", NAME_SIZE - 1, entry->value);
        return 0;
    }
    status = take_json(parser, entry, &error);
    if (status && status != -ENOMEM) {
        damaged(parser->cluster, entry->key, &error);
        status = 0;
    }
    return status;
}

/* ---- the whole picture ---- */

static int compare_nodes(const void *a, const void *b)
{
    return strcmp(((const struct cluster_node *)a)->name, ((const struct cluster_node *)b)->name);
}

static int compare_jobs(const void *a, const void *b)
{
    return strcmp(((const struct cluster_job *)a)->name, ((const struct cluster_job *)b)->name);
}

static int compare_objects(const void *a, const void *b)
{
    uint64_t x = ((const struct object_record *)a)->step;
    uint64_t y = ((const struct object_record *)b)->step;

    return (x < y) - (x > y);
}

static int compare_checkpoints(const void *a, const void *b)
{
    uint64_t x = ((const struct checkpoint_record *)a)->step;
    uint64_t y = ((const struct checkpoint_record *)b)->step;

    return x < y ? 1 : -(x > y);
}

static void job_done(struct cluster_job *job)
{
    free(job->spec);
    plan_free(job->plan);
    plan_free(job->next);
    for (size_t i = 0; i < job->checkpoint_count; i++)
        checkpoint_record_done(&job->checkpoints[i]);
    free(job->checkpoints);
    free(job->objects);
}

/* Set the progress of a job that restarted from a checkpoint and has computed no step since to the
 * checkpoint's step: its earlier progress is stale. */
static void take_back_progress(struct cluster_job *job)
{
    struct progress_record *progress = &job->progress;
    const struct plan *plan = job->plan;

    if (!job->has_progress || !plan || progress->step <= plan->start.resume_step ||
        progress->generation >=
            (plan->start.source == PLAN_SOURCE_MEMORY ? plan->follows : plan->generation))
        return;
    progress->step = plan->start.resume_step;
    progress->frozen_layers = plan->layout.frozen_layers;
    progress->loss = progress->grad_norm = progress->validation_loss = NAN;
}

/* Keep only jobs with a spec: keys without a spec are left from a removed job. */
static void sort_out(struct cluster *cluster)
{
    size_t kept = 0;

    for (size_t i = 0; i < cluster->job_count; i++) {
        if (cluster->jobs[i].spec)
            cluster->jobs[kept++] = cluster->jobs[i];
        else
            job_done(&cluster->jobs[i]);
    }
    cluster->job_count = kept;
    for (size_t i = 0; i < kept; i++) {
        struct cluster_job *job = &cluster->jobs[i];
        take_back_progress(job);
        if (job->checkpoint_count > 1)
            qsort(job->checkpoints, job->checkpoint_count, sizeof(*job->checkpoints),
                  compare_checkpoints);
        if (job->object_count > 1)
            qsort(job->objects, job->object_count, sizeof(*job->objects), compare_objects);
    }
    if (cluster->node_count > 1)
        qsort(cluster->nodes, cluster->node_count, sizeof(*cluster->nodes), compare_nodes);
    if (kept > 1)
        qsort(cluster->jobs, kept, sizeof(*cluster->jobs), compare_jobs);
}

static void mark_drained(const struct parser *parser, const struct kv_entry *entries, size_t count)
{
    size_t length = strlen(parser->drains);

    for (size_t i = 0; i < count; i++) {
        if (strncmp(entries[i].key, parser->drains, length))
            continue;
        struct cluster_node *node =
            cluster_find_node(parser->cluster, entries[i].key + length, NULL);
        if (node)
            node->drained = true;
    }
}

int cluster_parse(const char *name, const struct kv_entry *entries, size_t count,
                  struct cluster *ret_cluster, struct error *error)
{
    struct cluster cluster = {0};
    struct parser parser = {.cluster = &cluster, .name = name};
    int status = 0;

    keys_leader(parser.leader, name);
    size_t length = strlen(keys_cluster(parser.drains, name));
    snprintf(parser.drains + length, sizeof(parser.drains) - length, "drains/");
    for (size_t i = 0; i < count && !status; i++)
        status = take_entry(&parser, &entries[i]);
    sort_out(&cluster);
    mark_drained(&parser, entries, count);
    if (status) {
        cluster_done(&cluster);
        return error_set(error, status, "no memory for the cluster's keys");
    }
    *ret_cluster = cluster;
    return 0;
}

struct loading {
    struct cluster_client *client;
    struct cluster *cluster;
    uint64_t unix_ns; /* time of the remembered keys */
};

/* Save only at intervals: pictures are drawn four times a second. */
static void remember(struct cluster_client *client, const struct kv_result *result)
{
    char path[REMEMBERED_PATH_SIZE];
    uint64_t now_ns = clock_monotonic_ns();

    if (client->saved_ns && now_ns - client->saved_ns < REMEMBER_NS)
        return;
    client->saved_ns = now_ns;
    if (remembered_path(client->endpoints, client->cluster, path))
        remembered_save(path, result->entries, result->entry_count);
}

static int take_result(void *context, const struct kv_result *result, struct error *error)
{
    struct loading *loading = context;

    remember(loading->client, result);
    return cluster_parse(loading->client->cluster, result->entries, result->entry_count,
                         loading->cluster, error);
}

static int take_remembered(void *context, const struct kv_entry *entries, size_t count,
                           struct error *error)
{
    struct loading *loading = context;

    return cluster_parse(loading->client->cluster, entries, count, loading->cluster, error);
}

static int load_remembered(struct loading *loading)
{
    const struct cluster_client *client = loading->client;
    char path[REMEMBERED_PATH_SIZE];

    return remembered_path(client->endpoints, client->cluster, path)
               ? remembered_load(path, take_remembered, loading, &loading->unix_ns, NULL)
               : -ENOENT;
}

/* Print once that etcd is unreachable. From then on do not wait for etcd, because the nodes answer
 * at once. */
static int say_away(struct cluster_client *client, const struct error *away, uint64_t unix_ns)
{
    char moment[FORMAT_SIZE];

    if (!client->away)
        fprintf(stderr,
                "firnctl: %s\nfirnctl: asking the nodes that were registered at %s; states and "
                "layouts are of that time\n",
                away->text, format_moment(unix_ns, moment));
    client->away = client->quiet = true;
    client->timeout_ns = MIN(client->timeout_ns, (uint64_t)AWAY_TIMEOUT_NS);
    return 0;
}

int cluster_load(struct cluster_client *client, struct cluster *ret_cluster, struct error *error)
{
    struct loading loading = {.client = client, .cluster = ret_cluster};
    char prefix[KV_KEY_MAX];

    struct error away = {0};
    int status = cluster_client_range(client, keys_cluster(prefix, client->cluster), true,
                                      take_result, &loading, &away);
    if (!status)
        client->away = false;
    else if (client->asks_nodes && status != -ENOMEM && !load_remembered(&loading))
        return say_away(client, &away, loading.unix_ns);
    else
        *error = away;
    return status;
}

int cluster_open(const struct arguments *arguments, struct cluster_client *ret_client,
                 struct cluster *ret_cluster, struct error *error)
{
    int status = cluster_client_open(arguments, ret_client, error);

    return status ? status : cluster_load(ret_client, ret_cluster, error);
}

void cluster_done(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->job_count; i++)
        job_done(&cluster->jobs[i]);
    free(cluster->jobs);
    free(cluster->nodes);
    *cluster = (struct cluster){0};
}

struct cluster_job *cluster_find_job(const struct cluster *cluster, const char *name,
                                     struct error *error)
{
    const char *near = NULL;

    for (size_t i = 0; i < cluster->job_count; i++) {
        if (!strcmp(cluster->jobs[i].name, name))
            return &cluster->jobs[i];
        if (edit_distance_is_close(name, cluster->jobs[i].name))
            near = cluster->jobs[i].name;
    }
    error_set(error, -ENOENT, "there is no job \"%s\"%s%s%s", name, near ? "; did you mean \"" : "",
              near ? near : "; firnctl job list shows them", near ? "\"?" : "");
    return NULL;
}

struct cluster_node *cluster_find_node(const struct cluster *cluster, const char *name,
                                       struct error *error)
{
    for (size_t i = 0; i < cluster->node_count; i++)
        if (!strcmp(cluster->nodes[i].name, name))
            return &cluster->nodes[i];
    error_set(error, -ENOENT,
              "no node \"%s\" is registered; firnctl node list shows those that are", name);
    return NULL;
}

const char *cluster_job_state(const struct cluster_job *job)
{
    return job->state.state[0] ? job->state.state : "submitted";
}

bool cluster_job_over(const struct cluster_job *job)
{
    const char *state = job->state.state;

    return !strcmp(state, "completed") || !strcmp(state, "cancelled") || !strcmp(state, "failed");
}

bool cluster_job_change_waits(const struct cluster_job *job)
{
    return job->plan && job->plan->change.planned && job->has_progress &&
           !strcmp(cluster_job_state(job), "preparing") &&
           job->progress.generation == job->plan->follows;
}

/* Return whether the job trains: a generation trains on while its successor is being prepared. */
static bool trains(const struct cluster_job *job)
{
    const char *state = cluster_job_state(job);

    return !strcmp(state, "running") || cluster_job_change_waits(job) ||
           (!strcmp(state, "preparing") && job->plan && job->plan->layout.worker_count &&
            job->progress.generation == job->plan->generation);
}

double cluster_job_word_age(const struct cluster_job *job, uint64_t now_unix_ns)
{
    const struct progress_record *progress = &job->progress;
    uint64_t then_ns = progress->unix_ns;
    double seconds = now_unix_ns > then_ns ? (double)(now_unix_ns - then_ns) / NS_PER_SECOND : 0;
    double usual =
        WORD_SECONDS + (isfinite(progress->step_seconds) ? 3 * progress->step_seconds : 0);

    return then_ns && trains(job) && seconds > usual ? seconds : 0;
}

double cluster_job_switch_seconds(const struct cluster_job *job)
{
    const struct progress_record *progress = &job->progress;
    const struct plan *plan = job->plan;

    if (!plan)
        return 0;
    bool is_new = plan->change.planned && job->has_progress &&
                  progress->generation == plan->generation && progress->pause_seconds > 0;
    return is_new ? progress->pause_seconds : plan->change.switch_seconds;
}

const struct checkpoint_record *cluster_sound_checkpoint(const struct cluster_job *job)
{
    for (size_t i = 0; i < job->checkpoint_count; i++) /* newest first */
        if (!job->checkpoints[i].damaged[0])
            return &job->checkpoints[i];
    return NULL;
}

int cluster_job_check_open(const struct cluster_job *job, struct error *error)
{
    char words[sizeof(job->state.state) + sizeof(job->state.text) + 8];

    if (!cluster_job_over(job))
        return 0;
    cluster_job_words(job, words, sizeof(words));
    const struct checkpoint_record *sound = cluster_sound_checkpoint(job);
    if (!sound || !strcmp(job->state.state, "completed"))
        return error_set(error, -EALREADY, "job %s is over (%s)", job->name, words);
    return error_set(error, -EALREADY,
                     "job %s is over (%.600s).\nAnother one goes on after its step %" PRIu64
                     ": firnctl job submit --name NAME --from %.300s",
                     job->name, words, sound->step, sound->path);
}

void cluster_job_words(const struct cluster_job *job, char *ret_text, size_t size)
{
    const char *state = cluster_job_state(job);
    const char *why = job->state.state[0] ? job->state.text : "no leader has looked at it yet";

    if (!strcmp(why, state))
        why = "";
    snprintf(ret_text, size, "%s%s%s", state, why[0] ? ": " : "", why);
}
