/*
 * This node's registration: one leased key, kept alive. The same identity comes back after etcd was
 * away; a second daemon with the same node name is refused while the first one lives.
 */
#pragma once

#include "membership/kv.h"
#include "membership/loop.h"

struct registry_options {
    const char *cluster, *node;
    int64_t ttl_seconds;  /* 10 */
    uint64_t incarnation; /* random, of this daemon process */
};
enum registry_state {
    REGISTRY_CONNECTING, /* no answer from the store yet, or lost it: `error` says why; retries go on */
    REGISTRY_REGISTERED,
    REGISTRY_REFUSED,    /* another live daemon holds this name: final */
};
struct registry;
typedef void (*registry_callback)(void *context, enum registry_state state, const struct error *error);

/** registry_start() - @value: the node's JSON (copied; "incarnation" must be in it) */
int registry_start(const struct loop *loop, const struct kv *kv, const struct registry_options *options, const char *value,
                   registry_callback changed, void *context, struct registry **ret_registry) CHECK_RESULT;
/** registry_update() - new value (state draining, slot bad): written at once when registered */
int registry_update(struct registry *registry, const char *value) CHECK_RESULT;
/** registry_stop() - revoke the lease (best effort, asynchronous; @done may be NULL) and free */
void registry_stop(struct registry *registry, void (*done)(void *context), void *context);
int64_t registry_lease(const struct registry *registry); /* 0 while not registered */
