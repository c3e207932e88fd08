/*
 * Tests that only the leader removes a job that is over, as a whole, and only if it is still as it
 * was chosen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/daemon/store.h"

#include "base/clock.h"
#include "daemon/core/daemon.h"
#include "daemon/leader/retiring.h"
#include "daemon/leader/retiring_choice.h"

#define MINUTE_NS (60 * NS_PER_SECOND)

static struct config config = {.cluster = "c", .node = "a", .keep_finished_ns = 1};
static struct fake_store store;
static struct daemon *node;
static struct retiring *retiring;
static bool leading, due;
static unsigned removals;

/* ---- stubs ---- */

bool election_leads(const struct election *election)
{
    (void)election;
    return leading;
}

struct kv_compare election_guard(const struct election *election)
{
    (void)election;
    return (struct kv_compare){.key = "leader", .target = KV_CREATE_REVISION, .value = 3};
}

bool retiring_choose(const struct mirror *mirror, const char *cluster, uint64_t keep_ns,
                     uint64_t unix_ns, struct retiring_job *ret_job)
{
    (void)mirror;
    assert_string_equal(cluster, "c");
    assert_int_equal(keep_ns, 1);
    assert_true(unix_ns > 1000 * NS_PER_SECOND);
    *ret_job = (struct retiring_job){.name = "old", .spec_revision = 5, .state_revision = 6};
    return due;
}

static int remove_job(void *context, const struct kv_compare *compares, size_t compare_count,
                      const struct kv_operation *operations, size_t operation_count,
                      kv_callback done, void *user, struct kv_request **ret_request)
{
    (void)context;
    assert_int_equal(compare_count, 3);
    assert_string_equal(compares[0].key, "leader");
    assert_string_equal(compares[1].key, "/firn/v1/c/jobs/old/spec");
    assert_int_equal(compares[1].value, 5);
    assert_string_equal(compares[2].key, "/firn/v1/c/said/old/state");
    assert_int_equal(compares[2].value, 6);
    assert_int_equal(operation_count, 2);
    assert_string_equal(operations[0].key, "/firn/v1/c/jobs/old/");
    assert_string_equal(operations[1].key, "/firn/v1/c/said/old/");
    for (size_t i = 0; i < operation_count; i++)
        assert_int_equal(operations[i].type, KV_DELETE_PREFIX);
    removals++;
    store.in_flight = true;
    store.done = done;
    store.user = user;
    *ret_request = &store.request;
    return 0;
}

/* ---- a node ---- */

static int setup(void **state)
{
    (void)state;
    fake_store_init(&store);
    store.kv.txn = remove_job;
    store.now_ns = NS_PER_SECOND;
    node = calloc(1, sizeof(*node));
    if (!node)
        return -1;
    node->config = &config;
    node->keys.kv = &store.kv;
    node->loop.loop = store.loop;
    node->node.election = (struct election *)node; /* an election exists */
    leading = due = true;
    removals = 0;
    return retiring_new(node, &retiring);
}

static int teardown(void **state)
{
    (void)state;
    retiring_free(retiring);
    free(node);
    return 0;
}

static void look(void)
{
    assert_true(store.timer.at_ns == store.now_ns + MINUTE_NS);
    store.now_ns = store.timer.at_ns;
    store.timer.fired(store.timer.user);
}

static void look_often(unsigned times)
{
    while (times-- > 0)
        look();
}

static void answer(bool succeeded)
{
    const struct kv_result result = {.succeeded = succeeded};

    assert_true(store.in_flight);
    store.in_flight = false;
    store.done(store.user, &result);
}

static void test_a_leader_believes_its_clock_after_a_while(void **state)
{
    (void)state;
    look_often(10);
    assert_int_equal(removals, 0);
    look();
    assert_int_equal(removals, 1);
    answer(true);
    look();
    assert_int_equal(removals, 2);
    answer(false); /* the job has changed meanwhile: chosen anew */
    due = false;
    look_often(3);
    assert_int_equal(removals, 2);
}

/* A leader that has not seen all keys yet, or does not reach etcd, removes no job, either. */
static void test_who_does_not_lead_removes_nothing(void **state)
{
    (void)state;
    leading = false;
    look_often(20);
    leading = true;
    node->keys.partial = true;
    look_often(20);
    node->keys.partial = false;
    node->keys.away = true;
    look_often(20);
    node->keys.away = false;
    look_often(10); /* from now on it counts */
    assert_int_equal(removals, 0);
    look();
    assert_int_equal(removals, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_leader_believes_its_clock_after_a_while),
        TEST(test_who_does_not_lead_removes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
