/*
 * Requests to etcd: one call each, on the first endpoint that answers.
 *
 * Fail-over. All requests share one current endpoint. A failed attempt makes the next endpoint
 * current and, if the request may be repeated, tries it there; after each endpoint has had its turn
 * the request fails. Reads and lease operations may always be repeated; a transaction only if it
 * was certainly not carried out (not connected, nothing sent, no leader). Otherwise its outcome is
 * unknown, and only the caller can find out, by reading.
 *
 * A lost connection says little about the member: the connection may have been old. So a request is
 * retried once over a new connection before its member counts as failed.
 *
 * Every attempt has a deadline, and a request makes at most one attempt per endpoint (plus one for
 * a new token, and one for a new connection); so every request ends.
 *
 * Times. A member that does not send SETTINGS is left for the next one after a short time (reach),
 * because an unsent request costs nothing; the last member gets all the remaining time. A silent
 * member is left within the answer timeout (membership/etcd/answer_timeout.h), sooner if there are
 * other members. A member that is alive but slow gets the answer timeout if
 * there are other members. The only member gets the maximum of the answer timeout, because a retry
 * would only make it slower.
 */
#include "membership/etcd/etcd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "membership/etcd/etcd_internal.h"

#define TIMEOUT_DEFAULT_NS (2 * NS_PER_SECOND)
#define CONNECT_PART       2 /* part of the timeout, as REACH_PART */
#define REACH_PART         8 /* part of the timeout after which the next member is tried */

static const char *const methods[ETCD_OPERATION_COUNT] = {
    [ETCD_RANGE] = "/etcdserverpb.KV/Range",
    [ETCD_TXN] = "/etcdserverpb.KV/Txn",
    [ETCD_LEASE_GRANT] = "/etcdserverpb.Lease/LeaseGrant",
    [ETCD_LEASE_KEEP_ALIVE] = "/etcdserverpb.Lease/LeaseKeepAlive", /* a stream of one */
    [ETCD_LEASE_REVOKE] = "/etcdserverpb.Lease/LeaseRevoke",
    [ETCD_AUTHENTICATE] = "/etcdserverpb.Auth/Authenticate",
};

static uint64_t now_ns(const struct etcd *etcd)
{
    return etcd->loop->now_ns(etcd->loop->context);
}

void etcd_request_list(struct kv_request **list, struct kv_request *request)
{
    if (request->back) {
        *request->back = request->next;
        if (request->next)
            request->next->back = request->back;
    }
    request->next = *list;
    request->back = list;
    if (request->next)
        request->next->back = &request->next;
    *list = request;
}

int etcd_request_new(struct etcd *etcd, enum etcd_operation operation, bool repeatable,
                     kv_callback done, void *user, struct kv_request **ret_request)
{
    struct kv_request *request = calloc(1, sizeof(*request));
    if (!request)
        return -ENOMEM;
    request->etcd = etcd;
    request->operation = operation;
    request->repeatable = repeatable;
    request->done = done;
    request->user = user;
    etcd_request_list(&etcd->requests, request);
    *ret_request = request;
    return 0;
}

void etcd_request_free(struct kv_request *request)
{
    if (!request)
        return;
    grpc_cancel(request->call);
    *request->back = request->next;
    if (request->next)
        request->next->back = request->back;
    bytes_forget(&request->body);
    etcd_pages_free(request->pages);
    free(request);
}

void etcd_request_finish(struct kv_request *request, const struct kv_result *result)
{
    kv_callback done = request->done;
    void *user = request->user;
    struct etcd_pages *pages = request->pages; /* may contain @result */
    request->pages = NULL;
    etcd_request_free(request);
    done(user, result);
    etcd_pages_free(pages);
}

int etcd_request_range(struct kv_request *request, const char *prefix, const char *before)
{
    request->pages = etcd_pages_new(prefix, before);
    return request->pages ? etcd_pages_encode(request->pages, &request->body) : -ENOMEM;
}

static void finish_failed(struct kv_request *request, int status, const char *text)
{
    const struct etcd *etcd = request->etcd;
    const char *endpoint = etcd->endpoints.urls[request->endpoint];
    struct kv_result result = {.status = status};
    error_set(&result.error, status, "etcd at %s: %s", endpoint, text);
    if (request->attempts > 1 && etcd->endpoints.count > 1)
        error_set(&result.error, status, "none of %u etcd endpoints serves; the last, %s: %s",
                  etcd->endpoints.count, endpoint, text);
    etcd_request_finish(request, &result);
}

void etcd_endpoint_failed(struct etcd *etcd, unsigned endpoint)
{
    if (etcd->current == endpoint)
        etcd->current = (endpoint + 1) % etcd->endpoints.count;
    etcd_watch_doubt(etcd, endpoint);
}

/* After a failed attempt, try the next endpoint if that is allowed, else fail the request. */
static void try_next(struct kv_request *request, bool untouched, int failure, const char *text)
{
    struct etcd *etcd = request->etcd;
    etcd_endpoint_failed(etcd, request->endpoint);
    bool again = (untouched || request->repeatable) && request->attempts < etcd->endpoints.count;
    int status = again ? etcd_request_send(request) : 0;
    if (!again || status < 0)
        finish_failed(request, status < 0 ? status : failure, text);
}

/* After etcd refused the token, authenticate and retry once, on the same endpoint. */
static void renew_token(struct kv_request *request, const struct etcd_failure *failure)
{
    struct etcd *etcd = request->etcd;
    if (!etcd->user) {
        finish_failed(request, -EACCES, "it wants a user and a password, and none is configured");
        return;
    }
    etcd_auth_refused(etcd, request->token_number);
    bool again = !request->token_renewed && request->operation != ETCD_AUTHENTICATE;
    request->token_renewed = true;
    int status = again ? etcd_request_send(request) : 0;
    if (!again || status < 0)
        finish_failed(request, status < 0 ? status : failure->status, failure->text);
}

static void refused(struct kv_request *request, const struct etcd_failure *failure)
{
    if (request->operation == ETCD_LEASE_REVOKE && failure->status == -ENOENT) {
        struct kv_result gone = {0}; /* deleted already, so the request has succeeded */
        etcd_request_finish(request, &gone);
    } else if (failure->error_class == ETCD_ERROR_TOKEN) {
        renew_token(request, failure);
    } else if (failure->error_class == ETCD_ERROR_FINAL) {
        finish_failed(request, failure->status, failure->text);
    } else {
        try_next(request, failure->error_class == ETCD_ERROR_ELSEWHERE, failure->status,
                 failure->text);
    }
}

/* Request the next page, as if it were a new request. */
static void ask_for_page(struct kv_request *request)
{
    int status = etcd_pages_encode(request->pages, &request->body);
    request->attempts = 0;
    request->reconnected = request->token_renewed = false;
    if (status == 0)
        status = etcd_request_send(request);
    if (status < 0)
        finish_failed(request, status, "asking for more of its keys failed");
}

static void page_answered(struct kv_request *request, struct etcd_reply *reply)
{
    struct kv_result result;
    int status = etcd_pages_take(request->pages, reply);
    if (status > 0) {
        ask_for_page(request);
        return;
    }
    if (status == 0)
        status = etcd_pages_gather(request->pages, &result);
    if (status < 0)
        finish_failed(request, status, "no memory for its keys");
    else
        etcd_request_finish(request, &result);
}

static void answered(struct kv_request *request, const struct grpc_answer *answer)
{
    struct etcd_reply reply = {0};
    struct error error = {0};
    int status = etcd_decode_reply(request->operation, answer->message, answer->message_bytes,
                                   &reply, &error);
    if (status == 0 && request->operation == ETCD_AUTHENTICATE) {
        status = etcd_auth_set(request->etcd, reply.token);
        if (status < 0)
            error_set(&error, status, "no memory for the token");
    }
    if (status < 0)
        finish_failed(request, status, error.text);
    else if (request->pages)
        page_answered(request, &reply);
    else
        etcd_request_finish(request, &reply.result);
    etcd_reply_done(&reply);
}

/* Handle a lost connection. Return: whether the request is retried over a new connection. */
static bool reconnect(struct kv_request *request, const struct grpc_answer *answer)
{
    bool silent = answer->status == -EHOSTUNREACH && answer->sent;
    if ((answer->status != -ECONNRESET && !silent) || request->reconnected ||
        (answer->sent && !request->repeatable))
        return false;
    if (silent)
        etcd_endpoint_failed(request->etcd, request->endpoint);
    request->reconnected = true;
    request->attempts--;
    return etcd_request_send(request) == 0;
}

static void learn(const struct kv_request *request, const struct grpc_answer *answer)
{
    struct etcd *etcd = request->etcd;
    bool in_vain = answer->status == -ETIMEDOUT || answer->status == -EHOSTUNREACH;
    if (answer->status == 0)
        answer_timeout_answered(&etcd->patience, now_ns(etcd) - request->sent_ns);
    else if (in_vain && answer->sent)
        answer_timeout_lost(&etcd->patience, request->limit_ns);
}

static void call_done(void *context, const struct grpc_answer *answer)
{
    struct kv_request *request = context;
    struct etcd_failure failure;
    request->call = NULL;
    learn(request, answer);
    if (answer->status == -EFBIG && request->pages && etcd_pages_shrink(request->pages)) {
        ask_for_page(request);
    } else if (answer->status == -ENOMEM || answer->status == -EFBIG) {
        finish_failed(request, answer->status, answer->text);
    } else if (reconnect(request, answer)) {
        return;
    } else if (answer->status < 0) {
        try_next(request, !answer->sent, answer->status, answer->text);
    } else if (answer->code != GRPC_OK) {
        etcd_failure_judge(answer->code, answer->text, &failure);
        refused(request, &failure);
    } else {
        answered(request, answer);
    }
}

void etcd_order_prepare(const struct etcd *etcd, unsigned endpoint, const char *method,
                        struct etcd_address *ret_address, struct grpc_order *ret_order)
{
    assert(strlen(etcd->endpoints.urls[endpoint]) + strlen(method) < ETCD_URL_SIZE);
    stpcpy(stpcpy(ret_address->url, etcd->endpoints.urls[endpoint]), method);
    /* A member without a leader answers at once instead of waiting for one, so the next is asked.
     */
    ret_address->metadata[0] = "hasleader: true";
    ret_address->metadata[1] = etcd->token && *etcd->token != '\0' ? etcd->token : NULL;
    ret_address->metadata[2] = NULL;
    *ret_order = (struct grpc_order){
        .url = ret_address->url,
        .metadata = ret_address->metadata,
        .message_bytes_max = ETCD_ANSWER_BYTES_MAX,
        /* Leave time to ask another member if this host does not even accept connections. */
        .connect_timeout_ns = etcd->timeout_ns / CONNECT_PART,
    };
}

static void set_times(struct kv_request *request, struct grpc_order *order)
{
    const struct etcd *etcd = request->etcd;
    bool others = etcd->endpoints.count > 1;
    request->sent_ns = now_ns(etcd);
    request->limit_ns = etcd->patience.limit_ns;
    order->timeout_ns = others ? request->limit_ns : etcd->patience.max_ns;
    order->silence_ns = others ? request->limit_ns / 2 : request->limit_ns;
    if (request->attempts + 1 < etcd->endpoints.count)
        order->reach_ns = etcd->timeout_ns / REACH_PART;
}

int etcd_request_send(struct kv_request *request)
{
    struct etcd *etcd = request->etcd;
    if (request->operation != ETCD_AUTHENTICATE && etcd_auth_needed(etcd))
        return etcd_auth_wait(etcd, request);
    struct etcd_address address;
    struct grpc_order order;
    request->endpoint = etcd->current;
    request->token_number = etcd->token_number;
    etcd_order_prepare(etcd, request->endpoint, methods[request->operation], &address, &order);
    order.message = request->body.data;
    order.message_bytes = request->body.size_bytes;
    set_times(request, &order);
    if (request->operation == ETCD_AUTHENTICATE)
        address.metadata[1] = NULL;
    int status = grpc_start(etcd->http, &order, NULL, call_done, request, &request->call);
    if (status == 0)
        request->attempts++;
    return status;
}

/* Finish every starting function: @status is the result of encoding the body. */
static int start(struct kv_request *request, int status, struct kv_request **ret_request)
{
    if (status == 0)
        status = etcd_request_send(request);
    if (status < 0) {
        etcd_request_free(request);
        return status;
    }
    if (ret_request != NULL)
        *ret_request = request;
    return 0;
}

static int etcd_range(void *context, const char *key, bool prefix, kv_callback done, void *user,
                      struct kv_request **ret_request)
{
    struct kv_request *request;
    int status = etcd_request_new(context, ETCD_RANGE, true, done, user, &request);
    if (status < 0)
        return status;
    return start(request,
                 prefix ? etcd_request_range(request, key, NULL)
                        : etcd_encode_range(&request->body, key),
                 ret_request);
}

static int etcd_txn(void *context, const struct kv_compare *compares, size_t compare_count,
                    const struct kv_operation *operations, size_t operation_count, kv_callback done,
                    void *user, struct kv_request **ret_request)
{
    if (compare_count > KV_TXN_MAX || operation_count > KV_TXN_MAX)
        return -EINVAL;
    for (size_t i = 0; i < operation_count; i++) {
        if (operations[i].type == KV_PUT && strlen(operations[i].value) > KV_VALUE_MAX)
            return -EFBIG;
    }
    struct kv_request *request;
    int status = etcd_request_new(context, ETCD_TXN, false, done, user, &request);
    if (status < 0)
        return status;
    return start(
        request,
        etcd_encode_txn(&request->body, compares, compare_count, operations, operation_count),
        ret_request);
}

static int etcd_lease_grant(void *context, int64_t ttl_seconds, kv_callback done, void *user,
                            struct kv_request **ret_request)
{
    struct kv_request *request; /* repeatable: a lease granted twice expires unused */
    int status = etcd_request_new(context, ETCD_LEASE_GRANT, true, done, user, &request);
    if (status < 0)
        return status;
    return start(request, etcd_encode_lease_grant(&request->body, ttl_seconds), ret_request);
}

static int etcd_lease_keep_alive(void *context, int64_t lease, kv_callback done, void *user,
                                 struct kv_request **ret_request)
{
    struct kv_request *request;
    int status = etcd_request_new(context, ETCD_LEASE_KEEP_ALIVE, true, done, user, &request);
    if (status < 0)
        return status;
    return start(request, etcd_encode_lease(&request->body, lease), ret_request);
}

static int etcd_lease_revoke(void *context, int64_t lease, kv_callback done, void *user,
                             struct kv_request **ret_request)
{
    struct kv_request *request;
    int status = etcd_request_new(context, ETCD_LEASE_REVOKE, true, done, user, &request);
    if (status < 0)
        return status;
    return start(request, etcd_encode_lease(&request->body, lease), ret_request);
}

static void etcd_cancel(void *context, struct kv_request *request)
{
    (void)context;
    etcd_request_free(request);
}

static int check_readable(const char *file, const char *what, struct error *error)
{
    if (!file || access(file, R_OK) == 0)
        return 0;
    return error_set(error, -errno, "%s %s cannot be read: %s", what, file, strerror(errno));
}

static int check_options(const struct etcd_options *options, struct error *error)
{
    int status = check_readable(options->ca_file, "etcd's certificate authority", error);
    if (status == 0)
        status =
            check_readable(options->certificate_file, "the client certificate for etcd", error);
    if (status == 0)
        status = check_readable(options->key_file, "the client key for etcd", error);
    if (status == 0 && (!options->user) != (!options->password))
        status = error_set(error, -EINVAL, "etcd needs a user and a password, or neither");
    return status;
}

static void fill_table(struct etcd *etcd)
{
    etcd->kv = (struct kv){.context = etcd,
                           .range = etcd_range,
                           .txn = etcd_txn,
                           .lease_grant = etcd_lease_grant,
                           .lease_keep_alive = etcd_lease_keep_alive,
                           .lease_revoke = etcd_lease_revoke,
                           .cancel = etcd_cancel,
                           .watch = etcd_watch_start,
                           .unwatch = etcd_watch_stop};
}

int etcd_new(const struct loop *loop, const struct etcd_options *options, struct etcd **ret_etcd,
             struct error *error)
{
    int status = check_options(options, error);
    if (status < 0)
        return status;
    struct etcd *etcd = calloc(1, sizeof(*etcd));
    if (!etcd)
        return error_set(error, -ENOMEM, "no memory for the etcd client");
    etcd->loop = loop;
    etcd->timeout_ns =
        options->request_timeout_ns > 0 ? options->request_timeout_ns : TIMEOUT_DEFAULT_NS;
    answer_timeout_init(&etcd->patience, etcd->timeout_ns);
    fill_table(etcd);
    status = endpoints_parse(options->endpoints, &etcd->endpoints, error);
    if (status < 0) {
        etcd_free(etcd);
        return status;
    }
    const struct byte_stream_security security = {options->ca_file, options->certificate_file,
                                                  options->key_file};
    if (options->user) {
        etcd->user = strdup(options->user);
        etcd->password = strdup(options->password);
    }
    if (options->user && (!etcd->user || !etcd->password))
        status = -ENOMEM;
    if (status == 0)
        status = etcd_auth_init(etcd);
    if (status == 0)
        status = http2_client_new(loop, &security, &etcd->http);
    if (status < 0) {
        etcd_free(etcd);
        return error_set(error, status, "the etcd client cannot start: %s", strerror(-status));
    }
    *ret_etcd = etcd;
    return 0;
}

void etcd_free(struct etcd *etcd)
{
    if (!etcd)
        return;
    etcd_watch_stop_all(etcd);
    while (etcd->requests)
        etcd_request_free(etcd->requests);
    etcd_auth_done(etcd);
    http2_client_free(etcd->http);
    free(etcd->user);
    free(etcd);
}

const struct kv *etcd_kv(struct etcd *etcd)
{
    return &etcd->kv;
}
