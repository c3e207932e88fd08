/*
 * Tests of slots that go out of service and come back: by themselves if their workers died,
 * otherwise by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/daemon/store.h"

#include "base/clock.h"
#include "base/timeouts.h"
#include "daemon/core/daemon.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/slot_service.h"
#include "daemon/node/inventory.h"
#include "elastic/agent/slot_backoff.h"
#include "lib/daemon/keys.h"

#define TIMEOUT_NS (1500 * NS_PER_MS)
#define PAUSE_NS   (TIMEOUTS_SLOT_BACKOFF_MIN * TIMEOUT_NS)

static struct config config = {.cluster = "c", .node = "a", .failure_timeout_ns = TIMEOUT_NS};
static struct fake_store store;
static struct daemon *firnd;
static unsigned published, mended; /* how often, and slots by bit */

/* ---- stubs ---- */

void daemon_node_publish(struct daemon_node *node)
{
    (void)node;
    published++;
}

static void note_mended(struct job *job, unsigned slot)
{
    (void)job;
    mended |= 1u << slot;
}

void inventory_excuse_slot(struct inventory *inventory, unsigned slot)
{
    (void)inventory;
    firnd->node.self.slots[slot].bad[0] = '\0';
    firnd->node.self.slots[slot].retry_unix_ns = 0;
}

void inventory_excuse(struct inventory *inventory)
{
    for (unsigned slot = 0; slot < firnd->node.self.slot_count; slot++)
        inventory_excuse_slot(inventory, slot);
}

/* ---- a node of three slots, and one job ---- */

static struct job *job;

static int setup(void **state)
{
    (void)state;
    fake_store_init(&store);
    store.now_ns = NS_PER_SECOND;
    firnd = calloc(1, sizeof(*firnd));
    job = calloc(1, sizeof(*job));
    if (!firnd || !job)
        return -1;
    firnd->config = &config;
    firnd->loop.loop = store.loop;
    firnd->node.self.slot_count = 3;
    firnd->jobs = job;
    published = mended = 0;
    return slot_service_new(firnd, note_mended, &firnd->node.slot_service);
}

static int teardown(void **state)
{
    (void)state;
    slot_service_free(firnd->node.slot_service);
    mirror_done(&firnd->keys.mirror);
    free(job);
    free(firnd);
    return 0;
}

static void fire_at(uint64_t at_ns)
{
    assert_true(store.timer.at_ns == at_ns);
    store.now_ns = at_ns;
    store.timer.fired(store.timer.user);
}

static void test_a_slot_is_tried_again(void **state)
{
    (void)state;
    assert_false(slot_service_watches(firnd->node.slot_service, 1));
    assert_true(slot_service_take_out(firnd->node.slot_service, 1, "died", true) == PAUSE_NS);
    assert_string_equal(firnd->node.self.slots[1].bad, "died");
    assert_true(firnd->node.self.slots[1].retry_unix_ns > PAUSE_NS);
    assert_int_equal(published, 1);
    assert_false(slot_service_watches(firnd->node.slot_service, 1));
    fire_at(NS_PER_SECOND + PAUSE_NS);
    assert_string_equal(firnd->node.self.slots[1].bad, "");
    assert_int_equal(mended, 1u << 1);
    assert_int_equal(published, 2);
    assert_true(slot_service_watches(firnd->node.slot_service, 1));
    assert_true(store.timer.at_ns == UINT64_MAX);
    assert_true(slot_service_take_out(firnd->node.slot_service, 1, "died again", true) ==
                2 * PAUSE_NS);
}

/* Each slot is tried at its own time. */
static void test_of_two_slots_the_first_is_tried_first(void **state)
{
    (void)state;
    assert_true(slot_service_take_out(firnd->node.slot_service, 2, "", true) == PAUSE_NS);
    assert_string_equal(firnd->node.self.slots[2].bad, "unknown");
    store.now_ns += NS_PER_SECOND;
    assert_true(slot_service_take_out(firnd->node.slot_service, 0, "died", true) == PAUSE_NS);
    fire_at(NS_PER_SECOND + PAUSE_NS);
    assert_int_equal(mended, 1u << 2);
    fire_at(2 * NS_PER_SECOND + PAUSE_NS);
    assert_int_equal(mended, 1u << 2 | 1u << 0);
}

static void test_what_is_wrong_waits_for_an_operator(void **state)
{
    (void)state;
    assert_true(slot_service_take_out(firnd->node.slot_service, 1, "wrong sums", false) == 0);
    assert_string_equal(firnd->node.self.slots[1].bad, "wrong sums");
    assert_true(firnd->node.self.slots[1].retry_unix_ns == 0);
    assert_true(store.timer.at_ns == UINT64_MAX);
}

static void excuse(int64_t revision)
{
    const struct kv_event event = {.entry = {.key = "/firn/v1/c/excused/a",
                                             .value = "{}",
                                             .create_revision = 1,
                                             .mod_revision = revision}};

    assert_int_equal(mirror_apply(&firnd->keys.mirror, &event, revision), 0);
    slot_service_sync(firnd->node.slot_service);
}

/* An operator's request counts once for each time that it is made, and not for earlier failures. */
static void test_an_operator_takes_all_back(void **state)
{
    (void)state;
    excuse(5);
    assert_int_equal(published, 0);
    assert_true(slot_service_take_out(firnd->node.slot_service, 1, "wrong sums", false) == 0);
    assert_true(slot_service_take_out(firnd->node.slot_service, 2, "died", true) == PAUSE_NS);
    slot_service_sync(firnd->node.slot_service);
    assert_int_equal(mended, 0);
    excuse(6);
    assert_int_equal(mended, 7);
    assert_string_equal(firnd->node.self.slots[1].bad, "");
    assert_string_equal(firnd->node.self.slots[2].bad, "");
    assert_true(store.timer.at_ns == UINT64_MAX);
    assert_false(slot_service_watches(firnd->node.slot_service, 2));
    assert_true(slot_service_take_out(firnd->node.slot_service, 2, "died", true) == PAUSE_NS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_slot_is_tried_again),
        TEST(test_of_two_slots_the_first_is_tried_first),
        TEST(test_what_is_wrong_waits_for_an_operator),
        TEST(test_an_operator_takes_all_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
