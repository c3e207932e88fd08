#include "daemon/http/http_answers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/line_rotation.h"
#include "base/sorted_lines.h"
#include "daemon/config/job_dir.h"
#include "daemon/core/daemon.h"
#include "daemon/core/outbox.h"
#include "daemon/http/trace_files.h"
#include "daemon/jobs/fencing.h"
#include "daemon/jobs/job.h"
#include "elastic/agent/isolation.h"

/* Send a longer file in several requests, by `from`: the loop that sends the answers also keeps
 * this node's lease alive. */
#define ANSWER_BYTES_MAX ((size_t)256 << 10)

static int append_tree(json_t *tree, struct bytes *body, struct error *error)
{
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    int status = text ? bytes_append_format(body, "%s\n", text) : -ENOMEM;

    return status ? error_set(error, status, "no memory for the answer") : 0;
}

static bool is_any(const struct job *job)
{
    return job;
}

static json_t *job_names(const struct job *jobs, bool (*is_meant)(const struct job *job))
{
    json_t *names = json_array();

    for (const struct job *job = jobs; names && job; job = job->next)
        if (is_meant(job) && json_array_append_new(names, json_string(job->name))) {
            json_decref(names);
            return NULL;
        }
    return names;
}

/* State of this node's lease. Neighbours ask for it when they do not reach etcd themselves
 * (daemon/jobs/fencing.h). */
static const char *lease_word(const struct daemon_node *node)
{
    const struct registry *registry = node->registry;

    if (!registry || !registry_holds_key(registry))
        return "none";
    return isolation_doubts(registry_left_ns(registry), registry_safe_ns(registry)) ? "doubt"
                                                                                    : "safe";
}

int http_answer_node(const struct daemon *daemon, struct bytes *body, struct error *error)
{
    AUTO_JSON json_t *tree = json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:s, s:o, s:o, s:f, s:o}", "node",
        daemon->config->node, "cluster", daemon->config->cluster, "version", FIRN_VERSION, "leader",
        daemon->node.election ? election_leader(daemon->node.election) : "", "leads",
        daemon->node.election && election_leads(daemon->node.election), "registered",
        daemon->node.registered, "etcd_reachable", !daemon->keys.away, "etcd_writable",
        !outbox_refused(daemon->keys.outbox), "lease", lease_word(&daemon->node), "jobs",
        job_names(daemon->jobs, is_any), "held", job_names(daemon->jobs, fencing_holds),
        "loop_max_ms", (double)daemon->loop.turns.longest_ns / NS_PER_MS, "record",
        node_record_encode(&daemon->node.self));

    return append_tree(tree, body, error);
}

/* Read one number of a JSON line without parsing the line: firn itself writes `"key":digits`. */
static uint64_t line_number(const char *line, size_t length, const char *key)
{
    char pattern[32];
    int pattern_length = snprintf(pattern, sizeof(pattern), "\"%s\":", key);
    const char *at = memmem(line, length, pattern, (size_t)pattern_length);

    return at ? strtoull(at + pattern_length, NULL, 10) : 0;
}

static int step_of_line(const char *line, size_t length, uint64_t *ret_step)
{
    *ret_step = line_number(line, length, "step");
    return 0;
}

static int time_of_line(const char *line, size_t length, uint64_t *ret_ns)
{
    *ret_ns = line_number(line, length, "unix_ns");
    return 0;
}

/* Append whole lines from @at on: at least one, and as many as an answer may hold. */
static int append_from(int file, off_t at, off_t size, struct bytes *body)
{
    size_t room = ANSWER_BYTES_MAX;

    while (at < size) {
        AUTO_FREE char *text = NULL;
        off_t end = MIN(size, at + (off_t)room);
        int status = sorted_lines_read(file, at, end, &text);
        if (status)
            return status;
        const char *last = memrchr(text, '\n', (size_t)(end - at));
        if (last)
            return bytes_append(body, text, (size_t)(last + 1 - text));
        if (end == size || room > SORTED_LINE_BYTES_MAX)
            return 0; /* an incomplete line, or none */
        room *= 2;
    }
    return 0;
}

/* Append the lines whose number is at least `from`, oldest first, up to the answer's limit. */
static int append_lines(int descriptor, off_t size, const struct http_file *file,
                        struct bytes *body)
{
    const struct sorted_lines lines = {
        .descriptor = descriptor,
        .number_of = file->part == HTTP_LINES_BY_STEP ? step_of_line : time_of_line,
    };
    off_t at = 0;
    int status = file->from > 0 ? sorted_lines_find(&lines, file->from, size, &at) : 0;

    return status ? status : append_from(descriptor, at, size, body);
}

static int append_range(int descriptor, off_t from, size_t size_bytes, struct bytes *body)
{
    AUTO_FREE uint8_t *data = malloc(size_bytes + 1);
    size_t done = 0;

    if (!data)
        return -ENOMEM;
    while (done < size_bytes) {
        ssize_t n = pread(descriptor, data + done, size_bytes - done, from + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    bytes_done(body);
    *body = (struct bytes){.data = data, .size_bytes = done, .capacity_bytes = size_bytes + 1};
    data = NULL;
    return 0;
}

void http_answer_job_file(const struct config *config, const char *job, const char *name,
                          struct http_file *ret_file)
{
    char dir[CONFIG_TEXT_SIZE];

    job_dir_format(config, job, dir);
    snprintf(ret_file->path, sizeof(ret_file->path), "%s/%s", dir, name);
}

size_t http_answer_bytes_max(const struct http_file *file)
{
    return file->part == HTTP_RANGE ? file->size_bytes
                                    : MAX(ANSWER_BYTES_MAX, SORTED_LINE_BYTES_MAX * 2);
}

static int read_path(const struct http_file *file, const char *path, struct bytes *body)
{
    AUTO_CLOSE int descriptor =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (file->part == HTTP_RANGE ? O_NOFOLLOW : 0));
    size_t wanted = MIN(file->size_bytes, ANSWER_BYTES_MAX);
    struct stat found;
    int status = 0;

    if (descriptor < 0 || fstat(descriptor, &found))
        return -errno;
    switch (file->part) {
    case HTTP_LINES_BY_STEP:
    case HTTP_LINES_BY_TIME:
        status = append_lines(descriptor, found.st_size, file, body);
        break;
    case HTTP_END:
        status =
            append_range(descriptor, MAX(found.st_size - (off_t)wanted, (off_t)0), wanted, body);
        break;
    case HTTP_RANGE:
        status = append_range(descriptor, (off_t)file->from, file->size_bytes, body);
        break;
    case HTTP_TRACES:
    case HTTP_SPANS:
        assert(false); /* read_trace() */
    }
    return status;
}

static int read_trace(const struct http_file *file, struct bytes *body, struct error *error)
{
    const struct trace_query query = {.from_step = file->from,
                                      .to_step = file->to,
                                      .after = file->after,
                                      .count_max = TRACE_FILES_SPANS_MAX};

    return file->part == HTTP_TRACES ? trace_files_list(file->path, body, error)
                                     : trace_files_read(file->path, &query, body, error);
}

/* If the file begins after `from`, read older lines from the rotated file (base/line_rotation.h).
 * Open the rotated file second: lines only move into it, so none is missed. */
static int read_older(const struct http_file *file, struct bytes *body)
{
    const char *line = (const char *)body->data, *end = memchr(line, '\n', body->size_bytes);
    CLEANUP(bytes_done) struct bytes older = {0};
    char path[sizeof(file->path) + sizeof(LINE_ROTATION_SUFFIX)];
    uint64_t first = 0;

    if (end && file->part == HTTP_LINES_BY_STEP)
        step_of_line(line, (size_t)(end - line), &first);
    else if (end)
        time_of_line(line, (size_t)(end - line), &first);
    if (first <= file->from)
        return 0;
    snprintf(path, sizeof(path), "%s" LINE_ROTATION_SUFFIX, file->path);
    int status = read_path(file, path, &older);
    if (!status && older.size_bytes) {
        struct bytes newer = *body;
        *body = older;
        older = newer;
    }
    return status == -ENOENT ? 0 : status;
}

static int add_seal(const struct http_seal *seal, struct bytes *body)
{
    uint8_t made[CHECKPOINT_SEAL_SIZE];

    checkpoint_seal(seal->key, seal->proof, body->data, body->size_bytes, made);
    return bytes_append(body, made, sizeof(made));
}

int http_answer_read(const struct http_file *file, struct bytes *body, struct error *error)
{
    const char *name = strrchr(file->path, '/'); /* do not disclose the folder to clients */
    bool lines = file->part == HTTP_LINES_BY_STEP || file->part == HTTP_LINES_BY_TIME;

    if (file->part == HTTP_TRACES || file->part == HTTP_SPANS)
        return read_trace(file, body, error);
    int status = read_path(file, file->path, body);

    if (!status && lines && body->size_bytes)
        status = read_older(file, body);
    if (!status && file->seal.is_wanted)
        status = add_seal(&file->seal, body);
    return status
               ? error_set(error, status, "%s: %s", name ? name + 1 : file->path, strerror(-status))
               : 0;
}

/* Progress arrives at the end of a step, so it may describe the generation before. */
static uint64_t memory_of(const struct control_progress *progress,
                          const struct worker_report *status)
{
    return progress->generation == status->generation ? progress->memory_bytes : 0;
}

static json_t *worker_json(const struct job *job, unsigned slot)
{
    const struct worker_report *status = &job->workers.statuses[slot];
    const struct control_progress *progress = &job->workers.progress[slot];
    int rank = job->plans.plan
                   ? plan_layout_find(&job->plans.plan->layout, job->daemon->config->node, slot)
                   : -1;
    bool computes = rank >= 0 && (unsigned)rank < job->plans.plan->layout.worker_count;
    unsigned stage = computes ? (unsigned)rank % job->plans.plan->layout.stage_count : 0;
    unsigned replica = computes ? (unsigned)rank / job->plans.plan->layout.stage_count : 0;
    const unsigned *lanes = computes ? job->plans.plan->layout.replica_first_lane + replica : NULL;

    return json_pack(
        "{s:i, s:i, s:s, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:I, s:b}", "slot",
        (int)slot, "pid", worker_process_pid(job->workers.processes[slot]), "phase",
        worker_phase_word(status->phase), "generation", (json_int_t)status->generation, "step",
        (json_int_t)MAX(progress->step, status->applied_step), "stage", computes ? (int)stage : -1,
        "replica", computes ? (int)replica : -1, "first_unit",
        computes ? (int)job->plans.plan->layout.stage_first_unit[stage] : 0, "unit_count",
        computes ? (int)(job->plans.plan->layout.stage_first_unit[stage + 1] -
                         job->plans.plan->layout.stage_first_unit[stage])
                 : 0,
        "lanes", lanes ? (int)(lanes[1] - lanes[0]) : 0, "lanes_computed",
        computes ? plan_layout_lanes_computed(&job->plans.plan->layout, replica) : 0,
        "compute_seconds", progress->compute_seconds, "wait_seconds", progress->wait_seconds,
        "step_seconds", progress->step_seconds, "memory_bytes",
        (json_int_t)memory_of(progress, status), "held", (int)fencing_holds_slot(job, slot));
}

static const struct job *find_job(const struct job *jobs, const char *name)
{
    for (const struct job *job = jobs; job; job = job->next)
        if (!strcmp(job->name, name))
            return job;
    return NULL;
}

int http_answer_workers(const struct config *config, const struct job *jobs, const char *job_name,
                        struct bytes *body, struct error *error)
{
    const struct job *job = find_job(jobs, job_name);
    AUTO_JSON json_t *tree = json_pack("{s:[]}", "workers");
    json_t *workers = tree ? json_object_get(tree, "workers") : NULL;

    if (!job)
        return error_set(error, -ENOENT, "job %s has no part on node %s", job_name, config->node);
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX && workers; slot++)
        if (job->workers.processes[slot] && json_array_append_new(workers, worker_json(job, slot)))
            return error_set(error, -ENOMEM, "no memory for the answer");
    return append_tree(tree, body, error);
}
