/*
 * Tests of a candidate that gets news in an unlucky order: the test gives the answers of the store
 * one by one, and plays the watch.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "membership/kv/election.h"

#define LEASE 77

enum asked { ASKED_NOTHING, ASKED_GRANT, ASKED_CREATE, ASKED_READ, ASKED_REVOKE };

#define TIMERS_MAX 8

struct loop_timer {
    uint64_t at_ns;
    void (*fired)(void *user);
    void *user;
};

/* The step of the election that waits for its answer; revocations need none. */
struct bench {
    struct loop loop;
    struct kv kv;
    struct loop_timer timers[TIMERS_MAX];
    unsigned timer_count;
    uint64_t now_ns;
    enum asked asked;
    kv_callback done;
    void *user;
    unsigned revoked;
    struct election *election;
    bool leads;
};

static struct kv_request *const SOME_REQUEST = (struct kv_request *)8;

static uint64_t now(void *context)
{
    return ((struct bench *)context)->now_ns;
}

static int timer_add(void *context, uint64_t at_ns, void (*fired)(void *user), void *user,
                     struct loop_timer **ret_timer)
{
    struct bench *bench = context;
    assert_true(bench->timer_count < TIMERS_MAX);
    *ret_timer = &bench->timers[bench->timer_count++];
    **ret_timer = (struct loop_timer){at_ns, fired, user};
    return 0;
}

static int timer_set(void *context, struct loop_timer *timer, uint64_t at_ns)
{
    (void)context;
    timer->at_ns = at_ns;
    return 0;
}

static void timer_remove(void *context, struct loop_timer *timer)
{
    (void)context;
    timer->at_ns = UINT64_MAX;
}

static int ask(struct bench *bench, enum asked what, kv_callback done, void *user,
               struct kv_request **ret_request)
{
    assert_int_equal(bench->asked, ASKED_NOTHING);
    bench->asked = what;
    bench->done = done;
    bench->user = user;
    *ret_request = SOME_REQUEST;
    return 0;
}

static int grant(void *context, int64_t ttl_seconds, kv_callback done, void *user,
                 struct kv_request **ret_request)
{
    (void)ttl_seconds;
    return ask(context, ASKED_GRANT, done, user, ret_request);
}

static int revoke(void *context, int64_t lease, kv_callback done, void *user,
                  struct kv_request **ret_request)
{
    struct bench *bench = context;
    (void)done;
    (void)user;
    assert_int_equal(lease, LEASE);
    bench->revoked++;
    *ret_request = SOME_REQUEST;
    return 0;
}

static int create(void *context, const struct kv_compare *compares, size_t compare_count,
                  const struct kv_operation *operations, size_t operation_count, kv_callback done,
                  void *user, struct kv_request **ret_request)
{
    (void)compares;
    (void)compare_count;
    assert_int_equal(operation_count, 1);
    assert_int_equal(operations[0].type, KV_PUT);
    return ask(context, ASKED_CREATE, done, user, ret_request);
}

static int read_one(void *context, const char *key, bool prefix, kv_callback done, void *user,
                    struct kv_request **ret_request)
{
    (void)key;
    (void)prefix;
    return ask(context, ASKED_READ, done, user, ret_request);
}

static void cancel(void *context, struct kv_request *request)
{
    struct bench *bench = context;
    if (request)
        bench->asked = ASKED_NOTHING;
}

static void changed(void *context, bool leads, const char *leader)
{
    (void)leader;
    ((struct bench *)context)->leads = leads;
}

/* Fire the timers due within the next second, once. */
static void pass_time(struct bench *bench)
{
    bench->now_ns += NS_PER_SECOND;
    for (unsigned i = 0; i < bench->timer_count; i++) {
        struct loop_timer *timer = &bench->timers[i];
        if (timer->at_ns <= bench->now_ns) {
            timer->at_ns = UINT64_MAX;
            timer->fired(timer->user);
        }
    }
}

static void answer(struct bench *bench, enum asked what, const struct kv_result *result)
{
    assert_int_equal(bench->asked, what);
    bench->asked = ASKED_NOTHING;
    bench->done(bench->user, result);
}

static struct kv_entry leader_entry(const char *node, int64_t revision, int64_t lease)
{
    return (struct kv_entry){.key = "leader",
                             .value = node,
                             .value_bytes = strlen(node),
                             .create_revision = revision,
                             .mod_revision = revision,
                             .lease = lease};
}

static void start(struct bench *bench)
{
    const struct election_options options = {.cluster = "c", .node = "a", .ttl_seconds = 100};
    *bench = (struct bench){
        .loop = {.context = bench,
                 .now_ns = now,
                 .timer_add = timer_add,
                 .timer_set = timer_set,
                 .timer_remove = timer_remove},
        .kv = {.context = bench,
               .range = read_one,
               .txn = create,
               .lease_grant = grant,
               .lease_revoke = revoke,
               .cancel = cancel},
        .now_ns = NS_PER_SECOND,
    };
    assert_int_equal(
        election_start(&bench->loop, &bench->kv, &options, changed, bench, &bench->election), 0);
    pass_time(bench);
}

/* The candidate first reads the current leader. */
static void be_granted(struct bench *bench)
{
    answer(bench, ASKED_READ, &(struct kv_result){.revision = 1});
    answer(bench, ASKED_GRANT, &(struct kv_result){.lease = LEASE, .ttl_seconds = 100});
}

/* The watch shows our own key before the answer to the campaign arrives. */
static void test_own_key_is_known_by_its_lease(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench);
    be_granted(&bench);
    const struct kv_entry own = leader_entry("a", 5, LEASE);
    election_observe(bench.election, &own, 5);
    assert_true(bench.leads);
    answer(&bench, ASKED_CREATE, &(struct kv_result){.succeeded = true, .revision = 5});
    assert_true(bench.leads);
    assert_int_equal(bench.revoked, 0);
    election_stop(bench.election);
}

/*
 * A read returns a leader whose end the watch has delivered already: no second event will follow.
 */
static void test_reading_that_the_watch_overtook(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench);
    be_granted(&bench);
    answer(&bench, ASKED_CREATE, &(struct kv_result){.succeeded = false, .revision = 7});
    const struct kv_entry other = leader_entry("b", 6, 1);
    election_observe(bench.election, NULL, 8);
    answer(&bench, ASKED_READ,
           &(struct kv_result){.entries = &other, .entry_count = 1, .revision = 7});
    pass_time(&bench);
    answer(&bench, ASKED_CREATE, &(struct kv_result){.succeeded = true, .revision = 9});
    assert_true(bench.leads);
    election_stop(bench.election);
}

/* An emptied store counts from one again: its leader is no history. */
static void test_store_that_was_emptied(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench);
    be_granted(&bench);
    const struct kv_entry before = leader_entry("b", 900, 1), after = leader_entry("c", 3, 2);
    election_observe(bench.election, &before, 950);
    assert_string_equal(election_leader(bench.election), "b");
    election_observe(bench.election, &after, 4);
    assert_string_equal(election_leader(bench.election), "c");
    election_stop(bench.election);
}

/* A candidate that comes too late writes nothing. */
static void test_no_lease_where_somebody_leads(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench);
    const struct kv_entry other = leader_entry("b", 6, 1);
    answer(&bench, ASKED_READ,
           &(struct kv_result){.entries = &other, .entry_count = 1, .revision = 7});
    assert_string_equal(election_leader(bench.election), "b");
    assert_int_equal(bench.asked, ASKED_NOTHING);
    assert_int_equal(bench.revoked, 0);
    election_stop(bench.election);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_key_is_known_by_its_lease),
        cmocka_unit_test(test_reading_that_the_watch_overtook),
        cmocka_unit_test(test_store_that_was_emptied),
        cmocka_unit_test(test_no_lease_where_somebody_leads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
