/*
 * The simulator's versions of system calls and library functions. The linker takes them in place of
 * the libraries' own. Functions that the simulator also needs for real are wrapped
 * (CMakeLists.txt).
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/retain.h"
#include "daemon/core/events.h"
#include "daemon/http/http_answers.h"
#include "daemon/jobs/job_folder.h"
#include "membership/transport/http.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_disk.h"
#include "sim/node/sim_node.h"

ssize_t __wrap_getrandom(void *data, size_t size_bytes, unsigned flags);
int __wrap_file_replace(const char *path, const void *data, size_t size_bytes, unsigned mode,
                        struct error *error);
int __wrap_file_make_directories(const char *path, unsigned mode, struct error *error);
struct checkpoint_marks __wrap_checkpoint_marks_read(const char *path);
bool __wrap_checkpoint_is_lost(const char *path, int code);
int __wrap_checkpoint_look(const char *path, struct error *error);
int __wrap_checkpoint_sweep(const struct checkpoint_sweep *sweep, struct error *error);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *context), void *context);
int __wrap_pthread_join(pthread_t thread, void **ret_result);

/* ---- time ---- */

static uint64_t simulated_ns(void *context)
{
    (void)context;
    return sim_now ? sim_now->now_ns : 0;
}

const struct clock *clock_real(void)
{
    static const struct clock clock = {.monotonic_ns = simulated_ns, .realtime_ns = simulated_ns};
    return &clock;
}

uint64_t clock_monotonic_ns(void)
{
    return simulated_ns(NULL);
}

uint64_t clock_unix_ns(void)
{
    return simulated_ns(NULL);
}

/* Keys of generations. */
ssize_t __wrap_getrandom(void *data, size_t size_bytes, unsigned flags)
{
    uint8_t *bytes = data;
    (void)flags;
    for (size_t i = 0; i < size_bytes; i++)
        bytes[i] = (uint8_t)sim_random(sim_now, STREAM_SETUP, 256);
    return (ssize_t)size_bytes;
}

/* ---- files ---- */

int __wrap_file_replace(const char *path, const void *data, size_t size_bytes, unsigned mode,
                        struct error *error)
{
    (void)path;
    (void)data;
    (void)size_bytes;
    (void)mode;
    (void)error;
    return 0;
}

int __wrap_file_make_directories(const char *path, unsigned mode, struct error *error)
{
    (void)path;
    (void)mode;
    (void)error;
    return 0;
}

struct checkpoint_marks __wrap_checkpoint_marks_read(const char *path)
{
    (void)path;
    return (struct checkpoint_marks){0};
}

int job_folder_open(const char *dir, int64_t created, bool *ret_was_its, struct error *error)
{
    (void)dir;
    (void)created;
    (void)error;
    *ret_was_its = true;
    return 0;
}

void neighbours_save(const struct config *config, const struct neighbour *list, unsigned count)
{
    struct sim_node *node = &sim_now->nodes[sim_node_index(sim_now, config->node)];
    memcpy(node->known, list, count * sizeof(*list));
    node->known_count = count;
}

unsigned neighbours_load(const struct config *config, struct neighbour ret_list[NEIGHBOURS_MAX])
{
    const struct sim_node *node = &sim_now->nodes[sim_node_index(sim_now, config->node)];
    memcpy(ret_list, node->known, node->known_count * sizeof(*ret_list));
    return node->known_count;
}

void events_append(const char *job_dir, const struct event_facts *facts, const char *kind,
                   const char *text)
{
    (void)job_dir;
    sim_trace(sim_now, "%s: %s: %s", facts->node, kind, text);
}

int __wrap_checkpoint_look(const char *path, struct error *error)
{
    if (sim_disk_open(sim_now, path))
        return 0;
    sim_check_missed(sim_now, sim_disk_step(path));
    return error_set(error, sim_now->seed % 2 == 0 ? -ENOENT : -EBADMSG, "%s is lost", path);
}

/* Sweep a node's own folder. */
int __wrap_checkpoint_sweep(const struct checkpoint_sweep *sweep, struct error *error)
{
    char name[NAME_SIZE];
    (void)error;
    int found = sscanf(sweep->folder, SIM_NODE_FOLDER "%63[^/]", name);
    assert(found == 1);
    sim_folders_sweep(sim_now, sim_node_index(sim_now, name), sweep);
    return 0;
}

/* Run the thread's long work at once. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *context), void *context)
{
    (void)attributes;
    memset(thread, 0, sizeof(*thread));
    run(context);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret_result)
{
    (void)thread;
    (void)ret_result;
    return 0;
}

/*
 * ENOENT alone does not distinguish a lost checkpoint from a folder that this node does not reach.
 */
bool __wrap_checkpoint_is_lost(const char *path, int code)
{
    (void)path;
    return code == -EBADMSG;
}

/* ---- one daemon asks another over HTTP ---- */

struct http_client {
    struct sim *sim;
    unsigned node;
    struct http_request *requests;
};

struct http_request {
    struct http_request *next;
    struct http_client *client;
    unsigned target;
    http_done_callback done;
    void *context;
    uint64_t deadline_ns;
    struct sim_event *event;
};

int http_client_new(const struct loop *loop, struct http_client **ret_client)
{
    const struct sim_firnd *firnd =
        (const struct sim_firnd *)((char *)loop->context - offsetof(struct sim_firnd, daemon.loop));
    *ret_client = sim_allocate(1, sizeof(**ret_client));
    (*ret_client)->sim = firnd->sim;
    (*ret_client)->node = firnd->node;
    return 0;
}

static void request_free(struct http_request *request)
{
    struct http_request **link = &request->client->requests;
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    sim_cancel(request->client->sim, request->event);
    free(request);
}

void http_cancel(struct http_request *request)
{
    if (request)
        request_free(request);
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    while (client->requests)
        request_free(client->requests);
    free(client);
}

void http_client_set_token(struct http_client *client, const char *token)
{
    (void)client; /* no simulated node has one */
    (void)token;
}

static void ask(void *context)
{
    struct http_request *request = context;
    struct sim *sim = request->client->sim;
    const struct sim_node *target = &sim->nodes[request->target];
    struct http_answer answer = {.status = 0, .code = 200};
    request->event = NULL;
    bool reachable = sim_reachable(sim, request->client->node, request->target);
    bool answers = reachable && target->firnd && target->firnd_pause.until_ns <= sim->now_ns;
    if (!answers && (!reachable || target->firnd) && sim->now_ns < request->deadline_ns) {
        request->event = sim_post(sim, request->deadline_ns,
                                  &sim->nodes[request->client->node].firnd_pause, ask, request);
        return;
    }
    if (!answers) {
        answer.status = reachable && !target->firnd ? -ECONNREFUSED : -ETIMEDOUT;
        answer.text = "no answer";
    }
    struct bytes body = {0};
    if (answers && http_answer_node(&target->firnd->daemon, &body, NULL) == 0) {
        answer.body = body.data;
        answer.body_bytes = body.size_bytes;
    }
    http_done_callback done = request->done;
    void *user = request->context;
    request_free(request);
    done(user, &answer);
    bytes_done(&body);
}

int http_get(struct http_client *client, const char *url, uint64_t timeout_ns,
             http_data_callback data, http_done_callback done, void *context,
             struct http_request **ret_request)
{
    const struct sim_node *target = sim_node_by_http(client->sim, url);
    (void)data;
    if (!target)
        return -EINVAL;
    struct http_request *request = sim_allocate(1, sizeof(*request));
    request->client = client;
    request->target = target->index;
    request->done = done;
    request->context = context;
    request->deadline_ns = client->sim->now_ns + timeout_ns;
    request->next = client->requests;
    client->requests = request;
    request->event = sim_post(client->sim, sim_transit(client->sim, client->node, target->index),
                              &client->sim->nodes[client->node].firnd_pause, ask, request);
    *ret_request = request;
    return 0;
}
