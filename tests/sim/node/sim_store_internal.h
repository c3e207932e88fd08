/* Shared by the keys (sim_store.c) and the client side of the store (sim_client.c). */
#pragma once

#include "sim/node/sim_store.h"

/** store_txn() - Do all operations if all compares hold; -ENOENT: unknown lease */
int store_txn(struct sim_store *store, uint64_t client, uint64_t sent_ns,
              const struct kv_compare *compares, size_t compare_count,
              const struct kv_operation *operations, size_t operation_count, bool *ret_succeeded);
int64_t store_grant(struct sim_store *store, uint64_t client, int64_t ttl_seconds);
/** store_keep_alive() - Renew a lease and return its time to live; 0: gone */
int64_t store_keep_alive(struct sim_store *store, int64_t id);
void store_revoke(struct sim_store *store, int64_t id);
/** store_range() - Return the keys that are @key, or begin with it; their number in *ret_count */
const struct sim_store_key *store_range(const struct sim_store *store, const char *key, bool prefix,
                                        size_t *ret_count);
struct kv_entry store_entry(const struct sim_store_key *key);
/** watches_wake() - Wake all watches after a change, or when the store comes or goes */
void watches_wake(struct sim_store *store);
