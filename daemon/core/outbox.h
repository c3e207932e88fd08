/*
 * Write the keys that this daemon owns: reports, progress, states. The newest value of each key
 * wins. Writes are retried until they succeed, however long etcd is away or refuses them (no space
 * left, or no permission for this user). A refusal is logged once when it begins and once when it
 * ends.
 */
#pragma once

#include <stdbool.h>

#include "membership/kv/kv.h"
#include "membership/transport/loop.h"

struct outbox;

/** outbox_new() - @node: the node's name, which spreads the retries of different nodes */
int outbox_new(const struct loop *loop, const struct kv *kv, const char *node,
               struct outbox **ret_outbox) CHECK_RESULT;
void outbox_free(struct outbox *outbox);
/** outbox_put() - queue a copy of @value; it replaces an unwritten value of the same key.
 * Return: 0 or -ENOMEM */
int outbox_put(struct outbox *outbox, const char *key, const char *value) CHECK_RESULT;
/** outbox_refused() - return whether etcd answered the last write with a refusal; NULL: no */
bool outbox_refused(const struct outbox *outbox);
