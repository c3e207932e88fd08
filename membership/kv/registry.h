/*
 * Register this node: one leased key, kept alive. The same identity is registered again after etcd
 * was unreachable. A second daemon with the same node name is refused while the first daemon runs.
 */
#pragma once

#include "membership/kv/kv.h"
#include "membership/transport/loop.h"

#define REGISTRY_INCARNATION_MAX ((uint64_t)INT64_MAX) /* it is an integer in JSON */

struct registry_options {
    const char *cluster, *node;
    int64_t ttl_seconds;  /* 10 */
    uint64_t incarnation; /* random, of this daemon process; 1 to REGISTRY_INCARNATION_MAX */
    /* An earlier incarnation of this node that is known to be dead, because we hold the lock of the
       data folder in which it left its number: its key is taken over at once, although its lease
       has not expired. 0: none. */
    uint64_t takeover;
};
enum registry_state {
    REGISTRY_CONNECTING, /* no answer from the store yet, or lost it: `error` says why; retries go
                            on */
    REGISTRY_REGISTERED,
    REGISTRY_REFUSED, /* another live daemon holds this name: final */
};
struct registry;
typedef void (*registry_callback)(void *context, enum registry_state state,
                                  const struct error *error);

/**
 * registry_start() - begin to register, and retry until registry_stop()
 * @value: the node's JSON (copied); its "incarnation" must be the integer of the options
 * @changed: called for every change of state, and for every new reason while connecting; may call
 * anything but registry_stop()
 *
 * A key of another incarnation belongs either to a running daemon, which keeps it alive, or to a
 * dead daemon, whose lease expires. So REGISTRY_REFUSED comes only after the time to live. Until
 * then the state is REGISTRY_CONNECTING with -EEXIST and a text that says so.
 *
 * Return: 0; -EINVAL (@value), -EFBIG, -ENOMEM.
 */
int registry_start(const struct loop *loop, const struct kv *kv,
                   const struct registry_options *options, const char *value,
                   registry_callback changed, void *context,
                   struct registry **ret_registry) CHECK_RESULT;
/** registry_update() - set a new value (state draining, slot bad); written at once if registered,
   else later. Return: 0, or as registry_start(): then the old value stays */
int registry_update(struct registry *registry, const char *value) CHECK_RESULT;
/** registry_stop() - revoke the lease (best effort: one request, whose end calls @done, which may
   be NULL) and free. The loop must run, and the store's client live, until @done. NULL allowed */
void registry_stop(struct registry *registry, void (*done)(void *context), void *context);
/** registry_abandon() - free without a request: the lease expires, or the next daemon of this data
 * folder takes the key over. Call it before the store's client is freed; NULL allowed */
void registry_abandon(struct registry *registry);
int64_t registry_lease(const struct registry *registry); /* 0 while not registered */

/** registry_left_ns() - return how long this node's key certainly exists without another
 * keep-alive; 0: it may be gone */
uint64_t registry_left_ns(const struct registry *registry);
/** registry_holds_key() - return whether the key was written under the present lease, which may
 * have expired since */
bool registry_holds_key(const struct registry *registry);
/** registry_safe_ns() - return registry_left_ns() of a lease that has just been renewed */
uint64_t registry_safe_ns(const struct registry *registry);
