/* Registration of nodes against a real etcd: refusal, take-over, leases that end, a store that goes
 * away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/membership/store.h"
#include "membership/kv/keys.h"
#include "membership/kv/registry.h"

#define TTL_SECONDS 1

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

/* A daemon with its own client and loop: not running the loop stalls the daemon. */
struct daemon {
    struct store store;
    struct registry *registry;
    enum registry_state state;
    unsigned changes;
    int code;
    char text[ERROR_TEXT_SIZE];
};

static void changed(void *context, enum registry_state state, const struct error *error)
{
    struct daemon *daemon = context;
    assert_true((state == REGISTRY_REGISTERED) == (!error));
    daemon->state = state;
    daemon->changes++;
    daemon->code = error ? error->code : 0;
    snprintf(daemon->text, sizeof(daemon->text), "%s", error ? error->text : "");
}

static const char *value_of(uint64_t incarnation, const char *node_state)
{
    static char value[128];
    snprintf(value, sizeof(value), "{\"incarnation\":%llu,\"state\":\"%s\"}",
             (unsigned long long)incarnation, node_state);
    return value;
}

static void daemon_start(struct daemon *daemon, const char *node, int64_t ttl_seconds,
                         uint64_t incarnation, uint64_t takeover)
{
    const struct registry_options options = {.cluster = "alps",
                                             .node = node,
                                             .ttl_seconds = ttl_seconds,
                                             .incarnation = incarnation,
                                             .takeover = takeover};
    *daemon = (struct daemon){0};
    store_open(&daemon->store, &fixture);
    assert_int_equal(registry_start(poll_loop_table(daemon->store.loop), daemon->store.kv, &options,
                                    value_of(incarnation, "ready"), changed, daemon,
                                    &daemon->registry),
                     0);
    assert_int_equal(daemon->changes, 0);
}

static void set_true(void *context)
{
    *(bool *)context = true;
}

static void daemon_stop(struct daemon *daemon)
{
    bool stopped = false;
    registry_stop(daemon->registry, set_true, &stopped);
    assert_false(stopped);
    store_run(&daemon->store, &stopped);
    store_close(&daemon->store);
}

/* kill -9: the store gets no message. */
static void daemon_kill(struct daemon *daemon)
{
    registry_abandon(daemon->registry);
    store_close(&daemon->store);
}

static struct stored stored_node(struct store *store, const char *node)
{
    char key[KV_KEY_MAX];
    struct outcome read = store_range(store, keys_node(key, "alps", node), false);
    assert_int_equal(read.status, 0);
    return read.count == 1 ? read.entries[0] : (struct stored){0};
}

static void test_register_update_and_leave(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon daemon;
    struct store other;
    store_open(&other, &fixture);
    daemon_start(&daemon, "a", 10, 7, 0);
    assert_int_equal(registry_lease(daemon.registry), 0);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_REGISTERED);
    struct stored node = stored_node(&other, "a");
    assert_string_equal(node.value, value_of(7, "ready"));
    assert_true(node.lease != 0 && node.lease == registry_lease(daemon.registry));
    assert_int_equal(registry_update(daemon.registry, value_of(7, "draining")), 0);
    assert_int_equal(registry_update(daemon.registry, value_of(7, "drained")), 0);
    STORE_UNTIL(&daemon.store, strcmp(stored_node(&other, "a").value, value_of(7, "drained")) == 0);
    assert_int_equal(daemon.changes, 1);
    daemon_stop(&daemon);
    assert_string_equal(stored_node(&other, "a").value, "");
    store_close(&other);
}

/* ---- requests, counted on their way to the store ---- */

static const struct kv *counted_kv;
static unsigned range_count, txn_count;

static int counted_range(void *context, const char *key, bool prefix, kv_callback done, void *user,
                         struct kv_request **ret_request)
{
    range_count++;
    return counted_kv->range(context, key, prefix, done, user, ret_request);
}

static int counted_txn(void *context, const struct kv_compare *compares, size_t compare_count,
                       const struct kv_operation *operations, size_t operation_count,
                       kv_callback done, void *user, struct kv_request **ret_request)
{
    txn_count++;
    return counted_kv->txn(context, compares, compare_count, operations, operation_count, done,
                           user, ret_request);
}

/* A free name costs one write, and an update of the record another: nothing is read. */
static void test_free_name_is_not_read(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon daemon = {0};
    const struct registry_options options = {
        .cluster = "alps", .node = "free", .ttl_seconds = 10, .incarnation = 7};
    store_open(&daemon.store, &fixture);
    counted_kv = daemon.store.kv;
    struct kv kv = *counted_kv;
    kv.range = counted_range;
    kv.txn = counted_txn;
    range_count = txn_count = 0;
    assert_int_equal(registry_start(poll_loop_table(daemon.store.loop), &kv, &options,
                                    value_of(7, "ready"), changed, &daemon, &daemon.registry),
                     0);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_REGISTERED);
    assert_int_equal(txn_count, 1);
    assert_int_equal(registry_update(daemon.registry, value_of(7, "draining")), 0);
    STORE_UNTIL(&daemon.store, txn_count == 2);
    assert_int_equal(range_count, 0);
    STORE_UNTIL(&daemon.store,
                strcmp(stored_node(&daemon.store, "free").value, value_of(7, "draining")) == 0);
    daemon_stop(&daemon);
}

static void test_lease_is_kept_alive(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon daemon;
    daemon_start(&daemon, "b", TTL_SECONDS, 7, 0);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_REGISTERED);
    struct stored first = stored_node(&daemon.store, "b");
    uint64_t until_ns = clock_monotonic_ns() + 3 * TTL_SECONDS * NS_PER_SECOND / 2;
    STORE_UNTIL(&daemon.store, clock_monotonic_ns() >= until_ns);
    assert_int_equal(stored_node(&daemon.store, "b").create_revision, first.create_revision);
    assert_int_equal(daemon.changes, 1);
    daemon_stop(&daemon);
}

static void test_second_daemon_of_that_name_is_refused(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon first, second;
    daemon_start(&first, "c", TTL_SECONDS, 1, 0);
    STORE_UNTIL(&first.store, first.state == REGISTRY_REGISTERED);
    daemon_start(&second, "c", TTL_SECONDS, 2, 99);
    STORE_UNTIL(&second.store, second.code == -EEXIST);
    assert_int_equal(second.state, REGISTRY_CONNECTING);
    assert_non_null(strstr(second.text, "within 1 s"));
    bool never = false;
    uint64_t until_ns = clock_monotonic_ns() + STORE_WAIT_NS;
    while (second.state != REGISTRY_REFUSED) {
        assert_true(clock_monotonic_ns() < until_ns);
        (void)!poll_loop_run(first.store.loop, &never, clock_monotonic_ns() + 5 * NS_PER_MS);
        (void)!poll_loop_run(second.store.loop, &never, clock_monotonic_ns() + 5 * NS_PER_MS);
        assert_int_not_equal(second.state, REGISTRY_REGISTERED);
    }
    assert_non_null(strstr(second.text, "\"c\""));
    assert_int_equal(first.changes, 1);
    assert_string_equal(stored_node(&first.store, "c").value, value_of(1, "ready"));
    daemon_stop(&second);
    assert_string_equal(stored_node(&first.store, "c").value, value_of(1, "ready"));
    daemon_stop(&first);
}

static void test_key_of_a_dead_daemon_is_waited_for(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon first, second;
    daemon_start(&first, "d", TTL_SECONDS, 1, 0);
    STORE_UNTIL(&first.store, first.state == REGISTRY_REGISTERED);
    daemon_kill(&first);
    daemon_start(&second, "d", TTL_SECONDS, 2, 0);
    STORE_UNTIL(&second.store, second.state == REGISTRY_REGISTERED);
    assert_int_equal(second.changes, 2); /* first notified that it waits */
    daemon_stop(&second);
}

static void test_restarted_daemon_takes_over_at_once(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon first, second;
    daemon_start(&first, "e", 600, 1, 0);
    STORE_UNTIL(&first.store, first.state == REGISTRY_REGISTERED);
    daemon_kill(&first);
    daemon_start(&second, "e", 600, 2, 1);
    STORE_UNTIL(&second.store, second.state == REGISTRY_REGISTERED);
    assert_int_equal(second.changes, 1); /* never in doubt */
    struct stored node = stored_node(&second.store, "e");
    assert_string_equal(node.value, value_of(2, "ready"));
    assert_int_equal(node.lease, registry_lease(second.registry));
    daemon_stop(&second);
}

static void test_lost_lease_is_replaced(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon daemon;
    struct store other;
    store_open(&other, &fixture);
    daemon_start(&daemon, "f", TTL_SECONDS, 7, 0);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_REGISTERED);
    int64_t lease = registry_lease(daemon.registry);
    assert_int_equal(store_lease(&other, other.kv->lease_revoke, lease).status, 0);
    assert_string_equal(stored_node(&other, "f").value, "");
    STORE_UNTIL(&daemon.store, daemon.changes == 3 && daemon.state == REGISTRY_REGISTERED);
    assert_int_not_equal(registry_lease(daemon.registry), lease);
    assert_string_equal(stored_node(&other, "f").value, value_of(7, "ready"));
    daemon_stop(&daemon);
    store_close(&other);
}

static void test_store_away(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon daemon;
    daemon_start(&daemon, "g", TTL_SECONDS, 7, 0);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_REGISTERED);
    etcd_fixture_kill(&fixture, 0);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_CONNECTING);
    assert_int_equal(registry_lease(daemon.registry), 0);
    assert_non_null(strstr(daemon.text, "http://127.0.0.1:"));
    assert_int_equal(registry_update(daemon.registry, value_of(7, "draining")), 0);
    etcd_fixture_launch(&fixture, 0);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_REGISTERED);
    assert_string_equal(stored_node(&daemon.store, "g").value, value_of(7, "draining"));
    daemon_stop(&daemon);
}

static void test_start_while_the_store_is_away(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon daemon;
    etcd_fixture_kill(&fixture, 0);
    daemon_start(&daemon, "h", TTL_SECONDS, 7, 0);
    STORE_UNTIL(&daemon.store, daemon.changes == 1);
    assert_int_equal(daemon.state, REGISTRY_CONNECTING);
    assert_int_equal(daemon.code, -ECONNREFUSED);
    etcd_fixture_launch(&fixture, 0);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_REGISTERED);
    etcd_fixture_kill(&fixture, 0);
    daemon_stop(&daemon); /* leaves all the same */
    etcd_fixture_launch(&fixture, 0);
    assert_true(etcd_fixture_wait(&fixture, 0));
}

/* A key that is no node record of ours belongs to another program: never overwritten. */
static void test_foreign_value_is_not_overwritten(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct daemon daemon;
    struct store other;
    char key[KV_KEY_MAX];
    store_open(&other, &fixture);
    store_put(&other, keys_node(key, "alps", "i"), "{\"incarnation\":\"seven\"}", 0);
    daemon_start(&daemon, "i", TTL_SECONDS, 7, 3);
    STORE_UNTIL(&daemon.store, daemon.code == -EEXIST);
    store_delete(&other, key);
    STORE_UNTIL(&daemon.store, daemon.state == REGISTRY_REGISTERED);
    daemon_stop(&daemon);
    store_close(&other);
}

/* A store whose answers the test gives, in the order that it wants. */
struct scripted {
    struct poll_loop *loop;
    kv_callback grant, write, keep_alive, read;
    void *user; /* the registry, of all of them */
    int64_t kept_alive;
    unsigned beats;
};

static int scripted_grant(void *context, int64_t ttl_seconds, kv_callback done, void *user,
                          struct kv_request **ret_request)
{
    struct scripted *scripted = context;
    (void)ttl_seconds;
    scripted->grant = done;
    scripted->user = user;
    *ret_request = (struct kv_request *)&scripted->grant;
    return 0;
}

static int scripted_keep_alive(void *context, int64_t lease, kv_callback done, void *user,
                               struct kv_request **ret_request)
{
    struct scripted *scripted = context;
    (void)user;
    scripted->kept_alive = lease;
    scripted->beats++;
    scripted->keep_alive = done;
    *ret_request = (struct kv_request *)&scripted->keep_alive;
    return 0;
}

static int scripted_txn(void *context, const struct kv_compare *compares, size_t compare_count,
                        const struct kv_operation *operations, size_t operation_count,
                        kv_callback done, void *user, struct kv_request **ret_request)
{
    struct scripted *scripted = context;
    (void)compares, (void)compare_count, (void)operations, (void)operation_count, (void)user;
    scripted->write = done;
    *ret_request = (struct kv_request *)&scripted->write;
    return 0;
}

static int scripted_range(void *context, const char *key, bool prefix, kv_callback done, void *user,
                          struct kv_request **ret_request)
{
    struct scripted *scripted = context;
    (void)key, (void)prefix, (void)user;
    scripted->read = done;
    *ret_request = (struct kv_request *)&scripted->read;
    return 0;
}

/* The request is the place of its callback. */
static void scripted_cancel(void *context, struct kv_request *request)
{
    (void)context;
    if (request != NULL)
        *(kv_callback *)(void *)request = NULL;
}

/* A cancelled answer is not delivered. */
static void scripted_answer(struct scripted *scripted, kv_callback *waiting,
                            const struct kv_result *result)
{
    kv_callback done = *waiting;
    *waiting = NULL;
    if (done)
        done(scripted->user, result);
}

#define SCRIPTED_UNTIL(scripted, condition)                                                        \
    do {                                                                                           \
        uint64_t until_ns = clock_monotonic_ns() + STORE_WAIT_NS;                                  \
        bool never = false;                                                                        \
        while (!(condition)) {                                                                     \
            assert_true(clock_monotonic_ns() < until_ns);                                          \
            (void)!poll_loop_run((scripted).loop, &never, clock_monotonic_ns() + 5 * NS_PER_MS);   \
        }                                                                                          \
    } while (0)

/*
 * A node comes back after its lease ran out: a write detects the loss while a keep-alive is in
 * flight, whose answer comes after another lease has been granted. The new lease must be kept
 * alive.
 */
static void test_late_word_of_an_old_lease_ends_no_new_one(void **state)
{
    (void)state;
    struct scripted scripted = {.loop = poll_loop_new()};
    const struct kv kv = {.context = &scripted,
                          .lease_grant = scripted_grant,
                          .lease_keep_alive = scripted_keep_alive,
                          .txn = scripted_txn,
                          .cancel = scripted_cancel};
    const struct registry_options options = {
        .cluster = "alps", .node = "a", .ttl_seconds = TTL_SECONDS, .incarnation = 7};
    struct daemon daemon = {0};
    assert_int_equal(registry_start(poll_loop_table(scripted.loop), &kv, &options,
                                    value_of(7, "ready"), changed, &daemon, &daemon.registry),
                     0);
    SCRIPTED_UNTIL(scripted, scripted.grant);
    scripted_answer(&scripted, &scripted.grant,
                    &(struct kv_result){.lease = 4, .ttl_seconds = TTL_SECONDS});
    scripted_answer(&scripted, &scripted.write, &(struct kv_result){.succeeded = true});
    assert_int_equal(daemon.state, REGISTRY_REGISTERED);
    SCRIPTED_UNTIL(scripted, scripted.beats == 1);
    assert_int_equal(registry_update(daemon.registry, value_of(7, "draining")), 0);
    SCRIPTED_UNTIL(scripted, scripted.write);
    scripted_answer(&scripted, &scripted.write, &(struct kv_result){.status = -ENOENT});
    scripted_answer(&scripted, &scripted.grant,
                    &(struct kv_result){.lease = 5, .ttl_seconds = TTL_SECONDS});
    scripted_answer(&scripted, &scripted.keep_alive, &(struct kv_result){.ttl_seconds = 0});
    scripted_answer(&scripted, &scripted.write, &(struct kv_result){.succeeded = true});
    assert_int_equal(daemon.state, REGISTRY_REGISTERED);
    assert_int_equal(registry_lease(daemon.registry), 5);
    SCRIPTED_UNTIL(scripted, scripted.beats == 2);
    assert_int_equal(scripted.kept_alive, 5);
    registry_abandon(daemon.registry);
    poll_loop_free(scripted.loop);
}

/* A drain's write got no answer, and the drain is over: the stored value is the wanted one. But
 * the store may still carry that write out, so a newer write has to fence it. */
static void test_a_write_that_may_come_late_is_overtaken(void **state)
{
    (void)state;
    struct scripted scripted = {.loop = poll_loop_new()};
    const struct kv kv = {.context = &scripted,
                          .lease_grant = scripted_grant,
                          .lease_keep_alive = scripted_keep_alive,
                          .range = scripted_range,
                          .txn = scripted_txn,
                          .cancel = scripted_cancel};
    const struct registry_options options = {
        .cluster = "alps", .node = "a", .ttl_seconds = TTL_SECONDS, .incarnation = 7};
    struct daemon daemon = {0};
    const char *ready = value_of(7, "ready");
    assert_int_equal(registry_start(poll_loop_table(scripted.loop), &kv, &options, ready, changed,
                                    &daemon, &daemon.registry),
                     0);
    SCRIPTED_UNTIL(scripted, scripted.grant);
    scripted_answer(&scripted, &scripted.grant,
                    &(struct kv_result){.lease = 4, .ttl_seconds = TTL_SECONDS});
    scripted_answer(&scripted, &scripted.write,
                    &(struct kv_result){.succeeded = true, .revision = 10});
    assert_int_equal(registry_update(daemon.registry, value_of(7, "draining")), 0);
    SCRIPTED_UNTIL(scripted, scripted.write);
    scripted_answer(&scripted, &scripted.write, &(struct kv_result){.status = -ETIMEDOUT});
    ready = value_of(7, "ready");
    assert_int_equal(registry_update(daemon.registry, ready), 0);
    SCRIPTED_UNTIL(scripted, scripted.read);
    struct kv_entry entry = {
        .value = ready, .value_bytes = strlen(ready), .mod_revision = 10, .lease = 4};
    scripted_answer(&scripted, &scripted.read,
                    &(struct kv_result){.entries = &entry, .entry_count = 1});
    assert_non_null(scripted.write);
    scripted_answer(&scripted, &scripted.write,
                    &(struct kv_result){.succeeded = true, .revision = 11});
    assert_int_equal(daemon.state, REGISTRY_REGISTERED);
    registry_abandon(daemon.registry);
    poll_loop_free(scripted.loop);
}

static void nothing_to_cancel(void *context, struct kv_request *request)
{
    (void)context;
    assert_null(request);
}

static void test_bad_values_are_refused_at_start(void **state)
{
    (void)state;
    struct poll_loop *loop = poll_loop_new();
    const struct kv kv = {.cancel = nothing_to_cancel};
    struct registry *registry = NULL;
    struct registry_options options = {
        .cluster = "alps", .node = "a", .ttl_seconds = 1, .incarnation = 7};
    const struct loop *table = poll_loop_table(loop);
    assert_int_equal(registry_start(table, &kv, &options, "{", changed, NULL, &registry), -EINVAL);
    assert_int_equal(
        registry_start(table, &kv, &options, value_of(8, "ready"), changed, NULL, &registry),
        -EINVAL);
    options.node = "No Name";
    assert_int_equal(
        registry_start(table, &kv, &options, value_of(7, "ready"), changed, NULL, &registry),
        -EINVAL);
    assert_null(registry);
    poll_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_register_update_and_leave),
        cmocka_unit_test(test_free_name_is_not_read),
        cmocka_unit_test(test_late_word_of_an_old_lease_ends_no_new_one),
        cmocka_unit_test(test_a_write_that_may_come_late_is_overtaken),
        cmocka_unit_test(test_lease_is_kept_alive),
        cmocka_unit_test(test_second_daemon_of_that_name_is_refused),
        cmocka_unit_test(test_key_of_a_dead_daemon_is_waited_for),
        cmocka_unit_test(test_restarted_daemon_takes_over_at_once),
        cmocka_unit_test(test_lost_lease_is_replaced),
        cmocka_unit_test(test_store_away),
        cmocka_unit_test(test_start_while_the_store_is_away),
        cmocka_unit_test(test_foreign_value_is_not_overwritten),
        cmocka_unit_test(test_bad_values_are_refused_at_start),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
