/*
 * etcd as firnd uses it: keys with revisions, leases that expire, guarded transactions, watches
 * that lag, resume, and start over after a compaction. Answers may be late or lost; a request whose
 * client has given up may still be carried out. Data survive an outage, and leases begin anew after
 * it, as in etcd.
 */
#pragma once

#include "membership/kv/kv.h"
#include "sim/node/sim_network.h"

struct sim_store_key {
    char *key, *value;
    int64_t create_revision, mod_revision, version, lease;
};

struct sim_store_change {
    int64_t revision;
    char *key, *value; /* value NULL: deleted */
    int64_t create_revision, version, lease;
};

struct sim_lease {
    int64_t id, ttl_seconds;
    uint64_t expires_ns;
    uint64_t client; /* the lease's holder */
};

struct sim_store {
    struct sim *sim;
    bool down;
    int64_t revision, compacted;
    struct sim_store_key *keys; /* sorted */
    size_t key_count, key_room;
    struct sim_store_change *changes; /* after `compacted` */
    size_t change_count, change_room;
    struct sim_lease *leases;
    size_t lease_count, lease_room;
    int64_t last_lease;
    uint64_t last_client;
    struct kv_watch *watches;
    struct kv_request *requests;
    unsigned lost_answers_percent, late_requests_percent;
    uint64_t late_plan_ns; /* delay of the next plan; 0: none */
};

/* The connection of one process, with its own `struct kv`. */
struct sim_client {
    struct kv kv;
    struct sim *sim;
    uint64_t id;
    unsigned place;
    const struct sim_pause *pause; /* of the process */
    bool dead;                     /* the process is gone: it sends nothing more */
};

struct sim_store *sim_store_new(struct sim *sim);
void sim_store_free(struct sim_store *store);
void sim_client_init(struct sim_client *client, struct sim *sim, unsigned place,
                     const struct sim_pause *pause);
/** sim_client_done() - End the client: none of its requests or watches calls back any more */
void sim_client_done(struct sim_client *client);

const struct sim_store_key *sim_store_find(const struct sim_store *store, const char *key);
/** sim_store_put() - Write a key at once, as operator */
void sim_store_put(struct sim_store *store, const char *key, const char *value);
void sim_store_delete(struct sim_store *store, const char *key);
void sim_store_set_down(struct sim_store *store, bool down);
void sim_store_compact(struct sim_store *store);
/** sim_store_lease_client() - Return the client whose lease holds the key @name; 0: none */
uint64_t sim_store_lease_client(const struct sim_store *store, const char *name);
