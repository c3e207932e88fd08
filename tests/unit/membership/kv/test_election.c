/*
 * Tests of elections against a real etcd. Every candidate has its own client and loop, so a
 * candidate stops when its loop does not run. An independent check after every round: at most one
 * candidate leads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lib/membership/store.h"
#include "membership/kv/election.h"
#include "membership/kv/keys.h"

#define TTL_SHORT       1  /* seconds: for leases that must end */
#define TTL_LONG        60 /* for leases that may not end, however busy the machine is */
#define CANDIDATE_COUNT 3

static struct etcd_fixture fixture;

static int start(void **state)
{
    (void)state;
    return etcd_fixture_available() && !etcd_fixture_start(&fixture, 1);
}

static int stop(void **state)
{
    (void)state;
    etcd_fixture_stop(&fixture);
    return 0;
}

struct candidate {
    struct store store;
    struct election *election;
    struct kv_watch *watch;
    char leader_key[KV_KEY_MAX];
    bool still; /* its loop is not run */
    bool told_leads;
    char told_leader[STORE_TEXT_SIZE];
    unsigned terms; /* how often it began to lead */
};

struct cluster {
    const char *name;
    unsigned ttl_seconds;
    struct candidate candidates[CANDIDATE_COUNT];
};

static void changed(void *context, bool leads, const char *leader)
{
    struct candidate *candidate = context;
    candidate->terms += leads && !candidate->told_leads;
    candidate->told_leads = leads;
    snprintf(candidate->told_leader, sizeof(candidate->told_leader), "%s", leader);
}

static void snapshot(void *context, const struct kv_entry *entries, size_t count, int64_t revision)
{
    struct candidate *candidate = context;
    const struct kv_entry *leader = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(entries[i].key, candidate->leader_key) == 0)
            leader = &entries[i];
    }
    election_observe(candidate->election, leader, revision);
}

static void events(void *context, const struct kv_event *list, size_t count, int64_t revision)
{
    struct candidate *candidate = context;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].entry.key, candidate->leader_key) == 0)
            election_observe(candidate->election, list[i].deleted ? NULL : &list[i].entry,
                             revision);
    }
}

static void join(struct cluster *cluster, unsigned index)
{
    static const char *const names[] = {"a", "b", "c"};
    static const struct kv_watch_callbacks callbacks = {snapshot, events, NULL};
    struct candidate *candidate = &cluster->candidates[index];
    const struct election_options options = {
        .cluster = cluster->name, .node = names[index], .ttl_seconds = cluster->ttl_seconds};
    char prefix[KV_KEY_MAX], endpoints[ETCD_FIXTURE_TEXT_SIZE];
    *candidate = (struct candidate){0};
    keys_leader(candidate->leader_key, cluster->name);
    etcd_fixture_endpoints(&fixture, endpoints);
    store_open_options(
        &candidate->store,
        &(struct etcd_options){.endpoints = endpoints,
                               .request_timeout_ns = cluster->ttl_seconds * 300 * NS_PER_MS});
    const struct kv *kv = candidate->store.kv;
    assert_int_equal(election_start(poll_loop_table(candidate->store.loop), kv, &options, changed,
                                    candidate, &candidate->election),
                     0);
    assert_int_equal(kv->watch(kv->context, keys_cluster(prefix, cluster->name), NULL, &callbacks,
                               candidate, &candidate->watch),
                     0);
}

/* The resignation is a separate request; it has been carried out when the key is gone. */
static void await_resignation(struct candidate *candidate, bool led, int64_t term)
{
    uint64_t until_ns = clock_monotonic_ns() + STORE_WAIT_NS;
    while (led) {
        struct outcome outcome = store_range(&candidate->store, candidate->leader_key, false);
        led = outcome.status != 0 ||
              (outcome.count > 0 && outcome.entries[0].create_revision == term);
        assert_true(clock_monotonic_ns() < until_ns);
    }
}

static void leave(struct candidate *candidate)
{
    if (!candidate->election)
        return;
    const struct kv *kv = candidate->store.kv;
    bool led = election_leads(candidate->election);
    int64_t term = led ? election_guard(candidate->election).value : 0;
    kv->unwatch(kv->context, candidate->watch);
    election_stop(candidate->election);
    await_resignation(candidate, led, term);
    store_close(&candidate->store);
    candidate->election = NULL;
}

static void open_cluster(struct cluster *cluster, const char *name, unsigned ttl_seconds)
{
    *cluster = (struct cluster){.name = name, .ttl_seconds = ttl_seconds};
    for (unsigned i = 0; i < CANDIDATE_COUNT; i++)
        join(cluster, i);
}

static void close_cluster(struct cluster *cluster)
{
    for (unsigned i = 0; i < CANDIDATE_COUNT; i++)
        leave(&cluster->candidates[i]);
}

static struct candidate *leading(struct cluster *cluster)
{
    struct candidate *leader = NULL;
    for (unsigned i = 0; i < CANDIDATE_COUNT; i++) {
        struct candidate *candidate = &cluster->candidates[i];
        if (candidate->election && election_leads(candidate->election)) {
            assert_null(leader); /* never two */
            leader = candidate;
        }
    }
    return leader;
}

static void run_round(struct cluster *cluster)
{
    bool never = false;
    for (unsigned i = 0; i < CANDIDATE_COUNT; i++) {
        struct candidate *candidate = &cluster->candidates[i];
        if (candidate->election && !candidate->still)
            (void)!poll_loop_run(candidate->store.loop, &never,
                                 clock_monotonic_ns() + 2 * NS_PER_MS);
        leading(cluster);
    }
}

#define CLUSTER_UNTIL(cluster, condition)                                                          \
    do {                                                                                           \
        uint64_t cluster_until_ns_ = clock_monotonic_ns() + STORE_WAIT_NS;                         \
        while (!(condition)) {                                                                     \
            if (clock_monotonic_ns() >= cluster_until_ns_)                                         \
                fail_msg("never came true: %s", #condition);                                       \
            run_round(cluster);                                                                    \
        }                                                                                          \
    } while (0)

/* Return whether a leader is elected and all running candidates know it. */
static bool settled(struct cluster *cluster)
{
    const struct candidate *leader = leading(cluster);
    if (!leader || !leader->told_leads)
        return false;
    for (unsigned i = 0; i < CANDIDATE_COUNT; i++) {
        const struct candidate *candidate = &cluster->candidates[i];
        if (candidate->election && !candidate->still &&
            (strcmp(candidate->told_leader, leader->told_leader) != 0 ||
             candidate->told_leads != (candidate == leader)))
            return false;
    }
    return true;
}

static struct outcome guarded_put(struct candidate *candidate, struct kv_compare guard)
{
    struct kv_operation put = {.type = KV_PUT, .key = "/plan", .value = "x"};
    return store_txn(&candidate->store, &guard, 1, &put, 1);
}

static bool leader_writes(struct cluster *cluster)
{
    struct candidate *leader = leading(cluster);
    return leader && guarded_put(leader, election_guard(leader->election)).succeeded;
}

static struct candidate *other_than(struct cluster *cluster, const struct candidate *candidate)
{
    return &cluster->candidates[candidate == &cluster->candidates[0] ? 1 : 0];
}

static void test_one_leads_and_all_know_it(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    open_cluster(&cluster, "one", TTL_LONG);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    struct candidate *leader = leading(&cluster);
    assert_true(guarded_put(leader, election_guard(leader->election)).succeeded);
    assert_int_equal(leader->terms, 1);
    close_cluster(&cluster);
}

/* How long the present leader has led without a break; @since_ns and @of are kept between calls. */
static uint64_t led_for_ns(struct cluster *cluster, const struct candidate **of, unsigned *terms,
                           uint64_t *since_ns)
{
    const struct candidate *leader = leading(cluster);
    if (!leader || leader != *of || leader->terms != *terms) {
        *of = leader;
        *terms = leader ? leader->terms : 0;
        *since_ns = clock_monotonic_ns();
    }
    return leader ? clock_monotonic_ns() - *since_ns : 0;
}

/* Without renewal the lease would end a term earlier; a stalled machine may end some terms. */
static void test_lease_is_renewed(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    const struct candidate *of = NULL;
    unsigned terms = 0;
    uint64_t since_ns = 0;
    open_cluster(&cluster, "kept", TTL_SHORT);
    CLUSTER_UNTIL(&cluster,
                  led_for_ns(&cluster, &of, &terms, &since_ns) >= 3 * TTL_SHORT * NS_PER_SECOND);
    close_cluster(&cluster);
}

static void test_resignation_hands_over(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    open_cluster(&cluster, "two", TTL_LONG);
    for (unsigned left = CANDIDATE_COUNT; left > 1; left--) {
        CLUSTER_UNTIL(&cluster, settled(&cluster));
        struct candidate *leader = leading(&cluster);
        struct kv_compare guard = election_guard(leader->election);
        char key[KV_KEY_MAX];
        snprintf(key, sizeof(key), "%s", guard.key); /* it dies with the election */
        guard.key = key;
        leave(leader);
        CLUSTER_UNTIL(&cluster, settled(&cluster));
        assert_false(guarded_put(leading(&cluster), guard).succeeded);
    }
    close_cluster(&cluster);
}

static void test_leader_that_stands_still_is_replaced(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    open_cluster(&cluster, "three", TTL_SHORT);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    struct candidate *old = leading(&cluster);
    struct kv_compare guard = election_guard(old->election);
    old->still = true;
    CLUSTER_UNTIL(&cluster, leading(&cluster) != old && settled(&cluster));
    assert_false(election_leads(old->election)); /* by its clock, before its loop ran again */
    assert_false(guarded_put(leading(&cluster), guard).succeeded);
    old->still = false;
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    /* If it leads again, it was elected again. */
    assert_true(!election_leads(old->election) ||
                election_guard(old->election).value > guard.value);
    close_cluster(&cluster);
}

static void test_depose_is_immediate(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    open_cluster(&cluster, "four", TTL_LONG);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    struct candidate *old = leading(&cluster);
    struct candidate *deposer = other_than(&cluster, old);
    struct kv_compare guard = election_guard(old->election);
    election_depose(old->election); /* a leader does not depose itself */
    run_round(&cluster);
    assert_true(election_leads(old->election));
    old->still = true; /* dead to the other candidates; its lease is valid */
    election_depose(deposer->election);
    STORE_UNTIL(&deposer->store, election_guard(deposer->election).value > guard.value);
    assert_false(guarded_put(deposer, guard).succeeded);
    /* The deposed leader may still believe in its lease: none of its writes succeeds. */
    STORE_UNTIL(&old->store, !election_leads(old->election));
    old->still = false;
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    close_cluster(&cluster);
}

static void test_late_news_do_not_end_a_term(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    open_cluster(&cluster, "five", TTL_LONG);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    struct candidate *leader = leading(&cluster);
    const struct kv_entry history = {
        .key = leader->leader_key, .value = "z", .value_bytes = 1, .create_revision = 1};
    election_observe(leader->election, NULL, 1);
    election_observe(leader->election, &history, 2);
    struct outcome after = store_range(&leader->store, "/nothing", false);
    assert_int_equal(after.status, 0);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    assert_ptr_equal(leading(&cluster), leader);
    assert_int_equal(leader->terms, 1);
    close_cluster(&cluster);
}

static void test_key_deleted_by_hand_ends_the_term(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    struct store other;
    open_cluster(&cluster, "six", TTL_LONG);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    struct candidate *leader = leading(&cluster);
    int64_t before = election_guard(leader->election).value;
    store_open(&other, &fixture);
    assert_int_equal(store_delete(&other, leader->leader_key).status, 0);
    /* The old leader may lead until it learns of its end; its writes are refused already. */
    STORE_UNTIL(&leader->store, !election_leads(leader->election) ||
                                    election_guard(leader->election).value != before);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    assert_true(election_guard(leading(&cluster)->election).value > before);
    store_close(&other);
    close_cluster(&cluster);
}

static void test_store_that_hangs_ends_leading(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    open_cluster(&cluster, "seven", TTL_SHORT);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    etcd_fixture_pause(&fixture, 0);
    CLUSTER_UNTIL(&cluster, !leading(&cluster));
    etcd_fixture_continue(&fixture, 0);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    close_cluster(&cluster);
}

static void test_store_restarts(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct cluster cluster;
    open_cluster(&cluster, "eight", TTL_SHORT);
    CLUSTER_UNTIL(&cluster, settled(&cluster));
    etcd_fixture_kill(&fixture, 0);
    CLUSTER_UNTIL(&cluster, !leading(&cluster));
    etcd_fixture_launch(&fixture, 0);
    CLUSTER_UNTIL(&cluster, settled(&cluster) && leader_writes(&cluster));
    close_cluster(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_leads_and_all_know_it),
        cmocka_unit_test(test_lease_is_renewed),
        cmocka_unit_test(test_resignation_hands_over),
        cmocka_unit_test(test_leader_that_stands_still_is_replaced),
        cmocka_unit_test(test_depose_is_immediate),
        cmocka_unit_test(test_late_news_do_not_end_a_term),
        cmocka_unit_test(test_key_deleted_by_hand_ends_the_term),
        cmocka_unit_test(test_store_that_hangs_ends_leading),
        cmocka_unit_test(test_store_restarts),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
