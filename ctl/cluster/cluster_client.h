/*
 * firnctl's connection to a cluster: an etcd client with one request at a time, and an HTTP client
 * for the nodes, on one small loop.
 *
 * Settings come from flags, then the environment (FIRN_ENDPOINTS, FIRN_CLUSTER, FIRN_ETCD_USER,
 * FIRN_ETCD_PASSWORD_FILE, FIRN_ETCD_CA, FIRN_ETCD_CERTIFICATE, FIRN_ETCD_KEY, FIRN_TOKEN_FILE,
 * FIRN_AUTHORITIES), then defaults. A request to an unreachable etcd is retried until the deadline,
 * with one message on standard error.
 */
#pragma once

#include "base/name.h"
#include "ctl/command/arguments.h"
#include "membership/etcd/etcd.h"
#include "membership/kv/keys.h"
#include "membership/transport/http.h"
#include "membership/transport/poll_loop.h"

#define CLUSTER_CLIENT_ENDPOINTS_SIZE  1024
#define CLUSTER_CLIENT_PATH_SIZE       1024
#define CLUSTER_CLIENT_TIMEOUT_S       10
#define CLUSTER_CLIENT_NODES_TIMEOUT_S 3 /* if the nodes can answer instead */

struct cluster_client {
    struct poll_loop *loop;
    struct etcd *etcd;
    const struct kv *kv;
    struct http_client *http;
    char endpoints[CLUSTER_CLIENT_ENDPOINTS_SIZE];
    char cluster[NAME_SIZE];
    char token_file[CLUSTER_CLIENT_PATH_SIZE]; /* of the token for the nodes; "": none */
    uint64_t timeout_ns;                       /* of one call */
    bool quiet;                                /* print no message while waiting */
    bool asks_nodes;   /* the command can do without etcd (ctl/cluster/remembered.h) */
    bool away;         /* etcd is unreachable, and the user was told */
    uint64_t saved_ns; /* last save of etcd's keys; monotonic */
};

/** cluster_client_open() - open a client by flags and environment; sends no request. Return: 0;
 * COMMAND_USAGE: invalid settings; negative errno */
int cluster_client_open(const struct arguments *arguments, struct cluster_client *ret_client,
                        struct error *error) CHECK_RESULT;
/** cluster_client_open_at() - open a cluster at known endpoints; nodes get no token */
int cluster_client_open_at(const char *endpoints, const char *cluster, uint64_t timeout_ns,
                           struct cluster_client *ret_client, struct error *error) CHECK_RESULT;
void cluster_client_close(struct cluster_client *client);

/** cluster_client_range() - call @take with the entries at @key (or below it); entries are borrowed
 *
 * Return: 0, the error of @take, or the error of etcd. */
int cluster_client_range(struct cluster_client *client, const char *key, bool prefix,
                         int (*take)(void *context, const struct kv_result *result,
                                     struct error *error),
                         void *context, struct error *error) CHECK_RESULT;

/** cluster_client_txn() - send one transaction, once. Return: 0 and whether its compares held, or
 * the error */
int cluster_client_txn(struct cluster_client *client, const struct kv_compare *compares,
                       size_t compare_count, const struct kv_operation *operations,
                       size_t operation_count, bool *ret_succeeded,
                       struct error *error) CHECK_RESULT;

/** cluster_client_pause() - let the loop run for a while */
void cluster_client_pause(struct cluster_client *client, uint64_t duration_ns);
