/*
 * Register this node. A loop around two facts: whether a lease exists, and whether our key holds
 * the newest value under that lease.
 *
 *   no lease           -> grant one
 *   value not stored   -> write it, guarded by the key's known revision. The initial guess is that
 *                         the key is free; it is mostly right, and then registering takes two
 *                         requests
 *   the guess is wrong -> read the key; if it is free, ours, or of an incarnation known to be dead,
 *                         write it; else wait until it goes, or refuse
 *   both               -> registered; keep the lease alive every third of its time
 *
 * A failure only makes a fact unknown: it is reported, and the loop retries after a backoff
 * (membership/transport/backoff.h). So a write with an unknown outcome needs no case of its own: a
 * read settles it.
 *
 * Invariant: every write of the key is guarded by its absence or by a revision at which it was
 * ours, so two daemons with one name can never both hold it.
 */
#include "membership/kv/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/name.h"
#include "membership/kv/keys.h"
#include "membership/transport/backoff.h"
#include "membership/transport/timer.h"

#define RETRY_MIN_NS    (500 * NS_PER_MS) /* etcd is unreachable */
#define RETRY_MAX_NS    (2 * NS_PER_SECOND)
#define LOOK_NS         (500 * NS_PER_MS)   /* another daemon holds the key */
#define BEAT_SHARE      8                   /* part of the keep-alive interval that is jitter */
#define HOLDER_GRACE_NS (1 * NS_PER_SECOND) /* etcd ends leases a little late */

/* The lease, and the request that keeps it alive, which is in flight independently of `step`. */
struct node_lease {
    int64_t id; /* 0: none */
    int64_t ttl_seconds;
    uint64_t until_ns; /* the lease cannot expire earlier; 0: unknown */
    uint64_t beat_sent_ns;
    struct kv_request *keep_alive;
    struct timer beat;
};

/* The key of this node, and its content as far as known. */
struct node_key {
    char path[KV_KEY_MAX];
    char *value;
    bool held;                /* the key has been written under the lease */
    bool stored;              /* the key holds `value` under the lease */
    int64_t revision;         /* at which the key was last known to be ours; 0: it is free */
    bool must_look;           /* `revision` is or may be wrong */
    bool outdated;            /* `value` has changed since the write in flight began */
    bool unsure;              /* a write has failed, but the store may still carry it out */
    uint64_t holder_until_ns; /* another daemon's key exists; that daemon is alive if the key still
                               * exists then. 0: no such key */
};

struct registry {
    const struct loop *loop;
    const struct kv *kv;
    char node[NAME_SIZE];
    uint64_t incarnation, takeover;
    registry_callback changed;
    void *context;
    enum registry_state state;
    int reported; /* code of the last reason given while connecting */
    struct node_lease lease;
    struct node_key key;
    struct kv_request *step; /* grant, read or write: one at a time */
    uint64_t step_sent_ns;
    struct timer retry;
    struct backoff backoff;
};

static void advance(struct registry *registry);

static void set_state(struct registry *registry, enum registry_state state,
                      const struct error *error)
{
    int status = error ? error->code : 0;
    if (registry->state == state && registry->reported == status)
        return;
    registry->state = state;
    registry->reported = status;
    registry->changed(registry->context, state, error);
}

/* Handle a failure of the store: restart the wait for the holder's lease, which the store may have
 * prolonged. */
static void store_failed(struct registry *registry, const struct error *error)
{
    registry->key.holder_until_ns = 0;
    registry->key.must_look = true;
    timer_set_in(&registry->retry, backoff_next(&registry->backoff));
    set_state(registry, REGISTRY_CONNECTING, error);
}

static void start_failed(struct registry *registry, int status)
{
    struct error error;
    error_set(&error, status, "a request to the store cannot start: %s", strerror(-status));
    store_failed(registry, &error);
}

/* Add jitter, so that nodes that registered at the same time do not renew their leases at the same
 * time. */
static void beat_later(struct registry *registry)
{
    uint64_t period_ns = (uint64_t)registry->lease.ttl_seconds * NS_PER_SECOND / 3;
    timer_set_in(&registry->lease.beat,
                 period_ns - backoff_spread(&registry->backoff, period_ns / BEAT_SHARE));
}

/* Return the time to live, less a tenth for different clocks and late timers. */
static uint64_t safe_ns(const struct node_lease *lease)
{
    return (uint64_t)lease->ttl_seconds * NS_PER_SECOND / 10 * 9;
}

/* Note the earliest expiry, counted from the time at which the request was sent. */
static void lease_renewed(struct node_lease *lease, uint64_t sent_ns)
{
    lease->until_ns = sent_ns + safe_ns(lease);
}

uint64_t registry_safe_ns(const struct registry *registry)
{
    return safe_ns(&registry->lease);
}

bool registry_holds_key(const struct registry *registry)
{
    return registry->key.held;
}

uint64_t registry_left_ns(const struct registry *registry)
{
    uint64_t now_ns = registry->loop->now_ns(registry->loop->context);
    return registry->key.held && registry->lease.until_ns > now_ns
               ? registry->lease.until_ns - now_ns
               : 0;
}

/* Cancel the request: a late answer about the old lease must not pass for one about the next. */
static void forget_keep_alive(struct node_lease *lease, const struct kv *kv)
{
    kv->cancel(kv->context, lease->keep_alive);
    lease->keep_alive = NULL;
    timer_clear(&lease->beat);
}

/* Note that the store has deleted the key with its lease. */
static void key_gone(struct node_key *key)
{
    key->stored = key->held = false;
    key->revision = 0;
    key->must_look = false;
}

static void lease_gone(struct registry *registry)
{
    struct error error;
    error_set(&error, -ESTALE, "the lease of node %s ran out", registry->node);
    registry->lease.id = 0;
    key_gone(&registry->key);
    forget_keep_alive(&registry->lease, registry->kv);
    set_state(registry, REGISTRY_CONNECTING, &error);
    advance(registry);
}

static void keep_alive_done(void *context, const struct kv_result *result)
{
    struct registry *registry = context;
    registry->lease.keep_alive = NULL;
    if (result->status < 0) {
        timer_set_in(&registry->lease.beat,
                     RETRY_MIN_NS + backoff_spread(&registry->backoff, RETRY_MIN_NS));
        registry->key.stored = false; /* check again when the store is back: it may have changed */
        store_failed(registry, &result->error);
    } else if (result->ttl_seconds == 0) {
        lease_gone(registry);
    } else {
        lease_renewed(&registry->lease, registry->lease.beat_sent_ns);
        beat_later(registry);
        if (!registry->key.stored)
            advance(registry);
    }
}

static void beat_fired(void *user)
{
    struct registry *registry = user;
    if (registry->lease.keep_alive || registry->lease.id == 0)
        return;
    const struct kv *kv = registry->kv;
    registry->lease.beat_sent_ns = registry->loop->now_ns(registry->loop->context);
    int status = kv->lease_keep_alive(kv->context, registry->lease.id, keep_alive_done, registry,
                                      &registry->lease.keep_alive);
    if (status < 0)
        timer_set_in(&registry->lease.beat, RETRY_MIN_NS);
}

static void granted(void *context, const struct kv_result *result)
{
    struct registry *registry = context;
    registry->step = NULL;
    if (result->status < 0) {
        store_failed(registry, &result->error);
        return;
    }
    registry->lease.id = result->lease;
    lease_renewed(&registry->lease, registry->step_sent_ns);
    beat_later(registry);
    advance(registry);
}

static void mark_stored(struct registry *registry)
{
    registry->key.stored = registry->key.held = true;
    registry->key.holder_until_ns = 0;
    backoff_reset(&registry->backoff);
    set_state(registry, REGISTRY_REGISTERED, NULL);
}

static void written(void *context, const struct kv_result *result)
{
    struct registry *registry = context;
    registry->step = NULL;
    if (result->status == -ENOENT) { /* the store knows no such lease */
        lease_gone(registry);
    } else if (result->status < 0) {
        registry->key.unsure = true;
        store_failed(registry, &result->error);
    } else if (!result->succeeded) {
        registry->key.must_look = true; /* the key differs from the assumed revision */
        advance(registry);
    } else {
        registry->key.revision = result->revision;
        registry->key.unsure = false; /* a late write is guarded by an older revision and fails */
        if (registry->key.outdated)
            advance(registry);
        else
            mark_stored(registry);
    }
}

static int write_key(struct registry *registry)
{
    const struct kv *kv = registry->kv;
    const struct kv_compare unchanged = {
        .key = registry->key.path, .target = KV_MOD_REVISION, .value = registry->key.revision};
    const struct kv_operation put = {.type = KV_PUT,
                                     .key = registry->key.path,
                                     .value = registry->key.value,
                                     .lease = registry->lease.id};
    registry->key.outdated = false;
    return kv->txn(kv->context, &unchanged, 1, &put, 1, written, registry, &registry->step);
}

/* Return the incarnation in a node's value; 0: none. */
static uint64_t incarnation_of(const char *value, size_t value_bytes)
{
    AUTO_JSON json_t *tree = NULL;
    uint64_t incarnation = 0;
    if (json_parse(value, value_bytes, "a node", &tree, NULL) < 0 ||
        json_get_u64(tree, "incarnation", REGISTRY_INCARNATION_MAX, &incarnation, NULL) < 0)
        return 0;
    return incarnation;
}

static void refuse(struct registry *registry, uint64_t holder)
{
    struct error error;
    error_set(&error, -EEXIST,
              "another firnd is alive under the node name \"%s\" (incarnation %" PRIu64
              "); give this node a name of its own or stop the other daemon",
              registry->node, holder);
    forget_keep_alive(&registry->lease, registry->kv);
    registry->lease.id = 0; /* expires unused */
    set_state(registry, REGISTRY_REFUSED, &error);
}

/* Wait until the holder is known to be dead or alive: its lease is renewed or expires within its
 * time to live. */
static void wait_for_holder(struct registry *registry, uint64_t holder)
{
    uint64_t now = registry->loop->now_ns(registry->loop->context);
    if (registry->key.holder_until_ns == 0)
        registry->key.holder_until_ns =
            now + (uint64_t)registry->lease.ttl_seconds * NS_PER_SECOND + HOLDER_GRACE_NS;
    if (now >= registry->key.holder_until_ns) {
        refuse(registry, holder);
        return;
    }
    struct error error;
    error_set(&error, -EEXIST,
              "the node name \"%s\" is held by an earlier firnd (incarnation %" PRIu64
              "); if that one is dead its registration ends within %" PRId64 " s",
              registry->node, holder, registry->lease.ttl_seconds);
    timer_set_in(&registry->retry, LOOK_NS);
    set_state(registry, REGISTRY_CONNECTING, &error);
}

static void key_read(void *context, const struct kv_result *result)
{
    struct registry *registry = context;
    registry->step = NULL;
    if (result->status < 0) {
        store_failed(registry, &result->error);
        return;
    }
    const struct kv_entry *entry = result->entry_count > 0 ? &result->entries[0] : NULL;
    uint64_t holder = entry ? incarnation_of(entry->value, entry->value_bytes) : 0;
    bool ours = entry && (holder == registry->incarnation ||
                          (registry->takeover != 0 && holder == registry->takeover));
    if (registry->lease.id != 0 && entry && !ours) {
        wait_for_holder(registry, holder);
        return;
    }
    registry->key.revision = ours ? entry->mod_revision : 0;
    registry->key.must_look = false;
    /* Not while an earlier write may be in flight: it could still replace this very revision. */
    if (registry->lease.id != 0 && ours && !registry->key.unsure &&
        entry->lease == registry->lease.id && strcmp(entry->value, registry->key.value) == 0)
        mark_stored(registry);
    else
        advance(registry); /* write the key, or grant a lease if the last one expired meanwhile */
}

/* Take the next step towards "there is a lease, and our key is stored". */
static void advance(struct registry *registry)
{
    const struct kv *kv = registry->kv;
    int status = 0;
    if (registry->step || registry->state == REGISTRY_REFUSED)
        return;
    timer_clear(&registry->retry);
    registry->step_sent_ns = registry->loop->now_ns(registry->loop->context);
    if (registry->lease.id == 0)
        status = kv->lease_grant(kv->context, registry->lease.ttl_seconds, granted, registry,
                                 &registry->step);
    else if (!registry->key.stored && !registry->key.must_look)
        status = write_key(registry);
    else if (!registry->key.stored)
        status =
            kv->range(kv->context, registry->key.path, false, key_read, registry, &registry->step);
    if (status < 0)
        start_failed(registry, status);
}

static void retry_fired(void *user)
{
    advance(user);
}

static int set_value(struct node_key *key, uint64_t incarnation, const char *value)
{
    size_t value_bytes = strlen(value);
    if (value_bytes > KV_VALUE_MAX)
        return -EFBIG;
    if (incarnation_of(value, value_bytes) != incarnation)
        return -EINVAL;
    char *copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free(key->value);
    key->value = copy;
    key->stored = false;
    key->outdated = true;
    return 0;
}

void registry_abandon(struct registry *registry)
{
    if (!registry)
        return;
    const struct kv *kv = registry->kv;
    kv->cancel(kv->context, registry->step);
    kv->cancel(kv->context, registry->lease.keep_alive);
    timer_done(&registry->retry);
    timer_done(&registry->lease.beat);
    free(registry->key.value);
    free(registry);
}

int registry_start(const struct loop *loop, const struct kv *kv,
                   const struct registry_options *options, const char *value,
                   registry_callback changed, void *context, struct registry **ret_registry)
{
    if (!name_valid(options->node) || !name_valid(options->cluster) || options->ttl_seconds < 1 ||
        options->incarnation == 0 || options->incarnation > REGISTRY_INCARNATION_MAX)
        return -EINVAL;
    struct registry *registry = calloc(1, sizeof(*registry));
    if (!registry)
        return -ENOMEM;
    registry->loop = loop;
    registry->kv = kv;
    registry->lease.ttl_seconds = options->ttl_seconds;
    registry->incarnation = options->incarnation;
    registry->takeover = options->takeover;
    registry->changed = changed;
    registry->context = context;
    stpcpy(registry->node, options->node);
    keys_node(registry->key.path, options->cluster, options->node);
    backoff_init(&registry->backoff, RETRY_MIN_NS, RETRY_MAX_NS, options->node);
    int status = set_value(&registry->key, registry->incarnation, value);
    if (status == 0)
        status = timer_init(&registry->retry, loop, retry_fired, registry);
    if (status == 0)
        status = timer_init(&registry->lease.beat, loop, beat_fired, registry);
    if (status < 0) {
        registry_abandon(registry);
        return status;
    }
    timer_set_in(&registry->retry, 0); /* do not call back from inside the starting call */
    *ret_registry = registry;
    return 0;
}

int registry_update(struct registry *registry, const char *value)
{
    int status = set_value(&registry->key, registry->incarnation, value);
    if (status == 0 && registry->state == REGISTRY_REGISTERED)
        timer_set_in(&registry->retry, 0);
    return status;
}

int64_t registry_lease(const struct registry *registry)
{
    return registry->state == REGISTRY_REGISTERED ? registry->lease.id : 0;
}

/* State of a stopped registry: its last request, and the callback after it. */
struct farewell {
    struct timer timer;
    void (*done)(void *context);
    void *context;
};

static void farewell_end(void *user)
{
    struct farewell *farewell = user;
    void (*done)(void *) = farewell->done;
    void *context = farewell->context;
    timer_done(&farewell->timer);
    free(farewell);
    if (done)
        done(context);
}

static void revoked(void *context, const struct kv_result *result)
{
    (void)result; /* after a failure the lease expires */
    farewell_end(context);
}

void registry_stop(struct registry *registry, void (*done)(void *context), void *context)
{
    if (!registry)
        return;
    const struct kv *kv = registry->kv;
    struct farewell *farewell = calloc(1, sizeof(*farewell));
    if (!farewell || timer_init(&farewell->timer, registry->loop, farewell_end, farewell)) {
        free(farewell);
        registry_abandon(registry);
        if (done) /* no memory to call it later */
            done(context);
        return;
    }
    farewell->done = done;
    farewell->context = context;
    int64_t lease = registry->lease.id;
    registry_abandon(registry);
    struct kv_request *request;
    if (lease == 0 || kv->lease_revoke(kv->context, lease, revoked, farewell, &request) < 0)
        timer_set_in(&farewell->timer, 0);
}
