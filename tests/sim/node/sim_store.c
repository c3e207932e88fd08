#include "sim/node/sim_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/check/sim_check.h"
#include "sim/node/sim_store_internal.h"

struct sim_store *sim_store_new(struct sim *sim)
{
    struct sim_store *store = sim_allocate(1, sizeof(*store));
    store->sim = sim;
    store->revision = store->compacted = 1;
    return store;
}

static size_t lower_bound(const struct sim_store *store, const char *key)
{
    size_t low = 0, high = store->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(store->keys[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct sim_store_key *find(const struct sim_store *store, const char *key)
{
    size_t at = lower_bound(store, key);
    bool there = at < store->key_count && strcmp(store->keys[at].key, key) == 0;
    return there ? &store->keys[at] : NULL;
}

const struct sim_store_key *sim_store_find(const struct sim_store *store, const char *key)
{
    return find(store, key);
}

const struct sim_store_key *store_range(const struct sim_store *store, const char *key, bool prefix,
                                        size_t *ret_count)
{
    size_t first = lower_bound(store, key), end = first, length = strlen(key);
    while (end < store->key_count && (prefix ? strncmp(store->keys[end].key, key, length) == 0
                                             : strcmp(store->keys[end].key, key) == 0))
        end++;
    *ret_count = end - first;
    return &store->keys[first];
}

struct kv_entry store_entry(const struct sim_store_key *key)
{
    return (struct kv_entry){.key = key->key,
                             .value = key->value,
                             .value_bytes = strlen(key->value),
                             .create_revision = key->create_revision,
                             .mod_revision = key->mod_revision,
                             .version = key->version,
                             .lease = key->lease};
}

/* ---- changes ---- */

static void remember(struct sim_store *store, const char *key, const struct sim_store_key *now)
{
    if (store->change_count == store->change_room) {
        store->change_room = MAX(2 * store->change_room, (size_t)64);
        store->changes =
            realloc(store->changes, store->change_room * sizeof(struct sim_store_change));
        assert(store->changes);
    }
    store->changes[store->change_count++] = (struct sim_store_change){
        .revision = store->revision,
        .key = strdup(key),
        .value = now ? strdup(now->value) : NULL,
        .create_revision = now ? now->create_revision : 0,
        .version = now ? now->version : 0,
        .lease = now ? now->lease : 0,
    };
}

static struct sim_store_key *insert(struct sim_store *store, const char *key)
{
    size_t at = lower_bound(store, key);
    if (store->key_count == store->key_room) {
        store->key_room = MAX(2 * store->key_room, (size_t)64);
        store->keys = realloc(store->keys, store->key_room * sizeof(struct sim_store_key));
        assert(store->keys);
    }
    memmove(&store->keys[at + 1], &store->keys[at],
            (store->key_count++ - at) * sizeof(struct sim_store_key));
    store->keys[at] =
        (struct sim_store_key){.key = strdup(key), .create_revision = store->revision};
    return &store->keys[at];
}

static void put(struct sim_store *store, const char *name, const char *value, int64_t lease)
{
    struct sim_store_key *key = find(store, name);
    if (!key)
        key = insert(store, name);
    free(key->value);
    key->value = strdup(value);
    key->mod_revision = store->revision;
    key->version++;
    key->lease = lease;
    remember(store, name, key);
}

static void erase(struct sim_store *store, const char *name)
{
    struct sim_store_key *key = find(store, name);
    if (!key)
        return;
    remember(store, name, NULL);
    free(key->key);
    free(key->value);
    size_t at = (size_t)(key - store->keys);
    memmove(key, key + 1, (--store->key_count - at) * sizeof(struct sim_store_key));
}

static void erase_below(struct sim_store *store, const char *prefix)
{
    size_t at = lower_bound(store, prefix);
    while (at < store->key_count && strncmp(store->keys[at].key, prefix, strlen(prefix)) == 0) {
        char name[KV_KEY_MAX];
        snprintf(name, sizeof(name), "%s", store->keys[at].key);
        erase(store, name);
    }
}

void sim_store_put(struct sim_store *store, const char *key, const char *value)
{
    store->revision++;
    put(store, key, value, 0);
    watches_wake(store);
}

void sim_store_delete(struct sim_store *store, const char *key)
{
    store->revision++;
    erase(store, key);
    watches_wake(store);
}

void sim_store_compact(struct sim_store *store)
{
    for (size_t i = 0; i < store->change_count; i++) {
        free(store->changes[i].key);
        free(store->changes[i].value);
    }
    store->change_count = 0;
    store->compacted = store->revision;
}

/* ---- leases ---- */

static struct sim_lease *find_lease(const struct sim_store *store, int64_t id)
{
    for (size_t i = 0; i < store->lease_count; i++)
        if (store->leases[i].id == id)
            return &store->leases[i];
    return NULL;
}

void store_revoke(struct sim_store *store, int64_t id)
{
    struct sim_lease *lease = find_lease(store, id);
    if (!lease)
        return;
    *lease = store->leases[--store->lease_count];
    store->revision++;
    for (size_t i = store->key_count; i-- > 0;)
        if (store->keys[i].lease == id)
            erase(store, store->keys[i].key);
    watches_wake(store);
}

static void look_at_leases(void *context)
{
    struct sim_store *store = context;
    for (size_t i = store->lease_count; !store->down && i-- > 0;)
        if (store->leases[i].expires_ns <= store->sim->now_ns) {
            sim_trace(store->sim, "etcd: lease %lld ran out", (long long)store->leases[i].id);
            store_revoke(store, store->leases[i].id);
        }
}

static void expect_expiry(struct sim_store *store, struct sim_lease *lease)
{
    lease->expires_ns = store->sim->now_ns + (uint64_t)lease->ttl_seconds * NS_PER_SECOND;
    sim_post(store->sim, lease->expires_ns, NULL, look_at_leases, store);
}

int64_t store_grant(struct sim_store *store, uint64_t client, int64_t ttl_seconds)
{
    if (store->lease_count == store->lease_room) {
        store->lease_room = MAX(2 * store->lease_room, (size_t)16);
        store->leases = realloc(store->leases, store->lease_room * sizeof(struct sim_lease));
        assert(store->leases);
    }
    struct sim_lease *lease = &store->leases[store->lease_count++];
    *lease =
        (struct sim_lease){.id = ++store->last_lease, .ttl_seconds = ttl_seconds, .client = client};
    expect_expiry(store, lease);
    return lease->id;
}

int64_t store_keep_alive(struct sim_store *store, int64_t id)
{
    struct sim_lease *lease = find_lease(store, id);
    if (!lease)
        return 0;
    expect_expiry(store, lease);
    return lease->ttl_seconds;
}

uint64_t sim_store_lease_client(const struct sim_store *store, const char *name)
{
    const struct sim_store_key *key = find(store, name);
    const struct sim_lease *lease = key ? find_lease(store, key->lease) : NULL;
    return lease ? lease->client : 0;
}

void sim_store_set_down(struct sim_store *store, bool down)
{
    store->down = down;
    for (size_t i = 0; !down && i < store->lease_count; i++)
        expect_expiry(store, &store->leases[i]);
    watches_wake(store);
}

/* ---- transactions ---- */

static bool none_after(const struct sim_store *store, const struct kv_compare *compare)
{
    for (size_t i = 0; i < store->key_count; i++)
        if (strcmp(store->keys[i].key, compare->key) >= 0 &&
            strcmp(store->keys[i].key, compare->before) < 0 &&
            store->keys[i].mod_revision > compare->value)
            return false;
    return true;
}

static bool holds(const struct sim_store *store, const struct kv_compare *compare)
{
    if (compare->target == KV_NOT_AFTER)
        return none_after(store, compare);
    const struct sim_store_key *key = find(store, compare->key);
    int64_t value = 0;
    if (key)
        value = compare->target == KV_CREATE_REVISION ? key->create_revision
                : compare->target == KV_MOD_REVISION  ? key->mod_revision
                                                      : key->version;
    return value == compare->value;
}

/* Planted bugs: the store ignores a guard. */
static bool left_out(const struct sim_store *store, const struct kv_compare *compare,
                     const struct kv_operation *operation)
{
    if (store->sim->bug == BUG_UNGUARDED_LEADER)
        return strstr(compare->key, "/leader") && compare->value != 0;
    if (store->sim->bug == BUG_OLD_CHECKPOINT)
        return strstr(compare->key, "/generation") && strstr(operation->key, "/checkpoints/");
    if (store->sim->bug == BUG_OVERTAKEN_RECORD)
        return compare->target == KV_NOT_AFTER;
    return false;
}

/* Planted bug: a change that waits for an absent node is never superseded. */
static bool gets_stuck(const struct sim_store *store, const struct kv_operation *operations,
                       size_t count)
{
    return store->sim->bug == BUG_HELD_UP && count > 0 && operations[0].type == KV_PUT &&
           strstr(operations[0].value, "is gone and cannot hear");
}

int store_txn(struct sim_store *store, uint64_t client, uint64_t sent_ns,
              const struct kv_compare *compares, size_t compare_count,
              const struct kv_operation *operations, size_t operation_count, bool *ret_succeeded)
{
    *ret_succeeded = false;
    for (size_t i = 0; i < operation_count; i++)
        if (operations[i].type == KV_PUT && operations[i].lease != 0 &&
            !find_lease(store, operations[i].lease))
            return -ENOENT;
    if (gets_stuck(store, operations, operation_count))
        return 0;
    for (size_t i = 0; i < compare_count; i++)
        if (!holds(store, &compares[i]) && !left_out(store, &compares[i], &operations[0]))
            return 0;
    for (size_t i = 0; i < operation_count; i++)
        sim_check_write(store->sim, client, sent_ns, &operations[i]);
    store->revision++;
    for (size_t i = 0; i < operation_count; i++) {
        if (operations[i].type == KV_PUT)
            put(store, operations[i].key, operations[i].value, operations[i].lease);
        else if (operations[i].type == KV_DELETE)
            erase(store, operations[i].key);
        else
            erase_below(store, operations[i].key);
    }
    *ret_succeeded = true;
    sim_check_written(store->sim);
    watches_wake(store);
    return 0;
}
