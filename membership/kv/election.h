/*
 * Leader election: the node that creates the key `leader` (with its own short lease) leads while
 * the key exists. Writes by a leader carry a compare on the key's create revision
 * (election_guard()), so a deposed leader's writes fail.
 */
#pragma once

#include "membership/kv/kv.h"
#include "membership/transport/loop.h"

struct election_options {
    const char *cluster, *node;
    int64_t ttl_seconds; /* 3 */
};
struct election;
/* leads: whether this node leads now; @leader: the name of the leader ("": unknown). Called from
   the loop, or from inside election_observe() and election_depose(); may call anything but
   election_stop() */
typedef void (*election_callback)(void *context, bool leads, const char *leader);
/** election_start() - campaign as soon as the watch has reported that no node leads
 * (election_observe()), or after a short time without a report, and whenever there is no leader.
 * Return: 0, -EINVAL (names, ttl), -ENOMEM */
int election_start(const struct loop *loop, const struct kv *kv,
                   const struct election_options *options, election_callback changed, void *context,
                   struct election **ret_election) CHECK_RESULT;
/** election_observe() - process an event of the cluster watch for the key `leader` (NULL: deleted),
 * its lease included, at the store's @revision; may start a campaign */
void election_observe(struct election *election, const struct kv_entry *entry, int64_t revision);
/** election_leads() - return whether this node leads; checks the clock: false as soon as the lease
 * may have expired */
bool election_leads(const struct election *election);
const char *election_leader(const struct election *election);
/** election_guard() - return the compare that every leader write carries; only while
 * election_leads() */
struct kv_compare election_guard(const struct election *election);
/** election_depose() - remove a leader known to be dead (its node's links broke and its port
   refuses): delete its key, guarded by the create revision that was seen, and campaign at once.
   No effect if this node leads or knows no leader */
void election_depose(struct election *election);
/** election_stop() - resign (revoke the lease, which deletes the key if held; the request is sent
 * in the next round of the loop) and free; NULL allowed */
void election_stop(struct election *election);
