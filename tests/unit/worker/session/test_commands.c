/*
 * Tests of the plan that a worker takes at a boundary that a commit has announced. A list replaces
 * the messages on the worker's socket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "worker/session/commands.h"
#include "worker/session/trainer.h"

#define FOLLOWING 4 /* the announced generation */

static uint64_t coming[4]; /* generations of the plans from firnd, in order */
static unsigned come_count, coming_count;
static bool breaks_off; /* the plan after the announced one does not wait for rank 0 */

int control_server_take(struct control_server *server, uint64_t deadline_ns,
                        struct control_message *ret_message)
{
    (void)server;
    (void)deadline_ns;
    if (come_count == coming_count)
        return 0;
    ret_message->type = CONTROL_SWITCH;
    ret_message->plan = plan_new();
    assert_non_null(ret_message->plan);
    ret_message->plan->generation = coming[come_count++];
    ret_message->plan->change.planned = true;
    ret_message->plan->change.breaks_off = breaks_off && ret_message->plan->generation > FOLLOWING;
    return 1;
}

void control_server_send(struct control_server *server, const struct control_message *message)
{
    (void)server;
    (void)message;
}

/*
 * Return the generation that the worker joins when firnd sends the plans @told; 0: it waits in
 * vain.
 */
static uint64_t generation_after(const uint64_t *told, unsigned count, unsigned taken_before)
{
    const struct worker_options options = {.failure_timeout_ns = 1000000};
    struct trainer trainer = {
        .options = &options, .report.phase = WORKER_RUNNING, .commands.generation = 2};

    memcpy(coming, told, count * sizeof(*told));
    come_count = 0;
    coming_count = taken_before;
    commands_take(&trainer, 0); /* as at the begin of each step */
    coming_count = count;
    const struct plan *plan = commands_announced_plan(&trainer, FOLLOWING);
    uint64_t generation = plan ? plan->generation : 0;
    pending_plan_done(&trainer.commands.pending);
    return generation;
}

static void test_the_announced_plan_is_taken(void **state)
{
    (void)state;
    const uint64_t told[] = {FOLLOWING};

    assert_int_equal(generation_after(told, 1, 0), FOLLOWING);
    assert_int_equal(generation_after(told, 1, 1), FOLLOWING);
}

/* A firnd that lagged sends every plan in turn: no other worker joins the first plan. */
static void test_a_plan_that_was_superseded_is_not_the_announced_one(void **state)
{
    (void)state;
    const uint64_t told[] = {FOLLOWING - 1, FOLLOWING};

    assert_int_equal(generation_after(told, 2, 0), FOLLOWING);
    assert_int_equal(generation_after(told, 2, 1), FOLLOWING);
    assert_int_equal(generation_after(told, 2, 2), FOLLOWING);
}

static void test_without_the_announced_plan_there_is_none(void **state)
{
    (void)state;
    const uint64_t told[] = {FOLLOWING - 1};

    assert_int_equal(generation_after(told, 0, 0), 0);
    assert_int_equal(generation_after(told, 1, 0), 0);
    assert_int_equal(generation_after(told, 1, 1), 0);
}

/* A plan that has superseded the announced plan, perhaps after a failure, is taken as well. */
static void test_a_newer_plan_is_taken(void **state)
{
    (void)state;
    const uint64_t told[] = {FOLLOWING + 1};

    assert_int_equal(generation_after(told, 1, 0), FOLLOWING + 1);
}

/* All other workers join the announced plan; the leader makes another plan from their state. */
static void test_what_was_to_supersede_the_announced_plan_comes_too_late(void **state)
{
    (void)state;
    const uint64_t told[] = {FOLLOWING, FOLLOWING + 1};

    assert_int_equal(generation_after(told, 2, 0), FOLLOWING);
    assert_int_equal(generation_after(told, 2, 1), FOLLOWING);
    breaks_off = true;
    assert_int_equal(generation_after(told, 2, 0), FOLLOWING + 1);
    breaks_off = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_announced_plan_is_taken),
        cmocka_unit_test(test_a_plan_that_was_superseded_is_not_the_announced_one),
        cmocka_unit_test(test_without_the_announced_plan_there_is_none),
        cmocka_unit_test(test_a_newer_plan_is_taken),
        cmocka_unit_test(test_what_was_to_supersede_the_announced_plan_comes_too_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
