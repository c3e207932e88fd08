/*
 * The cluster's keys as firnd reads and writes them: the connection to etcd, the mirror of the
 * watched keys, and the outbox of the keys to write.
 */
#pragma once

#include <stdbool.h>

#include "daemon/core/mirror.h"
#include "daemon/core/outbox.h"
#include "membership/etcd/etcd.h"
#include "membership/kv/kv.h"

struct cluster_keys {
    struct etcd *etcd;
    const struct kv *kv; /* etcd's */
    struct kv_watch *watch;
    struct mirror mirror;
    struct outbox *outbox;
    bool watches_all; /* true: also the leader's keys */
    bool partial;     /* keys are missing from the mirror: not received yet, or not watched */
    bool away;        /* limits the log to one line per outage and one per recovery */
};
