/*
 * This node's registration: one leased key, kept alive. The same identity comes back after etcd was
 * away; a second daemon with the same node name is refused while the first one lives.
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
       still lives. 0: none. */
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
 * registry_start() - begin to register, and go on trying until registry_stop()
 * @value: the node's JSON (copied); its "incarnation" must be the integer of the options
 * @changed: told of every change of state, and of every other reason while connecting; may call
 *           anything but registry_stop()
 *
 * A key of another incarnation is either a living daemon's, which keeps it, or a dead one's, which
 * goes with its lease; only time tells. So REGISTRY_REFUSED comes after the time to live; until
 * then the state is REGISTRY_CONNECTING with -EEXIST and a text that says so.
 *
 * Return: 0; -EINVAL (@value), -EFBIG, -ENOMEM.
 */
int registry_start(const struct loop *loop, const struct kv *kv,
                   const struct registry_options *options, const char *value,
                   registry_callback changed, void *context,
                   struct registry **ret_registry) CHECK_RESULT;
/** registry_update() - new value (state draining, slot bad): written at once when registered, else
   later. Return: 0, or as registry_start(): then the old value stays */
int registry_update(struct registry *registry, const char *value) CHECK_RESULT;
/** registry_stop() - revoke the lease (best effort: one request, whose end calls @done, which may
   be NULL) and free. The loop must run, and the store's client live, until @done. NULL: nothing */
void registry_stop(struct registry *registry, void (*done)(void *context), void *context);
/** registry_abandon() - free and say nothing: the lease runs out, or the next daemon of this data
 *  folder takes it over. Before the store's client is freed; NULL allowed */
void registry_abandon(struct registry *registry);
int64_t registry_lease(const struct registry *registry); /* 0 while not registered */

/** registry_left_ns() - for how long this node's key is certain to be there, if the store hears
 * nothing more of it; 0: it may be gone */
uint64_t registry_left_ns(const struct registry *registry);
/** registry_holds_key() - it was written under the present lease, which may have run out since */
bool registry_holds_key(const struct registry *registry);
/** registry_safe_ns() - the same when the lease has just been renewed */
uint64_t registry_safe_ns(const struct registry *registry);
