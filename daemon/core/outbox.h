/*
 * Keys that this daemon owns and must get written sometime: reports, progress, states. The newest
 * value of each key wins; writes are tried again until they succeed, however long etcd is away.
 */
#pragma once

#include "membership/kv/kv.h"
#include "membership/transport/loop.h"

struct outbox;

/** outbox_new() - @node: its name, which sets when it tries again apart from all others */
int outbox_new(const struct loop *loop, const struct kv *kv, const char *node,
               struct outbox **ret_outbox) CHECK_RESULT;
void outbox_free(struct outbox *outbox);
/** outbox_put() - copied; an unwritten value of the same key is replaced. Return: 0 or -ENOMEM */
int outbox_put(struct outbox *outbox, const char *key, const char *value) CHECK_RESULT;
