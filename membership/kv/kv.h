/*
 * The key-value store that firn coordinates through, as a table: etcd, or a simulated one.
 *
 * All operations are asynchronous on the caller's event loop, and single-threaded. An operation
 * that starts (0) calls back exactly once, never from inside the starting call. An operation that
 * fails to start (negative), or is cancelled (`cancel` below), never calls back. Strings and
 * results are borrowed during the callback.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define KV_KEY_MAX   1024
#define KV_VALUE_MAX (1u << 20) /* etcd's default request limit is 1.5 MiB */
#define KV_TXN_MAX   64

struct kv_entry {
    const char *key;
    const char *value; /* zero-terminated */
    size_t value_bytes;
    int64_t create_revision, mod_revision, version, lease;
};

struct kv_compare {
    const char *key;
    enum {
        KV_CREATE_REVISION, /* equals @value; 0: the key is absent */
        KV_MOD_REVISION,    /* likewise */
        KV_VERSION,         /* likewise */
        KV_NOT_AFTER, /* no key from this one up to @before was written after revision @value */
    } target;
    int64_t value;
    const char *before; /* KV_NOT_AFTER: sorts behind @key; else NULL */
};

struct kv_operation {
    enum { KV_PUT, KV_DELETE, KV_DELETE_PREFIX } type;
    const char *key;   /* KV_DELETE_PREFIX: the prefix of the keys */
    const char *value; /* KV_PUT */
    int64_t lease;     /* KV_PUT: 0 for none */
};

struct kv_result {
    int status; /* 0; -ECONNREFUSED/-ETIMEDOUT/-EHOSTUNREACH (no endpoint answers), -EACCES
                   (credentials), -EPROTO, ... */
    struct error error;
    int64_t revision;               /* of the store when it answered */
    bool succeeded;                 /* txn: the compares held */
    const struct kv_entry *entries; /* range */
    size_t entry_count;
    int64_t lease;       /* grant */
    int64_t ttl_seconds; /* grant, keep-alive: 0: the lease is gone */
};
typedef void (*kv_callback)(void *context, const struct kv_result *result);

/** kv_refused() - return whether @status says that the store answered but accepted no write: it has
 * no space, or no permission for this user */
static inline bool kv_refused(int status)
{
    return status && status != -ECONNREFUSED && status != -ETIMEDOUT && status != -EHOSTUNREACH;
}

struct kv_event {
    bool deleted;
    struct kv_entry entry;
};
struct kv_watch_callbacks {
    /* all watched keys, at the start and again after a compaction or a long absence: forget all
     * other keys */
    void (*snapshot)(void *context, const struct kv_entry *entries, size_t count, int64_t revision);
    void (*events)(void *context, const struct kv_event *events, size_t count, int64_t revision);
    /* connection to the store lost (@error) or back (NULL): information only, the watch resumes by
     * itself; not called when it resumes at once on another member */
    void (*state)(void *context, const struct error *error);
};

struct kv_request; /* an operation in flight */
struct kv_watch;

struct kv {
    void *context;
    int (*range)(void *context, const char *key, bool prefix, kv_callback done, void *user,
                 struct kv_request **ret_request) CHECK_RESULT;
    /* one atomic transaction: if all compares hold, all operations. It is never carried out twice.
       After -ETIMEDOUT, -ECONNRESET or -EHOSTUNREACH the outcome is unknown: read to find out */
    int (*txn)(void *context, const struct kv_compare *compares, size_t compare_count,
               const struct kv_operation *operations, size_t operation_count, kv_callback done,
               void *user, struct kv_request **ret_request) CHECK_RESULT;
    int (*lease_grant)(void *context, int64_t ttl_seconds, kv_callback done, void *user,
                       struct kv_request **ret_request) CHECK_RESULT;
    int (*lease_keep_alive)(void *context, int64_t lease, kv_callback done, void *user,
                            struct kv_request **ret_request) CHECK_RESULT;
    int (*lease_revoke)(void *context, int64_t lease, kv_callback done, void *user,
                        struct kv_request **ret_request) CHECK_RESULT;
    void (*cancel)(void *context, struct kv_request *request); /* NULL allowed */
    /* the keys that begin with @prefix and, unless that is NULL, sort before @before */
    int (*watch)(void *context, const char *prefix, const char *before,
                 const struct kv_watch_callbacks *callbacks, void *user,
                 struct kv_watch **ret_watch) CHECK_RESULT;
    void (*unwatch)(void *context, struct kv_watch *watch);
};
