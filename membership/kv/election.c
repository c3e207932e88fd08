/*
 * Election by a leased key: the node that creates `leader` leads until the key is deleted.
 *
 *   FOLLOWING --- another node leads, as far as known; wait for an event of the watch
 *   CAMPAIGNING - read the key; if it is free, grant a lease and create it; if that fails, read its
 *                 holder. Reading first costs a round trip, but spares the store three writes from
 *                 each of a thousand late candidates
 *   LEADING ----- keep the lease alive every third of its time to live
 *   DOUBTING ---- the lease was not renewed in time: do not lead, but keep trying to renew it
 *   DEPOSING ---- delete the key of a leader known to be dead, then campaign
 *
 * The writes of two leaders never overlap: every write carries election_guard(), and a new leader
 * has a new create revision. The clock keeps their times from overlapping too: the lease cannot end
 * before its time to live has passed since the last successful keep-alive was *sent*, so a leader
 * behind a netsplit stops a little before that, on its own monotonic clock.
 *
 * A campaign whose outcome is unknown (the answer was lost) is settled by a read: the key is ours
 * if it is attached to our lease. For the same reason a leader that stopped keeps trying to renew
 * its lease: if the lease is still alive when the store is back, no other node can have led, and
 * the leader resumes.
 *
 * Reads and events of the watch arrive on two streams, so either may be stale. Keys are compared by
 * their create revisions. A read that the watch has overtaken is repeated, because the watch does
 * not repeat the deletion that made the read stale.
 */
#include "membership/kv/election.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/name.h"
#include "membership/kv/keys.h"
#include "membership/transport/backoff.h"
#include "membership/transport/timer.h"

#define RETRY_MIN_NS (250 * NS_PER_MS)
#define RETRY_MAX_NS (1 * NS_PER_SECOND)
#define CROWD_NS     (40 * NS_PER_MS) /* candidates that see a leader go spread over this time */
#define CROWD_ROUNDS 4                /* then over this multiple of the duration of a read */

enum election_phase {
    ELECTION_FOLLOWING,
    ELECTION_CAMPAIGNING,
    ELECTION_LEADING,
    ELECTION_DOUBTING,
    ELECTION_DEPOSING,
};

struct election {
    const struct loop *loop;
    const struct kv *kv;
    char node[NAME_SIZE];
    char key[KV_KEY_MAX];
    int64_t ttl_seconds;
    election_callback changed;
    void *context;
    enum election_phase phase;
    char leader[NAME_SIZE];  /* name in the key; "": no leader, or unknown */
    int64_t leader_revision; /* create revision of that key; 0: unknown */
    int64_t seen_revision;   /* the store's, at the watch's last event of that key */
    bool told_leads;
    char told_leader[NAME_SIZE];
    int64_t lease;           /* 0: none */
    uint64_t lease_until_ns; /* the lease cannot expire earlier */
    bool vacant;             /* a read of this campaign has found no leader, so grant a lease */
    struct kv_request *step; /* grant, create, read or delete: one at a time */
    struct kv_request *keep_alive;
    uint64_t step_sent_ns, beat_sent_ns;
    struct timer retry, beat, expiry;
    struct backoff backoff;
};

static void advance(struct election *election);

static uint64_t now_ns(const struct election *election)
{
    return election->loop->now_ns(election->loop->context);
}

bool election_leads(const struct election *election)
{
    return election->phase == ELECTION_LEADING && now_ns(election) < election->lease_until_ns;
}

const char *election_leader(const struct election *election)
{
    return election->leader;
}

struct kv_compare election_guard(const struct election *election)
{
    return (struct kv_compare){
        .key = election->key, .target = KV_CREATE_REVISION, .value = election->leader_revision};
}

static void tell(struct election *election)
{
    bool leads = election_leads(election);
    if (leads == election->told_leads && strcmp(election->leader, election->told_leader) == 0)
        return;
    election->told_leads = leads;
    stpcpy(election->told_leader, election->leader);
    election->changed(election->context, leads, election->told_leader);
}

static void retry_later(struct election *election)
{
    timer_set_in(&election->retry, backoff_next(&election->backoff));
}

/* Count @ttl_seconds from @sent_ns, less a tenth for different clocks and late timers. */
static void lease_renewed(struct election *election, uint64_t sent_ns, int64_t ttl_seconds)
{
    uint64_t ttl_ns = (uint64_t)MIN(ttl_seconds, election->ttl_seconds * 10) * NS_PER_SECOND;
    election->lease_until_ns = sent_ns + ttl_ns - ttl_ns / 10;
    timer_set_at(&election->expiry, election->lease_until_ns);
    timer_set_at(&election->beat, sent_ns + ttl_ns / 3);
}

static void forget_lease(struct election *election)
{
    election->kv->cancel(election->kv->context, election->keep_alive);
    election->keep_alive = NULL;
    election->lease = 0;
    timer_clear(&election->beat);
    timer_clear(&election->expiry);
}

static void nothing_follows(void *context, const struct kv_result *result)
{
    (void)context;
    (void)result;
}

/* Revoke the lease, so that it does not linger; if that fails, it expires by itself. */
static void drop_lease(struct election *election)
{
    const struct kv *kv = election->kv;
    int64_t lease = election->lease;
    struct kv_request *request;
    forget_lease(election);
    if (lease != 0 && kv->lease_revoke(kv->context, lease, nothing_follows, NULL, &request) < 0)
        log_debug("a lease is left to run out");
}

static void set_leader(struct election *election, const char *name, size_t name_bytes,
                       int64_t revision)
{
    bool fits = name_bytes < sizeof(election->leader);
    memcpy(election->leader, fits ? name : "", fits ? name_bytes : 0);
    election->leader[fits ? name_bytes : 0] = '\0';
    election->leader_revision = revision;
}

static void follow(struct election *election, const struct kv_entry *entry)
{
    election->phase = ELECTION_FOLLOWING;
    backoff_reset(&election->backoff);
    set_leader(election, entry->value, entry->value_bytes, entry->create_revision);
    timer_clear(&election->retry);
    drop_lease(election);
    tell(election);
}

/* Lead, because the key is ours. If the lease may have expired meanwhile, renew it first. */
static void lead(struct election *election, int64_t create_revision)
{
    bool safe = now_ns(election) < election->lease_until_ns;
    election->phase = safe ? ELECTION_LEADING : ELECTION_DOUBTING;
    backoff_reset(&election->backoff);
    set_leader(election, election->node, strlen(election->node), create_revision);
    timer_clear(&election->retry);
    tell(election);
}

static bool has_key(const struct election *election)
{
    return election->phase == ELECTION_LEADING || election->phase == ELECTION_DOUBTING;
}

static void doubt(struct election *election)
{
    log_warning("the lease of leader %s was not renewed in time: it does not lead until it is",
                election->node);
    election->phase = ELECTION_DOUBTING;
    tell(election);
}

static void become_candidate(struct election *election)
{
    election->phase = ELECTION_CAMPAIGNING;
    election->vacant = false;
    set_leader(election, "", 0, 0);
    tell(election);
}

/* Campaign: no node leads, or the leader is unknown. */
static void campaign(struct election *election)
{
    become_candidate(election);
    advance(election);
}

/* Campaign after a random time: all nodes have just seen the leader go, and most of them then need
 * no attempt. */
static void campaign_in_turn(struct election *election)
{
    become_candidate(election);
    if (!election->step)
        timer_set_in(&election->retry, backoff_spread(&election->backoff, CROWD_NS));
}

static int read_key(struct election *election);

/* Handle the loss of the lease, and of the key with it. */
static void lease_gone(struct election *election)
{
    forget_lease(election);
    if (has_key(election))
        campaign(election);
}

static void keep_alive_done(void *context, const struct kv_result *result)
{
    struct election *election = context;
    election->keep_alive = NULL;
    if (result->status < 0) {
        timer_set_in(&election->beat, RETRY_MIN_NS);
        return;
    }
    if (result->ttl_seconds == 0) {
        lease_gone(election);
        return;
    }
    if (election->phase == ELECTION_LEADING && !election_leads(election))
        doubt(election);
    lease_renewed(election, election->beat_sent_ns, result->ttl_seconds);
    if (election->phase == ELECTION_DOUBTING && !election->step)
        (void)read_key(election);
}

static void beat_fired(void *user)
{
    struct election *election = user;
    const struct kv *kv = election->kv;
    if (election->lease == 0 || election->keep_alive)
        return;
    election->beat_sent_ns = now_ns(election);
    if (kv->lease_keep_alive(kv->context, election->lease, keep_alive_done, election,
                             &election->keep_alive) < 0)
        timer_set_in(&election->beat, RETRY_MIN_NS);
}

/* Stop leading, because the lease was not renewed in time: another node may lead from now on. */
static void expiry_fired(void *user)
{
    struct election *election = user;
    if (election->phase == ELECTION_LEADING)
        doubt(election);
}

static void granted(void *context, const struct kv_result *result)
{
    struct election *election = context;
    election->step = NULL;
    if (result->status < 0) {
        retry_later(election);
        return;
    }
    election->lease = result->lease;
    lease_renewed(election, election->step_sent_ns, result->ttl_seconds);
    if (election->phase != ELECTION_CAMPAIGNING) /* the watch has meanwhile shown a leader */
        drop_lease(election);
    advance(election);
}

/* Spread the creates, because a slow answer means many candidates: the first create spares the
 * others the attempt. */
static void create_in_turn(struct election *election)
{
    uint64_t took_ns = now_ns(election) - election->step_sent_ns;
    uint64_t pause_ns = backoff_spread(&election->backoff, CROWD_ROUNDS * took_ns);
    if (pause_ns > 0)
        timer_set_in(&election->retry, pause_ns);
    else
        advance(election);
}

static void key_read(void *context, const struct kv_result *result)
{
    struct election *election = context;
    election->step = NULL;
    if (election->phase != ELECTION_CAMPAIGNING && !has_key(election)) {
        advance(election);
    } else if (result->status < 0) {
        retry_later(election);
    } else if (result->revision < election->seen_revision) {
        retry_later(election); /* the watch has overtaken the read: its key may be gone */
    } else if (result->entry_count == 0 && has_key(election)) { /* deposed */
        drop_lease(election);
        campaign(election);
    } else if (result->entry_count == 0 && election->lease == 0 && !election->vacant) {
        election->vacant = true;
        create_in_turn(election);
    } else if (result->entry_count == 0) {
        retry_later(election);
    } else if (election->lease != 0 && result->entries[0].lease == election->lease) {
        lead(election, result->entries[0].create_revision);
    } else {
        follow(election, &result->entries[0]);
    }
}

static int read_key(struct election *election)
{
    const struct kv *kv = election->kv;
    int status = kv->range(kv->context, election->key, false, key_read, election, &election->step);
    if (status < 0)
        retry_later(election);
    return status;
}

static void created(void *context, const struct kv_result *result)
{
    struct election *election = context;
    election->step = NULL;
    if (result->status == -ENOENT) /* the store knows no such lease */
        forget_lease(election);
    if (result->status < 0)
        retry_later(election);
    else if (result->succeeded && election->lease != 0)
        lead(election, result->revision); /* a key is created at its transaction's revision */
    else
        (void)read_key(election);
}

static int create_key(struct election *election)
{
    const struct kv *kv = election->kv;
    const struct kv_compare absent = {.key = election->key, .target = KV_CREATE_REVISION};
    const struct kv_operation put = {
        .type = KV_PUT, .key = election->key, .value = election->node, .lease = election->lease};
    return kv->txn(kv->context, &absent, 1, &put, 1, created, election, &election->step);
}

static void deleted(void *context, const struct kv_result *result)
{
    struct election *election = context;
    (void)result; /* deleted here or by another node, or unknown: the campaign settles it */
    election->step = NULL;
    if (election->phase == ELECTION_DEPOSING)
        campaign(election);
    else
        advance(election);
}

static int delete_key(struct election *election)
{
    const struct kv *kv = election->kv;
    const struct kv_compare same = election_guard(election);
    const struct kv_operation delete = {.type = KV_DELETE, .key = election->key};
    return kv->txn(kv->context, &same, 1, &delete, 1, deleted, election, &election->step);
}

/* Start the next step of the phase, unless a step is in flight. */
static void advance(struct election *election)
{
    const struct kv *kv = election->kv;
    int status = 0;
    if (election->step)
        return;
    election->step_sent_ns = now_ns(election);
    if (election->phase == ELECTION_DEPOSING)
        status = delete_key(election);
    else if (election->phase == ELECTION_CAMPAIGNING && election->lease == 0 && !election->vacant)
        status = read_key(election);
    else if (election->phase == ELECTION_CAMPAIGNING && election->lease == 0)
        status =
            kv->lease_grant(kv->context, election->ttl_seconds, granted, election, &election->step);
    else if (election->phase == ELECTION_CAMPAIGNING)
        status = create_key(election);
    if (status < 0)
        retry_later(election);
}

static void retry_fired(void *user)
{
    struct election *election = user;
    if (has_key(election) && !election->step)
        (void)read_key(election);
    else
        advance(election);
}

/*
 * Observe an event while leading. It may be older than our key: a key with a smaller revision is
 * stale. A deletion carries no revision, so a read verifies it.
 */
static void observe_leading(struct election *election, const struct kv_entry *entry)
{
    if (!entry)
        timer_set_in(&election->retry, 0);
    else if (entry->create_revision > election->leader_revision)
        follow(election, entry);
}

void election_observe(struct election *election, const struct kv_entry *entry, int64_t revision)
{
    if (revision < election->seen_revision && !has_key(election))
        election->leader_revision = 0; /* the store was emptied or restored: its revisions start
                                        * again */
    election->seen_revision = revision;
    if (has_key(election)) {
        observe_leading(election, entry);
    } else if (entry && entry->create_revision < election->leader_revision) {
        return; /* one of our reads was ahead of the watch */
    } else if (entry && election->lease != 0 && entry->lease == election->lease) {
        lead(election, entry->create_revision); /* our campaign, whose answer is still on its way */
    } else if (entry && election->phase == ELECTION_DEPOSING &&
               entry->create_revision == election->leader_revision) {
        return; /* the leader that we are about to depose */
    } else if (entry) {
        follow(election, entry);
    } else {
        campaign_in_turn(election);
    }
}

void election_depose(struct election *election)
{
    if (election->phase != ELECTION_FOLLOWING || election->leader_revision == 0)
        return;
    election->phase = ELECTION_DEPOSING;
    advance(election);
}

static void election_free(struct election *election)
{
    election->kv->cancel(election->kv->context, election->step);
    timer_done(&election->retry);
    timer_done(&election->beat);
    timer_done(&election->expiry);
    free(election);
}

int election_start(const struct loop *loop, const struct kv *kv,
                   const struct election_options *options, election_callback changed, void *context,
                   struct election **ret_election)
{
    if (!name_valid(options->node) || !name_valid(options->cluster) || options->ttl_seconds < 1)
        return -EINVAL;
    struct election *election = calloc(1, sizeof(*election));
    if (!election)
        return -ENOMEM;
    election->loop = loop;
    election->kv = kv;
    election->ttl_seconds = options->ttl_seconds;
    election->changed = changed;
    election->context = context;
    election->phase = ELECTION_CAMPAIGNING;
    stpcpy(election->node, options->node);
    keys_leader(election->key, options->cluster);
    backoff_init(&election->backoff, RETRY_MIN_NS, RETRY_MAX_NS, options->node);
    int status = timer_init(&election->retry, loop, retry_fired, election);
    if (status == 0)
        status = timer_init(&election->beat, loop, beat_fired, election);
    if (status == 0)
        status = timer_init(&election->expiry, loop, expiry_fired, election);
    if (status < 0) {
        election_free(election);
        return status;
    }
    /* The watch is about to report the leader; without its event, campaign after a pause. */
    timer_set_in(&election->retry, RETRY_MIN_NS);
    *ret_election = election;
    return 0;
}

void election_stop(struct election *election)
{
    if (!election)
        return;
    drop_lease(election);
    election_free(election);
}
