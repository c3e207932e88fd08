/*
 * Requests and watches: everything between a daemon and the store that can be late or lost.
 *
 * A request arrives, is carried out, and its answer comes back. The client stops waiting after a
 * second, whether or not the request was carried out. A request that did not get through is retried
 * for a while, as TCP does even for a process that has given up or died. A watch reads the store
 * shortly after every change and once a second. It delivers the changes that it has not delivered
 * yet, or all keys if those changes are compacted.
 */
#include <errno.h>
#include <string.h>

#include "sim/node/sim_node.h"
#include "sim/node/sim_store_internal.h"

#define REQUEST_TIMEOUT_NS NS_PER_SECOND
#define RETRY_NS           (100 * NS_PER_MS)
#define LATE_MAX_NS        (8 * NS_PER_SECOND)
#define WATCH_LOOK_NS      NS_PER_SECOND
#define WATCH_LAG_US       20000
#define EVENTS_MAX         64

enum request_type { REQUEST_RANGE, REQUEST_TXN, REQUEST_GRANT, REQUEST_KEEP_ALIVE, REQUEST_REVOKE };

struct kv_request {
    struct kv_request *next, **back;
    struct sim_store *store;
    uint64_t client;
    unsigned place;
    const struct sim_pause *pause;
    enum request_type type;
    char *key;
    bool prefix;
    struct kv_compare *compares;
    struct kv_operation *operations;
    size_t compare_count, operation_count;
    int64_t lease, ttl_seconds;
    kv_callback done; /* NULL: the caller has given up */
    void *user;
    uint64_t sent_ns;
    bool late;
    struct sim_event *deadline, *travel; /* travel: to the store, or the answer back */
    struct kv_result result;
    struct kv_entry *entries;
};

struct kv_watch {
    struct kv_watch *next, **back;
    struct sim_client *client;
    char *prefix, *before; /* before: NULL: no end */
    struct kv_watch_callbacks callbacks;
    void *user;
    int64_t told; /* delivered up to this revision; 0: nothing yet */
    bool away;    /* reported as away */
    bool tells;   /* a callback is running */
    bool ended;   /* no listener is left: freed after the callback */
    uint64_t heard_ns, look_ns;
    struct sim_event *look;
};

/* ---- requests ---- */

static void free_entries(struct kv_request *request)
{
    for (size_t i = 0; i < request->result.entry_count; i++) {
        free((void *)(uintptr_t)request->entries[i].key);
        free((void *)(uintptr_t)request->entries[i].value);
    }
    free(request->entries);
}

static void request_free(struct kv_request *request)
{
    *request->back = request->next;
    if (request->next)
        request->next->back = request->back;
    sim_cancel(request->store->sim, request->deadline);
    sim_cancel(request->store->sim, request->travel);
    for (size_t i = 0; i < request->compare_count; i++) {
        free((void *)(uintptr_t)request->compares[i].key);
        free((void *)(uintptr_t)request->compares[i].before);
    }
    for (size_t i = 0; i < request->operation_count; i++) {
        free((void *)(uintptr_t)request->operations[i].key);
        free((void *)(uintptr_t)request->operations[i].value);
    }
    free_entries(request);
    free(request->compares);
    free(request->operations);
    free(request->key);
    free(request);
}

/* Report the end of the request to the client. */
static void tell(struct kv_request *request, const struct kv_result *result)
{
    kv_callback done = request->done;
    request->done = NULL;
    sim_cancel(request->store->sim, request->deadline);
    request->deadline = NULL;
    if (done)
        done(request->user, result);
}

static void give_up(void *context)
{
    struct kv_request *request = context;
    struct kv_result result = {.status = -ETIMEDOUT};
    request->deadline = NULL;
    error_set(&result.error, -ETIMEDOUT, "etcd does not answer");
    tell(request, &result);
    if (!request->travel)
        request_free(request);
}

static void answer(void *context)
{
    struct kv_request *request = context;
    struct sim *sim = request->store->sim;
    request->travel = NULL;
    if (request->done && !sim_reachable(sim, request->place, SIM_STORE_PLACE)) {
        request->travel = sim_post(sim, sim->now_ns + RETRY_NS, request->pause, answer, request);
        return;
    }
    tell(request, &request->result);
    request_free(request);
}

static void copy_range(struct kv_request *request)
{
    size_t count;
    const struct sim_store_key *keys =
        store_range(request->store, request->key, request->prefix, &count);
    request->entries = sim_allocate(count + 1, sizeof(struct kv_entry));
    for (size_t i = 0; i < count; i++) {
        request->entries[i] = store_entry(&keys[i]);
        request->entries[i].key = strdup(keys[i].key);
        request->entries[i].value = strdup(keys[i].value);
    }
    request->result.entries = request->entries;
    request->result.entry_count = count;
}

static void carry_out(struct kv_request *request)
{
    struct sim_store *store = request->store;
    struct kv_result *result = &request->result;
    switch (request->type) {
    case REQUEST_RANGE:
        copy_range(request);
        break;
    case REQUEST_TXN:
        result->status = store_txn(store, request->client, request->sent_ns, request->compares,
                                   request->compare_count, request->operations,
                                   request->operation_count, &result->succeeded);
        break;
    case REQUEST_GRANT:
        result->lease = store_grant(store, request->client, request->ttl_seconds);
        result->ttl_seconds = request->ttl_seconds;
        break;
    case REQUEST_KEEP_ALIVE:
        result->ttl_seconds = store_keep_alive(store, request->lease);
        break;
    case REQUEST_REVOKE:
        store_revoke(store, request->lease);
        break;
    }
    result->revision = store->revision;
}

static void arrive(void *context)
{
    struct kv_request *request = context;
    struct sim_store *store = request->store;
    struct sim *sim = store->sim;
    request->travel = NULL;
    if (!sim_reachable(sim, request->place, SIM_STORE_PLACE)) {
        bool tries_on =
            sim->now_ns < request->sent_ns + (request->late ? LATE_MAX_NS : 0) || request->done;
        if (tries_on)
            request->travel = sim_post(sim, sim->now_ns + RETRY_NS, NULL, arrive, request);
        else
            request_free(request);
        return;
    }
    if (store->down) {
        request->result.status = -ECONNREFUSED;
        error_set(&request->result.error, -ECONNREFUSED, "etcd is down");
    } else {
        carry_out(request);
        if (sim_chance(sim, STREAM_DELAYS, store->lost_answers_percent)) {
            if (!request->done)
                request_free(request); /* otherwise the deadline ends it */
            return;
        }
    }
    request->travel = sim_post(sim, sim_transit(sim, request->place, SIM_STORE_PLACE),
                               request->pause, answer, request);
}

static int start(void *context, enum request_type type, kv_callback done, void *user,
                 struct kv_request **ret_request)
{
    struct sim_client *client = context;
    struct sim_store *store = client->sim->store;
    struct sim *sim = client->sim;
    if (client->dead)
        return -ECONNREFUSED;
    struct kv_request *request = sim_allocate(1, sizeof(*request));
    request->store = store;
    request->client = client->id;
    request->place = client->place;
    request->pause = client->pause;
    request->type = type;
    request->done = done;
    request->user = user;
    request->sent_ns = sim->now_ns;
    request->late = sim_chance(sim, STREAM_DELAYS, store->late_requests_percent);
    request->next = store->requests;
    request->back = &store->requests;
    if (request->next)
        request->next->back = &request->next;
    store->requests = request;
    uint64_t there_ns = sim_transit(sim, client->place, SIM_STORE_PLACE);
    if (request->late)
        there_ns += sim_random(sim, STREAM_DELAYS, LATE_MAX_NS);
    request->deadline =
        sim_post(sim, sim->now_ns + REQUEST_TIMEOUT_NS, client->pause, give_up, request);
    request->travel = sim_post(sim, there_ns, NULL, arrive, request);
    *ret_request = request;
    return 0;
}

static int start_range(void *context, const char *key, bool prefix, kv_callback done, void *user,
                       struct kv_request **ret_request)
{
    int status = start(context, REQUEST_RANGE, done, user, ret_request);
    if (status == 0) {
        (*ret_request)->key = strdup(key);
        (*ret_request)->prefix = prefix;
    }
    return status;
}

static void mend_late(void *context)
{
    const struct kv_request *request = context;
    sim_network_mend(request->store->sim, request->place, SIM_STORE_PLACE);
    sim_node_disturb(&request->store->sim->nodes[request->place]);
}

/* Delay a plan: until it arrives, its writer and the request are cut off. */
static void delay_plan(struct kv_request *request)
{
    struct sim_store *store = request->store;
    struct sim *sim = store->sim;
    bool plans = false;
    for (size_t i = 0; i < request->operation_count; i++)
        plans = plans || strstr(request->operations[i].key, "/generation") ||
                strstr(request->operations[i].key, "/next");
    if (!plans || store->late_plan_ns == 0)
        return;
    sim_trace(sim, "%s writes a plan that comes late", sim_node_name(sim, request->place));
    uint64_t there_ns = sim->now_ns + store->late_plan_ns;
    store->late_plan_ns = 0;
    request->late = true;
    sim_network_cut(sim, request->place, SIM_STORE_PLACE);
    sim_node_disturb(&sim->nodes[request->place]);
    sim_post(sim, there_ns, NULL, mend_late, request);
    sim_cancel(sim, request->travel);
    request->travel = sim_post(sim, there_ns, NULL, arrive, request);
}

/* Delay many records that lack their guard: only a record that arrives after a generation that goes
 * back shows this bug. */
static void delay_unguarded_record(struct kv_request *request)
{
    struct sim *sim = request->store->sim;
    if (sim->bug != BUG_OLD_CHECKPOINT || !strstr(request->operations[0].key, "/checkpoints/"))
        return;
    request->late = true;
    sim_cancel(sim, request->travel);
    request->travel = sim_post(sim, sim->now_ns + sim_random(sim, STREAM_DELAYS, LATE_MAX_NS), NULL,
                               arrive, request);
}

static int start_txn(void *context, const struct kv_compare *compares, size_t compare_count,
                     const struct kv_operation *operations, size_t operation_count,
                     kv_callback done, void *user, struct kv_request **ret_request)
{
    int status = start(context, REQUEST_TXN, done, user, ret_request);
    if (status < 0)
        return status;
    struct kv_request *request = *ret_request;
    request->compares = sim_allocate(compare_count + 1, sizeof(struct kv_compare));
    request->operations = sim_allocate(operation_count + 1, sizeof(struct kv_operation));
    request->compare_count = compare_count;
    request->operation_count = operation_count;
    for (size_t i = 0; i < compare_count; i++) {
        request->compares[i] = compares[i];
        request->compares[i].key = strdup(compares[i].key);
        if (compares[i].before)
            request->compares[i].before = strdup(compares[i].before);
    }
    for (size_t i = 0; i < operation_count; i++) {
        request->operations[i] = operations[i];
        request->operations[i].key = strdup(operations[i].key);
        request->operations[i].value = operations[i].value ? strdup(operations[i].value) : NULL;
    }
    delay_plan(request);
    delay_unguarded_record(request);
    return 0;
}

static int start_grant(void *context, int64_t ttl_seconds, kv_callback done, void *user,
                       struct kv_request **ret_request)
{
    int status = start(context, REQUEST_GRANT, done, user, ret_request);
    if (status == 0)
        (*ret_request)->ttl_seconds = ttl_seconds;
    return status;
}

static int start_keep_alive(void *context, int64_t lease, kv_callback done, void *user,
                            struct kv_request **ret_request)
{
    int status = start(context, REQUEST_KEEP_ALIVE, done, user, ret_request);
    if (status == 0)
        (*ret_request)->lease = lease;
    return status;
}

static int start_revoke(void *context, int64_t lease, kv_callback done, void *user,
                        struct kv_request **ret_request)
{
    int status = start(context, REQUEST_REVOKE, done, user, ret_request);
    if (status == 0)
        (*ret_request)->lease = lease;
    return status;
}

static void cancel(void *context, struct kv_request *request)
{
    (void)context;
    if (!request)
        return;
    request->done = NULL;
    request->pause = NULL;
    sim_cancel(request->store->sim, request->deadline);
    request->deadline = NULL;
    if (!request->travel)
        request_free(request);
}

/* ---- watches ---- */

static void look(void *context);

static void look_at(struct kv_watch *watch, uint64_t at_ns)
{
    struct sim *sim = watch->client->sim;
    if (watch->look && watch->look_ns <= at_ns)
        return;
    sim_cancel(sim, watch->look);
    watch->look_ns = at_ns;
    watch->look = sim_post(sim, at_ns, watch->client->pause, look, watch);
}

static bool is_watched(const struct kv_watch *watch, const char *key)
{
    return strncmp(key, watch->prefix, strlen(watch->prefix)) == 0 &&
           (!watch->before || strcmp(key, watch->before) < 0);
}

static void tell_snapshot(struct kv_watch *watch)
{
    size_t in_range, count = 0;
    const struct sim_store *store = watch->client->sim->store;
    const struct sim_store_key *keys = store_range(store, watch->prefix, true, &in_range);
    AUTO_FREE struct kv_entry *entries = sim_allocate(in_range + 1, sizeof(*entries));
    for (size_t i = 0; i < in_range; i++)
        if (is_watched(watch, keys[i].key))
            entries[count++] = store_entry(&keys[i]);
    watch->told = store->revision;
    watch->callbacks.snapshot(watch->user, entries, count, store->revision);
}

static struct kv_event event_of(const struct sim_store_change *change)
{
    return (struct kv_event){.deleted = !change->value,
                             .entry = {.key = change->key,
                                       .value = change->value,
                                       .value_bytes = change->value ? strlen(change->value) : 0,
                                       .create_revision = change->create_revision,
                                       .mod_revision = change->revision,
                                       .version = change->version,
                                       .lease = change->lease}};
}

static void tell_events(struct kv_watch *watch)
{
    const struct sim_store *store = watch->client->sim->store;
    struct kv_event events[EVENTS_MAX];
    size_t i = store->change_count;
    while (i > 0 && store->changes[i - 1].revision > watch->told)
        i--;
    while (i < store->change_count && !watch->ended) {
        size_t count = 0;
        for (; i < store->change_count && count < EVENTS_MAX; i++) {
            watch->told = store->changes[i].revision;
            if (is_watched(watch, store->changes[i].key))
                events[count++] = event_of(&store->changes[i]);
        }
        if (count > 0)
            watch->callbacks.events(watch->user, events, count,
                                    events[count - 1].entry.mod_revision);
    }
}

static void watch_free(struct kv_watch *watch)
{
    *watch->back = watch->next;
    if (watch->next)
        watch->next->back = watch->back;
    sim_cancel(watch->client->sim, watch->look);
    free(watch->prefix);
    free(watch->before);
    free(watch);
}

static void end_watch(void *context, struct kv_watch *watch)
{
    (void)context;
    watch->ended = true;
    if (!watch->tells)
        watch_free(watch);
}

/* Deliver the changes since the last delivery; the callback may end the watch. */
static void tell_news(struct kv_watch *watch)
{
    const struct sim_store *store = watch->client->sim->store;
    watch->tells = true;
    if (watch->away) {
        watch->away = false;
        watch->callbacks.state(watch->user, NULL);
    }
    if (!watch->ended && (watch->told == 0 || watch->told < store->compacted))
        tell_snapshot(watch);
    else if (!watch->ended && watch->told < store->revision)
        tell_events(watch);
    watch->tells = false;
    if (watch->ended)
        watch_free(watch);
}

static void look(void *context)
{
    struct kv_watch *watch = context;
    struct sim *sim = watch->client->sim;
    const struct sim_store *store = sim->store;
    uint64_t stalled_ns = sim->nodes[watch->client->place].watch_stalled_ns;
    watch->look = NULL;
    if (sim->now_ns < stalled_ns) {
        look_at(watch, stalled_ns);
        return;
    }
    if (store->down || !sim_reachable(sim, watch->client->place, SIM_STORE_PLACE)) {
        struct error error;
        error_set(&error, -EHOSTUNREACH, "no endpoint answers");
        if (!watch->away && sim->now_ns - watch->heard_ns >= WATCH_LOOK_NS) {
            watch->away = true;
            watch->callbacks.state(watch->user, &error);
        }
        look_at(watch, sim->now_ns + WATCH_LOOK_NS / 4);
        return;
    }
    watch->heard_ns = sim->now_ns;
    look_at(watch, sim->now_ns + WATCH_LOOK_NS);
    tell_news(watch);
}

void watches_wake(struct sim_store *store)
{
    for (struct kv_watch *watch = store->watches; watch; watch = watch->next)
        look_at(watch, sim_transit(store->sim, watch->client->place, SIM_STORE_PLACE) +
                           sim_random(store->sim, STREAM_DELAYS, WATCH_LAG_US) * NS_PER_US);
}

static int start_watch(void *context, const char *prefix, const char *before,
                       const struct kv_watch_callbacks *callbacks, void *user,
                       struct kv_watch **ret_watch)
{
    struct sim_client *client = context;
    struct sim_store *store = client->sim->store;
    struct kv_watch *watch = sim_allocate(1, sizeof(*watch));
    watch->client = client;
    watch->prefix = strdup(prefix);
    watch->before = before ? strdup(before) : NULL;
    watch->callbacks = *callbacks;
    watch->user = user;
    watch->heard_ns = client->sim->now_ns;
    watch->next = store->watches;
    watch->back = &store->watches;
    if (watch->next)
        watch->next->back = &watch->next;
    store->watches = watch;
    look_at(watch, sim_transit(client->sim, client->place, SIM_STORE_PLACE));
    *ret_watch = watch;
    return 0;
}

/* ---- clients ---- */

void sim_client_init(struct sim_client *client, struct sim *sim, unsigned place,
                     const struct sim_pause *pause)
{
    *client = (struct sim_client){
        .kv = {.range = start_range,
               .txn = start_txn,
               .lease_grant = start_grant,
               .lease_keep_alive = start_keep_alive,
               .lease_revoke = start_revoke,
               .cancel = cancel,
               .watch = start_watch,
               .unwatch = end_watch},
        .sim = sim,
        .id = ++sim->store->last_client,
        .place = place,
        .pause = pause,
    };
    client->kv.context = client;
}

void sim_client_done(struct sim_client *client)
{
    struct sim_store *store = client->sim->store;
    client->dead = true;
    for (struct kv_request *request = store->requests, *next; request; request = next) {
        next = request->next;
        if (request->client == client->id)
            cancel(client, request);
    }
    for (struct kv_watch *watch = store->watches, *next; watch; watch = next) {
        next = watch->next;
        if (watch->client == client)
            end_watch(client, watch);
    }
}

void sim_store_free(struct sim_store *store)
{
    while (store->requests)
        request_free(store->requests);
    while (store->watches)
        end_watch(NULL, store->watches);
    sim_store_compact(store);
    for (size_t i = 0; i < store->key_count; i++) {
        free(store->keys[i].key);
        free(store->keys[i].value);
    }
    free(store->keys);
    free(store->changes);
    free(store->leases);
    free(store);
}
