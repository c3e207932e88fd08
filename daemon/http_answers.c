#include "daemon/http_answers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "daemon/fencing.h"
#include "daemon/job.h"
#include "elastic/isolation.h"

#define ANSWER_BYTES_MAX                                                                           \
    ((size_t)8 << 20) /* a longer file comes in several requests, by `from`                        \
                       */

static int append_tree(json_t *tree, struct bytes *body, struct error *error)
{
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    int status = text ? bytes_append_format(body, "%s\n", text) : -ENOMEM;

    return status ? error_set(error, status, "no memory for the answer") : 0;
}

static bool is_any(const struct job *job)
{
    return job != NULL;
}

static json_t *job_names(const struct daemon *daemon, bool (*is_meant)(const struct job *job))
{
    json_t *names = json_array();

    for (const struct job *job = daemon->jobs; names && job; job = job->next)
        if (is_meant(job) && json_array_append_new(names, json_string(job->name))) {
            json_decref(names);
            return NULL;
        }
    return names;
}

/* Neighbours of this node ask that when they do not reach etcd themselves (daemon/fencing.h). */
static const char *lease_word(const struct daemon *daemon)
{
    const struct registry *registry = daemon->registry;

    if (!registry || !registry_holds_key(registry))
        return "none";
    return isolation_doubts(registry_left_ns(registry), registry_safe_ns(registry)) ? "doubt"
                                                                                    : "safe";
}

int http_answer_node(const struct daemon *daemon, struct bytes *body, struct error *error)
{
    AUTO_JSON json_t *tree =
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:s, s:o, s:o, s:o}", "node",
                  daemon->config->node, "cluster", daemon->config->cluster, "version", FIRN_VERSION,
                  "leader", daemon->election ? election_leader(daemon->election) : "", "leads",
                  daemon->election && election_leads(daemon->election), "registered",
                  daemon->registered, "etcd_reachable", !daemon->store_away, "lease",
                  lease_word(daemon), "jobs", job_names(daemon, is_any), "held",
                  job_names(daemon, fencing_holds), "record", node_record_encode(&daemon->self));

    return append_tree(tree, body, error);
}

/* One number of a JSON line, without parsing the line: our own writers put `"key":digits` there. */
static uint64_t line_number(const char *line, size_t length, const char *key)
{
    char pattern[32];
    int pattern_length = snprintf(pattern, sizeof(pattern), "\"%s\":", key);
    const char *at = memmem(line, length, pattern, (size_t)pattern_length);

    return at ? strtoull(at + pattern_length, NULL, 10) : 0;
}

/* Lines whose number is at least @from, oldest first, up to the answer's bound. */
static int append_lines(const char *path, const char *key, uint64_t from, struct bytes *body,
                        struct error *error)
{
    struct bytes text = {0};
    int status = file_read(path, (size_t)8 << 30, &text, error);

    for (size_t at = 0; !status && at < text.size_bytes && body->size_bytes < ANSWER_BYTES_MAX;) {
        const char *line = (const char *)text.data + at;
        const char *end = memchr(line, '\n', text.size_bytes - at);
        if (!end)
            break;
        size_t length = (size_t)(end + 1 - line);
        if (from == 0 || line_number(line, length, key) >= from)
            status = bytes_append(body, line, length);
        at += length;
    }
    bytes_done(&text);
    return status;
}

int http_answer_metrics(const struct daemon *daemon, const char *job, uint64_t from_step,
                        struct bytes *body, struct error *error)
{
    char dir[CONFIG_TEXT_SIZE], path[CONFIG_TEXT_SIZE + 32];

    daemon_job_dir(daemon, job, dir);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    return append_lines(path, "step", from_step, body, error);
}

int http_answer_events(const struct daemon *daemon, const char *job, uint64_t from_ns,
                       struct bytes *body, struct error *error)
{
    char dir[CONFIG_TEXT_SIZE], path[CONFIG_TEXT_SIZE + 32];

    daemon_job_dir(daemon, job, dir);
    snprintf(path, sizeof(path), "%s/events.jsonl", dir);
    return append_lines(path, "unix_ns", from_ns, body, error);
}

int http_answer_log(const struct daemon *daemon, const char *job, unsigned slot,
                    uint64_t size_bytes, struct bytes *body, struct error *error)
{
    char dir[CONFIG_TEXT_SIZE], path[CONFIG_TEXT_SIZE + 32];
    size_t wanted = MIN((size_t)size_bytes, ANSWER_BYTES_MAX);
    AUTO_CLOSE int file = -1;
    struct stat status;

    daemon_job_dir(daemon, job, dir);
    snprintf(path, sizeof(path), "%s/worker-%u.log", dir, slot);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status))
        return error_set(error, -errno, "%s: %s", path, strerror(errno));
    AUTO_FREE char *tail = malloc(wanted + 1);
    off_t from = MAX(status.st_size - (off_t)wanted, (off_t)0);
    ssize_t length = tail ? pread(file, tail, wanted, from) : -1;
    if (length < 0)
        return error_set(error, -EIO, "%s cannot be read", path);
    return bytes_append(body, tail, (size_t)length);
}

static json_t *worker_json(const struct job *job, unsigned slot)
{
    const struct worker_report *status = &job->statuses[slot];
    const struct control_progress *progress = &job->progress[slot];
    int rank = job->plan ? plan_find(job->plan, job->daemon->config->node, slot) : -1;
    bool computes = rank >= 0 && (unsigned)rank < job->plan->worker_count;
    unsigned stage = computes ? (unsigned)rank % job->plan->stage_count : 0;
    const unsigned *lanes =
        computes ? job->plan->replica_first_lane + (unsigned)rank / job->plan->stage_count : NULL;

    return json_pack(
        "{s:i, s:i, s:s, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:b}", "slot", (int)slot,
        "pid", worker_process_pid(job->processes[slot]), "phase", worker_phase_word(status->phase),
        "generation", (json_int_t)status->generation, "step",
        (json_int_t)MAX(progress->step, status->applied_step), "stage", computes ? (int)stage : -1,
        "replica", computes ? rank / (int)job->plan->stage_count : -1, "first_unit",
        computes ? (int)job->plan->stage_first_unit[stage] : 0, "unit_count",
        computes
            ? (int)(job->plan->stage_first_unit[stage + 1] - job->plan->stage_first_unit[stage])
            : 0,
        "lanes", lanes ? (int)(lanes[1] - lanes[0]) : 0, "compute_seconds",
        progress->compute_seconds, "wait_seconds", progress->wait_seconds, "step_seconds",
        progress->step_seconds, "held", (int)fencing_holds_slot(job, slot));
}

static const struct job *find_job(const struct daemon *daemon, const char *name)
{
    for (const struct job *job = daemon->jobs; job; job = job->next)
        if (!strcmp(job->name, name))
            return job;
    return NULL;
}

int http_answer_workers(const struct daemon *daemon, const char *job_name, struct bytes *body,
                        struct error *error)
{
    const struct job *job = find_job(daemon, job_name);
    AUTO_JSON json_t *tree = json_pack("{s:[]}", "workers");
    json_t *workers = tree ? json_object_get(tree, "workers") : NULL;

    if (!job)
        return error_set(error, -ENOENT, "job %s has no part on node %s", job_name,
                         daemon->config->node);
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX && workers; slot++)
        if (job->processes[slot] && json_array_append_new(workers, worker_json(job, slot)))
            return error_set(error, -ENOMEM, "no memory for the answer");
    return append_tree(tree, body, error);
}
