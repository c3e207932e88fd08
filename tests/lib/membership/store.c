#include "lib/membership/store.h"

#include <stdio.h>
#include <string.h>

void store_open_options(struct store *store, const struct etcd_options *options)
{
    struct error error = {0};
    store->loop = poll_loop_new();
    assert_non_null(store->loop);
    int status = etcd_new(poll_loop_table(store->loop), options, &store->etcd, &error);
    if (status < 0)
        fail_msg("%s", error.text);
    store->kv = etcd_kv(store->etcd);
}

void store_open(struct store *store, const struct etcd_fixture *fixture)
{
    char endpoints[ETCD_FIXTURE_TEXT_SIZE];
    etcd_fixture_endpoints(fixture, endpoints);
    store_open_options(
        store, &(struct etcd_options){.endpoints = endpoints, .request_timeout_ns = NS_PER_SECOND});
}

void store_close(struct store *store)
{
    etcd_free(store->etcd);
    poll_loop_free(store->loop);
}

void store_run(struct store *store, const bool *done)
{
    assert_int_equal(poll_loop_run(store->loop, done, clock_monotonic_ns() + STORE_WAIT_NS), 0);
}

static void store_copy(struct stored *to, const struct kv_entry *entry)
{
    assert_int_equal(entry->value[entry->value_bytes], '\0');
    snprintf(to->key, sizeof(to->key), "%s", entry->key);
    snprintf(to->value, sizeof(to->value), "%s", entry->value);
    to->create_revision = entry->create_revision;
    to->mod_revision = entry->mod_revision;
    to->version = entry->version;
    to->lease = entry->lease;
}

void store_done(void *context, const struct kv_result *result)
{
    struct outcome *outcome = context;
    outcome->done = true;
    outcome->calls++;
    outcome->status = result->status;
    outcome->revision = result->revision;
    outcome->lease = result->lease;
    outcome->ttl_seconds = result->ttl_seconds;
    outcome->succeeded = result->succeeded;
    outcome->count = result->entry_count;
    snprintf(outcome->text, sizeof(outcome->text), "%s", result->error.text);
    assert_true((result->status < 0) == (result->error.text[0] != '\0'));
    assert_true(outcome->count <= STORE_ENTRIES_MAX);
    for (size_t i = 0; i < outcome->count; i++)
        store_copy(&outcome->entries[i], &result->entries[i]);
}

struct outcome store_range(struct store *store, const char *key, bool prefix)
{
    struct outcome outcome = {0};
    struct kv_request *request;
    assert_int_equal(
        store->kv->range(store->kv->context, key, prefix, store_done, &outcome, &request), 0);
    assert_false(outcome.done); /* never from inside the starting call */
    store_run(store, &outcome.done);
    return outcome;
}

struct outcome store_txn(struct store *store, const struct kv_compare *compares,
                         size_t compare_count, const struct kv_operation *operations,
                         size_t operation_count)
{
    struct outcome outcome = {0};
    struct kv_request *request;
    assert_int_equal(store->kv->txn(store->kv->context, compares, compare_count, operations,
                                    operation_count, store_done, &outcome, &request),
                     0);
    store_run(store, &outcome.done);
    return outcome;
}

struct outcome store_put(struct store *store, const char *key, const char *value, int64_t lease)
{
    struct kv_operation put = {.type = KV_PUT, .key = key, .value = value, .lease = lease};
    return store_txn(store, NULL, 0, &put, 1);
}

struct outcome store_delete(struct store *store, const char *key)
{
    struct kv_operation delete = {.type = KV_DELETE, .key = key};
    return store_txn(store, NULL, 0, &delete, 1);
}

struct outcome store_lease(struct store *store, store_lease_function function, int64_t number)
{
    struct outcome outcome = {0};
    struct kv_request *request;
    assert_int_equal(function(store->kv->context, number, store_done, &outcome, &request), 0);
    store_run(store, &outcome.done);
    return outcome;
}

static void store_posted(void *context, const struct http_answer *answer)
{
    struct posted *posted = context;
    posted->done = true;
    posted->status = answer->status;
    posted->code = answer->code;
    snprintf(posted->body, sizeof(posted->body), "%.*s", (int)answer->body_bytes,
             (const char *)answer->body);
}

struct posted store_post_as(const struct etcd_fixture *fixture, const char *token, const char *path,
                            const char *body)
{
    struct poll_loop *loop = poll_loop_new();
    struct http_client *client;
    struct http_request *request;
    struct posted posted = {0};
    char url[ETCD_FIXTURE_TEXT_SIZE], authorization[ETCD_FIXTURE_TEXT_SIZE];
    const char *headers[] = {"Content-Type: application/json", NULL, NULL};
    snprintf(authorization, sizeof(authorization), "Authorization: %s", token ? token : "");
    if (token)
        headers[1] = authorization;
    etcd_fixture_url(fixture->members[0].client_port, url);
    strncat(url, path, sizeof(url) - strlen(url) - 1);
    assert_int_equal(http_client_new(poll_loop_table(loop), &client), 0);
    const struct http_order order = {.url = url,
                                     .headers = headers,
                                     .body = body,
                                     .body_bytes = strlen(body),
                                     .timeout_ns = 10 * NS_PER_SECOND,
                                     .answer_bytes_max = 65536};
    assert_int_equal(http_start(client, &order, NULL, store_posted, &posted, &request), 0);
    assert_int_equal(poll_loop_run(loop, &posted.done, clock_monotonic_ns() + STORE_WAIT_NS), 0);
    if (posted.status != 0 || posted.code != 200)
        fail_msg("%s: %d %ld %s", path, posted.status, posted.code, posted.body);
    http_client_free(client);
    poll_loop_free(loop);
    return posted;
}

void store_post(const struct etcd_fixture *fixture, const char *path, const char *body)
{
    store_post_as(fixture, NULL, path, body);
}

const char *watched_value(const struct watched *watched, const char *key)
{
    for (size_t i = 0; i < watched->count; i++) {
        if (strcmp(watched->entries[i].key, key) == 0)
            return watched->entries[i].value;
    }
    return NULL;
}

bool watched_is(const struct watched *watched, const char *key, const char *value)
{
    const char *now = watched_value(watched, key);
    return !value ? !now : now && strcmp(now, value) == 0;
}

static void watched_snapshot(void *context, const struct kv_entry *entries, size_t count,
                             int64_t revision)
{
    struct watched *watched = context;
    assert_true(count <= STORE_ENTRIES_MAX);
    watched->snapshots++;
    watched->count = count;
    watched->revision = revision;
    for (size_t i = 0; i < count; i++)
        store_copy(&watched->entries[i], &entries[i]);
}

static void watched_forget(struct watched *watched, const char *key)
{
    for (size_t i = 0; i < watched->count; i++) {
        if (strcmp(watched->entries[i].key, key) == 0)
            watched->entries[i] = watched->entries[--watched->count];
    }
}

static void watched_events(void *context, const struct kv_event *events, size_t count,
                           int64_t revision)
{
    struct watched *watched = context;
    assert_true(watched->snapshots > 0);
    assert_true(revision > watched->revision);
    watched->revision = revision;
    for (size_t i = 0; i < count; i++) {
        const struct kv_entry *entry = &events[i].entry;
        size_t length = strlen(watched->history);
        watched_forget(watched, entry->key);
        snprintf(watched->history + length, sizeof(watched->history) - length,
                 events[i].deleted ? "-%s " : "+%s=%s ", entry->key, entry->value);
        assert_true(watched->count < STORE_ENTRIES_MAX);
        if (!events[i].deleted)
            store_copy(&watched->entries[watched->count++], entry);
    }
}

static void watched_state(void *context, const struct error *error)
{
    struct watched *watched = context;
    watched->losses += error != NULL;
    watched->returns += !error;
    watched->lost_status = error ? error->code : 0;
    snprintf(watched->lost_text, sizeof(watched->lost_text), "%s", error ? error->text : "");
}

static const struct kv_watch_callbacks watched_callbacks = {watched_snapshot, watched_events,
                                                            watched_state};

void store_watch(struct store *store, const char *prefix, struct watched *watched)
{
    *watched = (struct watched){0};
    assert_int_equal(store->kv->watch(store->kv->context, prefix, NULL, &watched_callbacks, watched,
                                      &watched->watch),
                     0);
    assert_int_equal(watched->snapshots, 0);
}

void store_unwatch(struct store *store, struct watched *watched)
{
    store->kv->unwatch(store->kv->context, watched->watch);
}
