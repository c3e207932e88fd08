/*
 * Shared by the parts of the etcd client: etcd.c (requests, fail-over), etcd_auth.c (the token),
 * etcd_watch.c (streams).
 */
#pragma once

#include "membership/etcd/answer_timeout.h"
#include "membership/etcd/endpoints.h"
#include "membership/etcd/etcd.h"
#include "membership/etcd/etcd_codec.h"
#include "membership/etcd/etcd_failure.h"
#include "membership/etcd/etcd_pages.h"
#include "membership/etcd/grpc.h"
#include "membership/transport/timer.h"

#define ETCD_URL_SIZE         288
#define ETCD_ANSWER_BYTES_MAX (64u << 20)

struct kv_request {
    struct etcd *etcd;
    struct kv_request *next, **back; /* in the list of sent requests, or of those without a token */
    enum etcd_operation operation;
    struct bytes body;
    struct etcd_pages *pages; /* NULL: a single answer has the whole result */
    bool repeatable;          /* the request is idempotent */
    bool reconnected;         /* the request was retried after its connection was lost */
    unsigned endpoint;        /* of the current attempt */
    unsigned attempts;
    uint64_t sent_ns, limit_ns; /* of this attempt: its beginning, and its answer timeout */
    uint64_t token_number;      /* of the token it was sent with */
    bool token_renewed;         /* only once per request: refusal of a fresh token is final */
    struct grpc_call *call;     /* NULL: waits for a token */
    kv_callback done;
    void *user;
};

struct etcd {
    const struct loop *loop;
    struct kv kv;
    struct http2_client *http;
    struct endpoints endpoints;
    unsigned current;    /* the endpoint in use */
    uint64_t timeout_ns; /* of one attempt while the store answers in time */
    struct answer_timeout patience;
    char *user, *password;
    char *token; /* "token: ..."; NULL: not authenticated; "": the server needs none */
    uint64_t
        token_number; /* counts tokens, so that a late refusal of an old one spares the new one */
    struct kv_request *authenticating;
    struct kv_request *waiting;  /* for the token */
    struct timer waiting_failed; /* delivers auth_error to `waiting` */
    struct error auth_error;
    struct kv_request *requests; /* sent */
    struct kv_watch *watches;
};

/* etcd.c */
int etcd_request_new(struct etcd *etcd, enum etcd_operation operation, bool repeatable,
                     kv_callback done, void *user, struct kv_request **ret_request) CHECK_RESULT;
/** etcd_request_range() - make @request read all keys below @prefix and, unless NULL, before
 * @before, in as many pages as needed. Return: 0 or -ENOMEM */
int etcd_request_range(struct kv_request *request, const char *prefix,
                       const char *before) CHECK_RESULT;
/** etcd_request_send() - make the first or next attempt. Return: 0; negative: not in flight, the
 * caller still owns the request */
int etcd_request_send(struct kv_request *request) CHECK_RESULT;
void etcd_request_free(struct kv_request *request); /* unlinks, cancels; NULL allowed */
/** etcd_request_finish() - free the request, then call its `done`; touch nothing afterwards */
void etcd_request_finish(struct kv_request *request, const struct kv_result *result);
void etcd_request_list(struct kv_request **list,
                       struct kv_request *request); /* move into a list, out of the old one */
/** etcd_endpoint_failed() - use the next endpoint from now on, unless the current one has changed
 * already */
void etcd_endpoint_failed(struct etcd *etcd, unsigned endpoint);

#define ETCD_METADATA_MAX 3 /* including the terminating NULL */
struct etcd_address {       /* strings that a call's order borrows */
    char url[ETCD_URL_SIZE];
    const char *metadata[ETCD_METADATA_MAX];
};
/** etcd_order_prepare() - prepare an order without message, for a call of @method on @endpoint
 * @ret_address: must outlive the order, and is invalid once the token changes */
void etcd_order_prepare(const struct etcd *etcd, unsigned endpoint, const char *method,
                        struct etcd_address *ret_address, struct grpc_order *ret_order);

/* etcd_auth.c */
bool etcd_auth_needed(const struct etcd *etcd); /* a user is configured, and no token is known */
/** etcd_auth_refused() - drop the refused token of this number; does nothing when there is a newer
 * token */
void etcd_auth_refused(struct etcd *etcd, uint64_t token_number);
/** etcd_auth_set() - set the token from etcd; NULL: the server needs none. Return: 0 or -ENOMEM */
int etcd_auth_set(struct etcd *etcd, const char *token) CHECK_RESULT;
/** etcd_auth_wait() - send @request as soon as there is a token, or finish it with the reason why
 * there is none */
int etcd_auth_wait(struct etcd *etcd, struct kv_request *request) CHECK_RESULT;
int etcd_auth_init(struct etcd *etcd) CHECK_RESULT;
void etcd_auth_done(struct etcd *etcd);

/* etcd_watch.c */
int etcd_watch_start(void *context, const char *prefix, const char *before,
                     const struct kv_watch_callbacks *callbacks, void *user,
                     struct kv_watch **ret_watch) CHECK_RESULT;
void etcd_watch_stop(void *context, struct kv_watch *watch);
/** etcd_watch_doubt() - check the streams of @endpoint, where a request failed */
void etcd_watch_doubt(struct etcd *etcd, unsigned endpoint);
void etcd_watch_stop_all(struct etcd *etcd);
