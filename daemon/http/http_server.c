#include "daemon/http/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/config/http_host.h"
#include "daemon/config/node_address.h"
#include "daemon/core/daemon.h"
#include "daemon/http/checkpoint_files.h"
#include "daemon/http/file_reader.h"
#include "daemon/http/http_answers.h"
#include "daemon/http/http_limiter.h"
#include "daemon/http/prometheus.h"
#include "elastic/messages/trace_ring.h"

/* `total` counts the connections that are served. Refused connections, and dismissed
 * connections that are not closed yet, come on top. */
static const struct http_limits limits = {
    .total = 320,
    .per_address = 64,
    .refused = 64,
    .grace_ns = 100 * NS_PER_MS,
    .first_request_ns = 10 * NS_PER_SECOND,
    .next_request_ns = 30 * NS_PER_SECOND,
    .answer_ns = 30 * NS_PER_SECOND,
    .bytes_per_second = 64 << 10,
};

/* libmicrohttpd must run again at once when TLS has decrypted more bytes than were consumed.
 * The default accuracy of an sd-event timer is a quarter of a second. */
#define TIMER_US        1
#define PEM_BYTES_MAX   ((size_t)1 << 20)
#define LISTEN_TRIES    20 /* with a pause after each; a second in all */
#define LISTEN_PAUSE_NS 50000000
/* GnuTLS's defaults without the deprecated versions (RFC 8996). */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct http_server {
    struct daemon *daemon;
    struct MHD_Daemon *mhd;
    sd_event_source *ready, *timer;
    struct file_reader *files;
    struct http_limiter limiter;
    char host[NAME_SIZE];
};

/* A connection, from accept to close. */
struct visit {
    struct http_visitor visitor; /* first member: cast from it */
    int descriptor;
};

/* A request for a file; its connection is suspended until the file is read. */
struct transfer {
    struct file_task task; /* first member: the reader hands it back */
    struct MHD_Connection *connection;
    struct http_file file;
    const char *type; /* Content-Type; NULL: bytes */
    struct bytes body;
    int status;
    struct error error;
};

static struct visit *visit_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Queue @body as the response, which takes over its bytes. */
static enum MHD_Result reply(struct http_server *server, struct MHD_Connection *connection,
                             unsigned code, const char *type, struct bytes *body)
{
    struct visit *visit = visit_of(connection);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        body->size_bytes, body->data, body->data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_YES;

    if (!response)
        return MHD_NO;
    if (visit)
        http_limiter_answers(&server->limiter, &visit->visitor, body->size_bytes,
                             clock_monotonic_ns());
    *body = (struct bytes){0}; /* owned by the response now */
    if (type)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (result == MHD_YES && code == MHD_HTTP_SERVICE_UNAVAILABLE)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (result == MHD_YES && code == MHD_HTTP_SERVICE_UNAVAILABLE)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (result == MHD_YES && code == MHD_HTTP_UNAUTHORIZED)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static unsigned code_of(int status)
{
    switch (status) {
    case -ENOENT:
        return MHD_HTTP_NOT_FOUND;
    case -EINVAL:
        return MHD_HTTP_BAD_REQUEST;
    case -EPERM:
        return MHD_HTTP_UNAUTHORIZED;
    case -EACCES:
        return MHD_HTTP_FORBIDDEN;
    case -EXDEV:
        return MHD_HTTP_MISDIRECTED_REQUEST;
    case -EBUSY:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

static enum MHD_Result reply_problem(struct http_server *server, struct MHD_Connection *connection,
                                     int status, const char *text)
{
    struct bytes body = {0};
    enum MHD_Result result = MHD_NO;

    if (!bytes_append_format(&body, "%s\n", text))
        result = reply(server, connection, code_of(status), "text/plain; charset=utf-8", &body);
    bytes_done(&body);
    return result;
}

static uint64_t number_argument(struct MHD_Connection *connection, const char *name,
                                uint64_t otherwise)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);

    return text && text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- files ---- */

/* Called on a thread of the reader. */
static void read_transfer(struct file_task *task)
{
    struct transfer *transfer = (struct transfer *)task;

    transfer->status = http_answer_read(&transfer->file, &transfer->body, &transfer->error);
}

static enum MHD_Result answer_transfer(struct http_server *server, struct transfer *transfer)
{
    if (transfer->status)
        return reply_problem(server, transfer->connection,
                             transfer->status == -ENOENT ? -ENOENT : -EIO, transfer->error.text);
    return reply(server, transfer->connection, MHD_HTTP_OK, transfer->type, &transfer->body);
}

static enum MHD_Result begin_transfer(struct http_server *server, const struct http_file *file,
                                      const char *type, struct MHD_Connection *connection,
                                      void **request)
{
    struct visit *visit = visit_of(connection);

    if (!file_reader_has_room(server->files))
        return reply_problem(server, connection, -EBUSY,
                             "too many reads wait for this node's disks; try again");
    struct transfer *transfer = calloc(1, sizeof(*transfer));
    if (!transfer)
        return MHD_NO;
    transfer->task.run = read_transfer;
    transfer->connection = connection;
    transfer->file = *file;
    transfer->type = type;
    *request = transfer;
    if (visit)
        http_limiter_answers(&server->limiter, &visit->visitor, http_answer_bytes_max(file),
                             clock_monotonic_ns());
    MHD_suspend_connection(connection);
    file_reader_queue(server->files, &transfer->task);
    return MHD_YES;
}

/* ---- pages ---- */

/* Name the list of a job's traces, or with `slot` one of them. */
static void name_trace(const struct config *config, const char *job,
                       struct MHD_Connection *connection, struct http_file *ret_file)
{
    char name[TRACE_RING_NAME_SIZE];

    ret_file->part = HTTP_TRACES;
    if (!MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "slot")) {
        http_answer_job_file(config, job, "", ret_file);
        return;
    }
    ret_file->part = HTTP_SPANS;
    ret_file->to = number_argument(connection, "to", UINT64_MAX);
    ret_file->after = number_argument(connection, "after", 0);
    trace_ring_name((unsigned)number_argument(connection, "slot", 0),
                    (unsigned)number_argument(connection, "age", 0), name);
    http_answer_job_file(config, job, name, ret_file);
}

/* Answer /v1/jobs/JOB/PAGE. Return 1 if @ret_file is to be read. */
static int answer_job(const struct config *config, struct job *jobs,
                      struct MHD_Connection *connection, const char *rest, struct bytes *body,
                      const char **ret_type, struct http_file *ret_file, struct error *error)
{
    char job[NAME_SIZE], log[32];
    const char *slash = strchr(rest, '/');

    if (!slash || (size_t)(slash - rest) >= sizeof(job))
        return error_set(error, -ENOENT, "no such page");
    snprintf(job, sizeof(job), "%.*s", (int)(slash - rest), rest);
    if (!name_valid(job))
        return error_set(error, -EINVAL, "not a job name");
    *ret_type = "application/json";
    if (!strcmp(slash, "/workers"))
        return http_answer_workers(config, jobs, job, body, error);
    *ret_type = "application/x-ndjson";
    ret_file->from = number_argument(connection, "from", 0);
    if (!strcmp(slash, "/metrics")) {
        ret_file->part = HTTP_LINES_BY_STEP;
        http_answer_job_file(config, job, "metrics.jsonl", ret_file);
    } else if (!strcmp(slash, "/events")) {
        ret_file->part = HTTP_LINES_BY_TIME;
        http_answer_job_file(config, job, "events.jsonl", ret_file);
    } else if (!strcmp(slash, "/logs")) {
        *ret_type = "text/plain; charset=utf-8";
        ret_file->part = HTTP_END;
        ret_file->size_bytes = (size_t)number_argument(connection, "bytes", 65536);
        snprintf(log, sizeof(log), "worker-%u.log",
                 (unsigned)number_argument(connection, "slot", 0));
        http_answer_job_file(config, job, log, ret_file);
    } else if (!strcmp(slash, "/trace")) {
        name_trace(config, job, connection, ret_file);
        if (ret_file->part == HTTP_SPANS)
            *ret_type = "application/octet-stream";
    } else {
        return error_set(error, -ENOENT, "no such page");
    }
    return 1;
}

/* Return 1 if @ret_file is to be read. */
static int answer(struct daemon *daemon, struct MHD_Connection *connection, const char *url,
                  struct bytes *body, const char **ret_type, struct http_file *ret_file,
                  struct error *error)
{
    static const char jobs[] = "/v1/jobs/";

    *ret_type = "application/json";
    if (!strcmp(url, "/v1/node"))
        return http_answer_node(daemon, body, error);
    if (!strcmp(url, "/metrics")) {
        *ret_type = PROMETHEUS_TYPE;
        return prometheus_append(daemon, body) ? error_set(error, -ENOMEM, "no memory") : 0;
    }
    if (!strncmp(url, jobs, sizeof(jobs) - 1))
        return answer_job(daemon->config, daemon->jobs, connection, url + sizeof(jobs) - 1, body,
                          ret_type, ret_file, error);
    return error_set(error, -ENOENT, "no such page");
}

/* ---- files of checkpoints ---- */

static const struct job *find_job(struct job *jobs, const char *name, size_t length)
{
    for (const struct job *job = jobs; job; job = job->next)
        if (strlen(job->name) == length && !strncmp(job->name, name, length))
            return job;
    return NULL;
}

/* Parse /v1/jobs/JOB/checkpoints/REST. Return REST and set the job (NULL: unknown on this
 * node); return NULL for another page. */
static const char *checkpoint_page(const struct daemon *daemon, const char *url,
                                   const struct job **ret_job)
{
    static const char jobs[] = "/v1/jobs/", checkpoints[] = "/checkpoints/";
    const char *name = url + sizeof(jobs) - 1;
    const char *slash = strncmp(url, jobs, sizeof(jobs) - 1) ? NULL : strchr(name, '/');

    if (!slash || strncmp(slash, checkpoints, sizeof(checkpoints) - 1))
        return NULL;
    *ret_job = find_job(daemon->jobs, name, (size_t)(slash - name));
    return slash + sizeof(checkpoints) - 1;
}

static int allow_checkpoint(const struct job *job, const char *rest,
                            struct MHD_Connection *connection, struct http_file *ret_file,
                            struct error *error)
{
    const struct checkpoint_request wanted = {
        .rest = rest,
        .offset = number_argument(connection, "at", 0),
        .size_bytes = number_argument(connection, "bytes", 0),
        .proof = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, CHECKPOINT_PROOF_HEADER),
    };

    ret_file->part = HTTP_RANGE;
    ret_file->from = wanted.offset;
    ret_file->size_bytes = (size_t)wanted.size_bytes;
    int status = checkpoint_files_allow(job, &wanted, ret_file->path, sizeof(ret_file->path),
                                        ret_file->seal.key, error);
    if (status)
        return status;
    static const char sealed[] = CHECKPOINT_REMOTE_FROZEN "/";
    ret_file->seal.is_wanted = !strncmp(rest, sealed, sizeof(sealed) - 1);
    snprintf(ret_file->seal.proof, sizeof(ret_file->seal.proof), "%s", wanted.proof);
    return 1;
}

/* ---- requests ---- */

/* Called when the request is answered or its client is gone, but never while its file is being
 * read. */
static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = context;
    struct transfer *transfer = *request;
    struct visit *visit = visit_of(connection);

    (void)code;
    if (visit)
        http_limiter_waits(&server->limiter, &visit->visitor, clock_monotonic_ns());
    if (!transfer)
        return;
    bytes_done(&transfer->body);
    free(transfer);
    *request = NULL;
}

/* Refuse a surplus connection, a method other than GET, and a foreign Host header. */
static int check_request(const struct http_server *server, struct MHD_Connection *connection,
                         const char *method, struct error *error)
{
    const struct config *config = server->daemon->config;
    const struct http_names names = {config->node, server->host, config->http_names};
    const struct visit *visit = visit_of(connection);

    if (visit && visit->visitor.visit == HTTP_VISIT_REFUSED)
        return error_set(error, -EBUSY, "too many connections; try again");
    if (strcmp(method, MHD_HTTP_METHOD_GET))
        return error_set(error, -EINVAL, "only GET is supported");
    return http_host_check(
        &names, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST),
        error);
}

static int check_token(const char *token, struct MHD_Connection *connection, struct error *error)
{
    const char *header =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

    if (!token[0] || http_token_accepts(token, header))
        return 0;
    return error_set(error, -EPERM,
                     "%s; firnctl takes it from --token-file FILE or FIRN_TOKEN_FILE, Prometheus "
                     "from authorization: credentials_file, others send \"Authorization: Bearer "
                     "TOKEN\"",
                     header ? "this is not the token of this node"
                            : "this node answers only requests with its token");
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    struct http_server *server = context;
    struct http_file file = {0};
    struct bytes body = {0};
    struct error error = {0};
    const char *type = NULL;
    const struct job *job;
    enum MHD_Result result;

    (void)version;
    (void)upload;
    *upload_size = 0;
    if (*request)
        return answer_transfer(server, *request);
    int status = check_request(server, connection, method, &error);
    const char *rest = status ? NULL : checkpoint_page(server->daemon, url, &job);
    if (!status && !rest) /* a node that reads a checkpoint proves knowledge of the job's key */
        status = check_token(server->daemon->http_token, connection, &error);
    if (!status)
        status = rest ? allow_checkpoint(job, rest, connection, &file, &error)
                      : answer(server->daemon, connection, url, &body, &type, &file, &error);
    if (status > 0)
        result = begin_transfer(server, &file, type, connection, request);
    else if (status < 0)
        result = reply_problem(server, connection, status, error.text);
    else
        result = reply(server, connection, MHD_HTTP_OK, type, &body);
    bytes_done(&body);
    return result;
}

/* ---- connections ---- */

/* Shut the socket down only: libmicrohttpd closes it when it reads the end. */
static void dismiss(struct http_visitor *visitor)
{
    const struct visit *visit = (const struct visit *)visitor;

    shutdown(visit->descriptor, SHUT_RDWR);
}

static void begin_visit(struct http_server *server, struct MHD_Connection *connection,
                        void **socket_context)
{
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const union MHD_ConnectionInfo *descriptor =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct visit *visit = address && descriptor ? calloc(1, sizeof(*visit)) : NULL;

    if (!visit)
        return; /* the limits of libmicrohttpd still apply */
    visit->descriptor = descriptor->connect_fd;
    http_limiter_enter(&server->limiter, &visit->visitor, address->client_addr,
                       clock_monotonic_ns());
    *socket_context = visit;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    struct visit *visit = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        begin_visit(server, connection, socket_context);
    } else if (visit) {
        http_limiter_leave(&server->limiter, &visit->visitor);
        free(visit);
        *socket_context = NULL;
    }
}

static void set_timer(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    uint64_t now_ns = clock_monotonic_ns(), due_ns = http_limiter_expire(&server->limiter, now_ns);

    if (!server->timer) /* stopping */
        return;
    if (MHD_get_timeout(server->mhd, &timeout_ms) == MHD_YES)
        due_ns = MIN(due_ns, now_ns + timeout_ms * NS_PER_MS);
    if (due_ns != UINT64_MAX)
        sd_event_source_set_time(server->timer, (due_ns + NS_PER_US - 1) / NS_PER_US);
    sd_event_source_set_enabled(server->timer,
                                due_ns == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static int on_ready(sd_event_source *source, int descriptor, uint32_t events, void *context)
{
    struct http_server *server = context;

    (void)source;
    (void)descriptor;
    (void)events;
    http_limiter_expire(&server->limiter, clock_monotonic_ns());
    MHD_run(server->mhd);
    set_timer(server);
    return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *context)
{
    (void)usec;
    return on_ready(source, -1, 0, context);
}

/* Called on the loop when the file is read: resume its connection. */
static void on_read(void *context, struct file_task *task)
{
    struct http_server *server = context;
    struct transfer *transfer = (struct transfer *)task;

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
        status = sd_event_add_time_relative(event, &server->timer, CLOCK_MONOTONIC, 0, TIMER_US,
                                            on_timer, server);
    return status < 0 ? status : 0;
}

/* This node's certificate and private key. */
struct identity {
    struct bytes certificate, key;
};

static void identity_done(struct identity *identity)
{
    bytes_done(&identity->certificate);
    bytes_forget(&identity->key);
}

static int read_identity(const struct config *config, struct identity *identity,
                         struct error *error)
{
    if (!config->http_certificate[0])
        return 0;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return error_set(error, -ENOTSUP,
                         "http_certificate: this machine's libmicrohttpd does not speak TLS");
    int status = file_read(config->http_certificate, PEM_BYTES_MAX, &identity->certificate, error);
    return status ? status : file_read(config->http_key, PEM_BYTES_MAX, &identity->key, error);
}

static struct MHD_Daemon *start(struct http_server *server, const struct node_address *address,
                                const struct identity *identity)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
                     (address->socket.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0) |
                     (identity->key.data ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, identity->certificate.data},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, identity->key.data},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

    return MHD_start_daemon(flags, /* no address reuse: no other process may listen there */
                            0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR,
                            (const struct sockaddr *)&address->socket, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)HTTP_VISITORS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)(limits.answer_ns / NS_PER_SECOND),
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_ARRAY,
                            identity->key.data ? tls : none, MHD_OPTION_END);
}

/* Retry while the port is in use: a firnd killed a moment ago may have left a forked child that
 * holds its sockets until it executes firn-worker. */
static struct MHD_Daemon *start_when_free(struct http_server *server,
                                          const struct node_address *address,
                                          const struct identity *identity)
{
    static const struct timespec pause = {.tv_nsec = LISTEN_PAUSE_NS};
    struct MHD_Daemon *mhd = NULL;

    for (unsigned i = 0; i < LISTEN_TRIES; i++) {
        errno = 0;
        mhd = start(server, address, identity);
        if (mhd || errno != EADDRINUSE)
            return mhd;
        nanosleep(&pause, NULL);
    }
    errno = EADDRINUSE;
    return NULL;
}

int http_server_start(struct daemon *daemon, struct http_server **ret_server, struct error *error)
{
    struct http_server *server = calloc(1, sizeof(*server));
    struct identity identity CLEANUP(identity_done) = {0};
    struct node_address address;
    int status = server ? node_address_http(daemon->config->http, &address) : -ENOMEM;

    if (!status)
        status = read_identity(daemon->config, &identity, error);
    if (!status)
        status = file_reader_start(&daemon->loop, on_read, server, &server->files, error);
    if (status) {
        free(server);
        return status;
    }
    server->daemon = daemon;
    gethostname(server->host, sizeof(server->host) - 1);
    http_limiter_init(&server->limiter, &limits, dismiss);
    server->mhd = start_when_free(server, &address, &identity);
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
    file_reader_stop(server->files); /* no connection may be suspended when the server stops */
    MHD_stop_daemon(server->mhd);
    free(server);
}
