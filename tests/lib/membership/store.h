/*
 * For tests: an etcd client on a poll loop, its operations as blocking calls, and a watch that
 * keeps its events.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "base/clock.h"
#include "lib/membership/etcd_fixture.h"
#include "membership/etcd/etcd.h"
#include "membership/transport/http.h"
#include "membership/transport/poll_loop.h"

#define STORE_WAIT_NS     (20 * NS_PER_SECOND)
#define STORE_ENTRIES_MAX 64
#define STORE_TEXT_SIZE   128
#define REQUIRE_ETCD()                                                                             \
    do {                                                                                           \
        if (!etcd_fixture_available()) {                                                           \
            print_message("skipped: %s is not installed\n", ETCD_FIXTURE_PROGRAM);                 \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

struct store {
    struct poll_loop *loop;
    struct etcd *etcd;
    const struct kv *kv;
};

/** store_open_options() - open a client */
void store_open_options(struct store *store, const struct etcd_options *options);

/** store_open() - open a client of @fixture */
void store_open(struct store *store, const struct etcd_fixture *fixture);

/** store_close() - close the client */
void store_close(struct store *store);

/** store_run() - run the loop until *@done */
void store_run(struct store *store, const bool *done);

/* Run the loop until a condition holds, which is checked after every round of a few milliseconds.
 */
#define STORE_UNTIL(store, condition)                                                              \
    do {                                                                                           \
        uint64_t until_ns_ = clock_monotonic_ns() + STORE_WAIT_NS;                                 \
        bool never_ = false;                                                                       \
        while (!(condition)) {                                                                     \
            if (clock_monotonic_ns() >= until_ns_)                                                 \
                fail_msg("never came true: %s", #condition);                                       \
            (void)!poll_loop_run((store)->loop, &never_, clock_monotonic_ns() + 5 * NS_PER_MS);    \
        }                                                                                          \
    } while (0)

struct stored {
    char key[STORE_TEXT_SIZE], value[STORE_TEXT_SIZE];
    int64_t create_revision, mod_revision, version, lease;
};

struct outcome {
    bool done;
    unsigned calls;
    int status;
    char text[ERROR_TEXT_SIZE];
    int64_t revision, lease, ttl_seconds;
    bool succeeded;
    size_t count;
    struct stored entries[STORE_ENTRIES_MAX];
};

/** store_done() - take the result of a call; a kv_callback */
void store_done(void *context, const struct kv_result *result);

/** store_range() - read @key; with @prefix all keys that begin with it */
struct outcome store_range(struct store *store, const char *key, bool prefix);

/** store_txn() - carry out a transaction */
struct outcome store_txn(struct store *store, const struct kv_compare *compares,
                         size_t compare_count, const struct kv_operation *operations,
                         size_t operation_count);

/** store_put() - put a key under a lease; 0: none */
struct outcome store_put(struct store *store, const char *key, const char *value, int64_t lease);

/** store_delete() - delete a key */
struct outcome store_delete(struct store *store, const char *key);

typedef int (*store_lease_function)(void *, int64_t, kv_callback, void *, struct kv_request **);

/** store_lease() - call a function of leases with @number */
struct outcome store_lease(struct store *store, store_lease_function function, int64_t number);

struct posted {
    bool done;
    int status;
    long code;
    char body[1024];
};

/* Post requests for which the client has no call: compaction, users and roles. @token: NULL for
 * none */
struct posted store_post_as(const struct etcd_fixture *fixture, const char *token, const char *path,
                            const char *body);

/** store_post() - post a request without a token, as store_post_as() does */
void store_post(const struct etcd_fixture *fixture, const char *path, const char *body);

/* A watch's history: the keys as they must be now, and every event as text, so that a lost or
 * repeated event shows. */
struct watched {
    struct kv_watch *watch;
    unsigned snapshots, losses, returns;
    int lost_status;
    char lost_text[ERROR_TEXT_SIZE];
    int64_t revision;
    size_t count;
    struct stored entries[STORE_ENTRIES_MAX];
    char history[4096]; /* "+a=1 -a +b=2 " */
};

/** watched_value() - return the value of @key as watched, or NULL */
const char *watched_value(const struct watched *watched, const char *key);

/** watched_is() - return whether @key has @value as watched */
bool watched_is(const struct watched *watched, const char *key, const char *value);

/** store_watch() - watch all keys that begin with @prefix */
void store_watch(struct store *store, const char *prefix, struct watched *watched);

/** store_unwatch() - end the watch */
void store_unwatch(struct store *store, struct watched *watched);
