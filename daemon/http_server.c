#include "daemon/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "daemon/checkpoint_files.h"
#include "daemon/exposition.h"
#include "daemon/file_reader.h"
#include "daemon/http_answers.h"
#include "daemon/node_address.h"

#define CONNECTIONS_MAX   256
#define CONNECTION_IDLE_S 30

struct http_server {
    struct daemon *daemon;
    struct MHD_Daemon *mhd;
    sd_event_source *ready, *timer;
    struct file_reader *files;
};

/* A request for a file: its connection sleeps until the range has been read. */
struct transfer {
    struct file_range range; /* first: the reader gives it back */
    struct MHD_Connection *connection;
};

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned code, const char *type,
                             struct bytes *body)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->size_bytes, body->data, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_NO;

    if (response) {
        if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES)
            result = MHD_queue_response(connection, code, response);
        MHD_destroy_response(response);
    }
    return result;
}

static enum MHD_Result reply_problem(struct MHD_Connection *connection, int status,
                                     const char *text)
{
    unsigned code = status == -ENOENT   ? MHD_HTTP_NOT_FOUND
                    : status == -EINVAL ? MHD_HTTP_BAD_REQUEST
                    : status == -EACCES ? MHD_HTTP_FORBIDDEN
                                        : MHD_HTTP_INTERNAL_SERVER_ERROR;
    struct bytes body = {0};
    enum MHD_Result result = MHD_NO;

    if (!bytes_append_format(&body, "%s\n", text))
        result = reply(connection, code, "text/plain; charset=utf-8", &body);
    bytes_done(&body);
    return result;
}

static uint64_t number_argument(struct MHD_Connection *connection, const char *name,
                                uint64_t otherwise)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);

    return text && text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : otherwise;
}

/* /v1/jobs/JOB/WHAT */
static int answer_job(struct daemon *daemon, struct MHD_Connection *connection, const char *rest,
                      struct bytes *body, const char **ret_type, struct error *error)
{
    char job[NAME_SIZE];
    const char *slash = strchr(rest, '/');

    if (!slash || (size_t)(slash - rest) >= sizeof(job))
        return error_set(error, -ENOENT, "no such page");
    snprintf(job, sizeof(job), "%.*s", (int)(slash - rest), rest);
    if (!name_valid(job))
        return error_set(error, -EINVAL, "not a job name");
    *ret_type = "application/x-ndjson";
    if (!strcmp(slash, "/metrics"))
        return http_answer_metrics(daemon, job, number_argument(connection, "from", 0), body,
                                   error);
    if (!strcmp(slash, "/events"))
        return http_answer_events(daemon, job, number_argument(connection, "from", 0), body, error);
    *ret_type = "text/plain; charset=utf-8";
    if (!strcmp(slash, "/logs"))
        return http_answer_log(daemon, job, (unsigned)number_argument(connection, "slot", 0),
                               number_argument(connection, "bytes", 65536), body, error);
    *ret_type = "application/json";
    if (!strcmp(slash, "/workers"))
        return http_answer_workers(daemon, job, body, error);
    return error_set(error, -ENOENT, "no such page");
}

static int answer(struct daemon *daemon, struct MHD_Connection *connection, const char *url,
                  struct bytes *body, const char **ret_type, struct error *error)
{
    static const char jobs[] = "/v1/jobs/";

    *ret_type = "application/json";
    if (!strcmp(url, "/v1/node"))
        return http_answer_node(daemon, body, error);
    if (!strcmp(url, "/metrics")) {
        *ret_type = EXPOSITION_TYPE;
        return exposition_append(daemon, body) ? error_set(error, -ENOMEM, "no memory") : 0;
    }
    if (!strncmp(url, jobs, sizeof(jobs) - 1))
        return answer_job(daemon, connection, url + sizeof(jobs) - 1, body, ret_type, error);
    return error_set(error, -ENOENT, "no such page");
}

/* ---- files of checkpoints ---- */

static const struct job *find_job(const struct daemon *daemon, const char *name, size_t length)
{
    for (const struct job *job = daemon->jobs; job; job = job->next)
        if (strlen(job->name) == length && !strncmp(job->name, name, length))
            return job;
    return NULL;
}

/* /v1/jobs/JOB/checkpoints/REST: REST, and the job (NULL: not known here); NULL: another page */
static const char *checkpoint_page(const struct daemon *daemon, const char *url,
                                   const struct job **ret_job)
{
    static const char jobs[] = "/v1/jobs/", checkpoints[] = "/checkpoints/";
    const char *name = url + sizeof(jobs) - 1;
    const char *slash = strncmp(url, jobs, sizeof(jobs) - 1) ? NULL : strchr(name, '/');

    if (!slash || strncmp(slash, checkpoints, sizeof(checkpoints) - 1))
        return NULL;
    *ret_job = find_job(daemon, name, (size_t)(slash - name));
    return slash + sizeof(checkpoints) - 1;
}

static enum MHD_Result answer_transfer(struct transfer *transfer)
{
    struct file_range *range = &transfer->range;

    if (range->status) {
        char text[1500];
        snprintf(text, sizeof(text), "%s: %s", range->path, strerror(-range->status));
        return reply_problem(transfer->connection, range->status == -ENOENT ? -ENOENT : -EIO, text);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(range->size_bytes, range->data, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result = MHD_NO;
    if (response) {
        range->data = NULL; /* the response's now */
        result = MHD_queue_response(transfer->connection, MHD_HTTP_OK, response);
        MHD_destroy_response(response);
    }
    return result;
}

static enum MHD_Result begin_transfer(struct http_server *server, const struct job *job,
                                      const char *rest, struct MHD_Connection *connection,
                                      void **request)
{
    const struct checkpoint_request wanted = {
        .rest = rest,
        .offset = number_argument(connection, "at", 0),
        .size_bytes = number_argument(connection, "bytes", 0),
        .proof = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, CHECKPOINT_PROOF_HEADER),
    };
    struct error error = {0};
    struct transfer *transfer = calloc(1, sizeof(*transfer));

    if (!transfer)
        return MHD_NO;
    int status = checkpoint_files_allow(job, &wanted, transfer->range.path,
                                        sizeof(transfer->range.path), &error);
    if (!status && !(transfer->range.data = malloc((size_t)wanted.size_bytes)))
        status = error_set(&error, -ENOMEM, "no memory for the range");
    if (status) {
        free(transfer);
        return reply_problem(connection, status, error.text);
    }
    transfer->range.offset = wanted.offset;
    transfer->range.size_bytes = (size_t)wanted.size_bytes;
    transfer->connection = connection;
    *request = transfer;
    MHD_suspend_connection(connection);
    file_reader_queue(server->files, &transfer->range);
    return MHD_YES;
}

/* The request has been answered, or its client is gone; never while its range is being read. */
static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct transfer *transfer = *request;

    (void)context;
    (void)connection;
    (void)code;
    if (!transfer)
        return;
    free(transfer->range.data);
    free(transfer);
    *request = NULL;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    struct http_server *server = context;
    struct bytes body = {0};
    struct error error = {0};
    const char *type, *rest;
    const struct job *job;
    enum MHD_Result result;

    (void)version;
    (void)upload;
    *upload_size = 0;
    if (*request)
        return answer_transfer(*request);
    if (strcmp(method, MHD_HTTP_METHOD_GET))
        return reply_problem(connection, -EINVAL, "only GET is understood");
    rest = checkpoint_page(server->daemon, url, &job);
    if (rest)
        return begin_transfer(server, job, rest, connection, request);
    int status = answer(server->daemon, connection, url, &body, &type, &error);
    result = status ? reply_problem(connection, status, error.text)
                    : reply(connection, MHD_HTTP_OK, type, &body);
    bytes_done(&body);
    return result;
}

static void set_timer(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    if (!server->timer) /* stopping */
        return;
    if (MHD_get_timeout(server->mhd, &timeout_ms) != MHD_YES) {
        sd_event_source_set_enabled(server->timer, SD_EVENT_OFF);
        return;
    }
    sd_event_source_set_time_relative(server->timer, timeout_ms * 1000);
    sd_event_source_set_enabled(server->timer, SD_EVENT_ONESHOT);
}

static int on_ready(sd_event_source *source, int descriptor, uint32_t events, void *context)
{
    struct http_server *server = context;

    (void)source;
    (void)descriptor;
    (void)events;
    MHD_run(server->mhd);
    set_timer(server);
    return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *context)
{
    (void)usec;
    return on_ready(source, -1, 0, context);
}

/* On the loop: the range is here, so its connection goes on. */
static void on_read(void *context, struct file_range *range)
{
    struct http_server *server = context;
    struct transfer *transfer = (struct transfer *)range;

    MHD_resume_connection(transfer->connection);
    on_ready(server->ready, -1, 0, server);
}

static int watch(struct http_server *server)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    sd_event *event = server->daemon->loop.event;
    int status;

    if (!info)
        return -ENOTSUP;
    status = sd_event_add_io(event, &server->ready, info->epoll_fd, EPOLLIN, on_ready, server);
    if (status >= 0)
        status = sd_event_add_time_relative(event, &server->timer, CLOCK_MONOTONIC, 0, 0, on_timer,
                                            server);
    return status < 0 ? status : 0;
}

int http_server_start(struct daemon *daemon, struct http_server **ret_server, struct error *error)
{
    struct http_server *server = calloc(1, sizeof(*server));
    struct node_address address;
    int status = server ? node_address_http(daemon->config->http, &address) : -ENOMEM;

    if (!status)
        status = file_reader_start(&daemon->loop, on_read, server, &server->files, error);
    if (status) {
        free(server);
        return status;
    }
    server->daemon = daemon;
    errno = 0;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
                     (address.socket.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    server->mhd = MHD_start_daemon(flags, /* nobody else may listen there: no address reuse */
                                   0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR,
                                   (struct sockaddr *)&address.socket, MHD_OPTION_CONNECTION_LIMIT,
                                   (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                                   (unsigned)CONNECTION_IDLE_S, MHD_OPTION_NOTIFY_COMPLETED,
                                   on_completed, NULL, MHD_OPTION_END);
    if (!server->mhd) {
        int cause = errno ? errno : EIO;
        file_reader_stop(server->files);
        free(server);
        return error_set(error, -cause, "http: cannot listen at %s: %s%s", daemon->config->http,
                         strerror(cause),
                         cause == EADDRINUSE      ? "; is another firnd running there?"
                         : cause == EADDRNOTAVAIL ? "; it must be an address of this node"
                                                  : "");
    }
    status = watch(server);
    if (status) {
        http_server_stop(server);
        return error_set(error, status, "http: %s", strerror(-status));
    }
    *ret_server = server;
    return 0;
}

void http_server_stop(struct http_server *server)
{
    if (!server)
        return;
    sd_event_source_disable_unref(server->ready);
    sd_event_source_disable_unref(server->timer);
    server->ready = server->timer = NULL;
    file_reader_stop(server->files); /* nobody may sleep any more when the server stops */
    MHD_stop_daemon(server->mhd);
    free(server);
}
