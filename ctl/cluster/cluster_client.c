#include "ctl/cluster/cluster_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/http_url.h"
#include "base/secrecy.h"
#include "membership/etcd/endpoints.h"
#include "membership/etcd/password.h"

#define ENDPOINTS_DEFAULT "http://127.0.0.1:2379"
#define CLUSTER_DEFAULT   "default"
#define RETRY_NS          (250 * NS_PER_MS)
#define PATIENT_NS        NS_PER_SECOND /* time before the first message to the user */

struct question {
    struct cluster_client *client;
    bool done;
    int status;
    bool writes, succeeded;
    int (*take)(void *context, const struct kv_result *result, struct error *error);
    void *context;
    struct error *error;
};

static const char *setting(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static int read_password(char ret_password[PASSWORD_SIZE], struct error *error)
{
    const char *path = setting("FIRN_ETCD_PASSWORD_FILE");

    ret_password[0] = '\0';
    int status = path ? password_read(path, ret_password, error) : 0;
    if (status)
        error_prefix(error, "FIRN_ETCD_PASSWORD_FILE: ");
    return status;
}

static int connect_clients(struct cluster_client *client, struct error *error)
{
    char password[PASSWORD_SIZE];
    int status = read_password(password, error);
    const struct etcd_options options = {
        .endpoints = client->endpoints,
        .user = setting("FIRN_ETCD_USER"),
        .password = password[0] ? password : NULL,
        .ca_file = setting("FIRN_ETCD_CA"),
        .certificate_file = setting("FIRN_ETCD_CERTIFICATE"),
        .key_file = setting("FIRN_ETCD_KEY"),
    };

    if (status)
        return status;
    client->loop = poll_loop_new();
    if (!client->loop)
        return error_set(error, -ENOMEM, "no memory for a connection");
    status = etcd_new(poll_loop_table(client->loop), &options, &client->etcd, error);
    explicit_bzero(password, sizeof(password));
    if (status)
        return status;
    client->kv = etcd_kv(client->etcd);
    status = http_client_new(poll_loop_table(client->loop), &client->http);
    return status ? error_set(error, status, "no HTTP client: %s", strerror(-status)) : 0;
}

int cluster_client_open_at(const char *endpoints, const char *cluster, uint64_t timeout_ns,
                           struct cluster_client *ret_client, struct error *error)
{
    *ret_client = (struct cluster_client){.timeout_ns = timeout_ns};
    if (strlen(endpoints) >= sizeof(ret_client->endpoints))
        return error_set(error, -EINVAL, "the endpoints are longer than %d characters",
                         CLUSTER_CLIENT_ENDPOINTS_SIZE - 1);
    assert(name_valid(cluster));
    strcpy(ret_client->endpoints, endpoints);
    strcpy(ret_client->cluster, cluster);
    int status = connect_clients(ret_client, error);
    if (status)
        cluster_client_close(ret_client);
    return status;
}

/* Return a setting: the flag, else the environment, else @standard. *@ret_source: for messages */
static const char *told(const struct arguments *arguments, const char *flag, const char *variable,
                        const char *standard, const char **ret_source)
{
    const char *value = arguments_text(arguments, flag + strlen("--"), NULL);

    *ret_source = value ? flag : variable;
    if (!value)
        value = setting(variable);
    return value ? value : standard;
}

/* Load the token for the nodes from the file that --token-file or FIRN_TOKEN_FILE names. */
static int take_token(const struct arguments *arguments, struct cluster_client *client,
                      struct error *error)
{
    const char *source;
    const char *path = told(arguments, "--token-file", "FIRN_TOKEN_FILE", "", &source);
    char token[HTTP_TOKEN_SIZE];

    if (!path[0])
        return 0;
    if (strlen(path) >= sizeof(client->token_file))
        return error_set(error, COMMAND_USAGE, "%s: the path is longer than %zu characters", source,
                         sizeof(client->token_file) - 1);
    strcpy(client->token_file, path);
    secrecy_warn_of_file(path, "the token of firnd's HTTP");
    int status = http_token_read(path, token, error);
    if (status)
        error_prefix(error, "%s: ", source);
    else
        http_client_set_token(client->http, token);
    explicit_bzero(token, sizeof(token));
    return status;
}

/* Set the authorities, also for firn-worker, which reads checkpoints for some commands. */
static int take_authorities(const struct arguments *arguments, struct error *error)
{
    const char *source;
    const char *path = told(arguments, "--authorities", HTTP_AUTHORITIES, "", &source);

    if (!path[0])
        return 0;
    if (access(path, R_OK))
        return error_set(error, -errno, "%s: %s: %s", source, path, strerror(errno));
    return setenv(HTTP_AUTHORITIES, path, 1) ? error_set(error, -ENOMEM, "no memory") : 0;
}

int cluster_client_open(const struct arguments *arguments, struct cluster_client *ret_client,
                        struct error *error)
{
    struct endpoints parsed;
    const char *source;
    const char *cluster = told(arguments, "--cluster", "FIRN_CLUSTER", CLUSTER_DEFAULT, &source);

    if (!name_valid(cluster))
        return error_set(error, COMMAND_USAGE,
                         "%s: \"%s\" cannot be a cluster: names are of a-z, 0-9, '.', '_' and '-'",
                         source, cluster);
    const char *endpoints =
        told(arguments, "--endpoints", "FIRN_ENDPOINTS", ENDPOINTS_DEFAULT, &source);
    if (endpoints_parse(endpoints, &parsed, error)) {
        error_prefix(error, "%s: ", source);
        return COMMAND_USAGE;
    }
    bool asks_nodes = arguments->command && arguments->command->asks_nodes;
    uint64_t timeout_s =
        arguments_number(arguments, "timeout",
                         asks_nodes ? CLUSTER_CLIENT_NODES_TIMEOUT_S : CLUSTER_CLIENT_TIMEOUT_S);
    int status =
        cluster_client_open_at(endpoints, cluster, timeout_s * NS_PER_SECOND, ret_client, error);
    if (!status) {
        status = take_token(arguments, ret_client, error);
        if (!status)
            status = take_authorities(arguments, error);
        if (status)
            cluster_client_close(ret_client);
    }
    ret_client->asks_nodes = !status && asks_nodes;
    return status;
}

void cluster_client_close(struct cluster_client *client)
{
    http_client_free(client->http);
    if (client->etcd)
        etcd_free(client->etcd);
    if (client->loop)
        poll_loop_free(client->loop);
    *client = (struct cluster_client){0};
}

void cluster_client_pause(struct cluster_client *client, uint64_t duration_ns)
{
    const bool never = false;

    if (poll_loop_run(client->loop, &never, clock_monotonic_ns() + duration_ns) != -ETIMEDOUT)
        return; /* wait until the deadline */
}

static void on_answer(void *context, const struct kv_result *result)
{
    struct question *question = context;

    question->done = true;
    question->status = result->status;
    question->succeeded = result->succeeded;
    if (result->status && question->error)
        *question->error = result->error;
    else if (!result->status && question->take)
        question->status = question->take(question->context, result, question->error);
}

static bool worth_another_try(int status)
{
    return status == -ECONNREFUSED || status == -ETIMEDOUT || status == -EHOSTUNREACH ||
           status == -ECONNRESET;
}

/* Add the remedy; the error already names the place and the cause. */
static int explain(const struct cluster_client *client, int status, struct error *error)
{
    const char *what = error && error->text[0] ? error->text : strerror(-status);

    if (worth_another_try(status))
        return error_set(
            error, status,
            "etcd does not answer: %.500s.\nIs it running at %.200s? Set its address with "
            "--endpoints or FIRN_ENDPOINTS; with TLS use\nhttps:// and FIRN_ETCD_CA. For a "
            "local cluster: eval \"$(firnctl local env --dir DIR)\"",
            what, client->endpoints);
    if (status == -EACCES)
        return error_set(error, status,
                         "etcd refuses the user: %.500s.\nSet FIRN_ETCD_USER and "
                         "FIRN_ETCD_PASSWORD_FILE",
                         what);
    if (status == -EPROTO && strstr(client->endpoints, "https:"))
        return error_set(error, status,
                         "%.500s.\nFIRN_ETCD_CA is the authority to trust; FIRN_ETCD_CERTIFICATE "
                         "and FIRN_ETCD_KEY are shown to an etcd that asks",
                         what);
    return status;
}

static void say_waiting(const struct cluster_client *client, bool *said)
{
    if (!*said && !client->quiet)
        fprintf(stderr, "firnctl: etcd at %s does not answer; trying for up to %llu s\n",
                client->endpoints, client->timeout_ns / NS_PER_SECOND);
    *said = true;
}

static bool wait_until(const struct question *question, uint64_t deadline_ns)
{
    return !poll_loop_run(question->client->loop, &question->done, deadline_ns);
}

static int wait_for(struct question *question, struct kv_request *request, uint64_t deadline_ns,
                    bool *said)
{
    struct cluster_client *client = question->client;

    if (wait_until(question, MIN(clock_monotonic_ns() + PATIENT_NS, deadline_ns)))
        return question->status;
    say_waiting(client, said);
    if (wait_until(question, deadline_ns))
        return question->status;
    client->kv->cancel(client->kv->context, request);
    return error_set(question->error, -ETIMEDOUT, "no answer within %llu s%s",
                     client->timeout_ns / NS_PER_SECOND,
                     question->writes ? "; the change may or may not have been made" : "");
}

int cluster_client_range(struct cluster_client *client, const char *key, bool prefix,
                         int (*take)(void *context, const struct kv_result *result,
                                     struct error *error),
                         void *context, struct error *error)
{
    uint64_t deadline_ns = clock_monotonic_ns() + client->timeout_ns;
    bool said = false;

    for (;;) {
        struct question question = {
            .client = client, .take = take, .context = context, .error = error};
        struct kv_request *request = NULL;
        int status =
            client->kv->range(client->kv->context, key, prefix, on_answer, &question, &request);
        if (!status)
            status = wait_for(&question, request, deadline_ns, &said);
        if (!worth_another_try(status) || clock_monotonic_ns() + RETRY_NS >= deadline_ns)
            return explain(client, status, error);
        say_waiting(client, &said);
        cluster_client_pause(client, RETRY_NS);
        if (error)
            error_clear(error);
    }
}

int cluster_client_txn(struct cluster_client *client, const struct kv_compare *compares,
                       size_t compare_count, const struct kv_operation *operations,
                       size_t operation_count, bool *ret_succeeded, struct error *error)
{
    struct question question = {.client = client, .writes = true, .error = error};
    struct kv_request *request = NULL;
    bool said = false;
    int status = client->kv->txn(client->kv->context, compares, compare_count, operations,
                                 operation_count, on_answer, &question, &request);

    if (!status)
        status = wait_for(&question, request, clock_monotonic_ns() + client->timeout_ns, &said);
    if (!status)
        *ret_succeeded = question.succeeded;
    return explain(client, status, error);
}
