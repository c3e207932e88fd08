/* Events of several nodes in order of time, and the report's numbers from them. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

#include "ctl/cluster/event_list.h"
#include "ctl/report/report_facts.h"
#include "lib/ctl/metrics_lines.h"

static struct event_list list;
static struct history history;

static int teardown(void **state)
{
    (void)state;
    event_list_done(&list);
    history_done(&history);
    return 0;
}

static void add(const char *text, uint64_t expected_last_ns)
{
    uint64_t last_ns = 99;
    assert_int_equal(event_list_add(&list, text, strlen(text), &last_ns), 0);
    assert_int_equal(last_ns, expected_last_ns);
    event_list_order(&list);
}

#define EVENT(at, node, kind, text, more)                                                          \
    "{\"unix_ns\":" #at ",\"job\":\"j\",\"node\":\"" node "\",\"kind\":\"" kind                    \
    "\",\"text\":\"" text "\"" more "}\n"

static void test_events_are_merged_by_time_and_counted_once(void **state)
{
    (void)state;
    add(EVENT(20, "b", "plan", "two", "") EVENT(40, "b", "plan", "four", ""), 40);
    add(EVENT(30, "a", "training", "three", ",\"pause_ms\":1.5,\"step\":7,\"generation\":2")
            EVENT(10, "a", "plan", "one", ""),
        30);
    add(EVENT(40, "b", "plan", "four", "") EVENT(40, "a", "plan", "four", ""), 40);
    assert_int_equal(list.count, 5);
    const char *texts[] = {"one", "two", "three", "four", "four"};
    for (size_t i = 0; i < list.count; i++)
        assert_string_equal(list.events[i].text, texts[i]);
    assert_string_equal(list.events[3].node, "a");
    assert_int_equal(list.events[2].step, 7);
    assert_true(list.events[2].pause_ms == 1.5);
    assert_true(isnan(list.events[1].pause_ms));
}

/* A follower gets the end of a file again: printed events stay printed. */
static void test_a_printed_event_stays_printed(void **state)
{
    (void)state;
    add(EVENT(20, "b", "plan", "two", ""), 20);
    list.events[0].printed = true;
    add(EVENT(10, "b", "plan", "one", "") EVENT(20, "b", "plan", "two", ""), 20);
    assert_int_equal(list.count, 2);
    assert_false(list.events[0].printed);
    assert_true(list.events[1].printed);
}

static void test_what_is_no_event_is_left_out(void **state)
{
    (void)state;
    add("nonsense\n{}\n[1]\n" EVENT(5, "a", "plan", "good", "") "{\"unix_ns\":6", 5);
    add("", 0);
    assert_int_equal(list.count, 1);
}

static void test_an_event_as_a_line(void **state)
{
    (void)state;
    CLEANUP(bytes_done) struct bytes text = {0};
    add(EVENT(5, "a", "training", "layer 0 frozen at step 12", ""), 5);
    assert_int_equal(event_append_text(&list.events[0], false, &text), 0);
    assert_int_equal(bytes_append(&text, "", 1), 0);
    assert_non_null(strstr((char *)text.data, "  a        layer 0 frozen at step 12\n"));
}

static void test_an_alarm_begins_and_ends_in_words(void **state)
{
    static const struct {
        const char *text, *line;
    } cases[] = {{"the disk is full", "  a        alarm: the disk is full\n"},
                 {"alarm over: the disk is full", "  a        alarm over: the disk is full\n"},
                 {"the alarm is over", "  a        the alarm is over\n"}}; /* of an earlier firnd */

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CLEANUP(bytes_done) struct bytes text = {0};
        struct event event = {.unix_ns = 5, .node = "a", .kind = "alarm"};
        snprintf(event.text, sizeof(event.text), "%s", cases[i].text);
        assert_int_equal(event_append_text(&event, false, &text), 0);
        assert_int_equal(bytes_append(&text, "", 1), 0);
        assert_non_null(strstr((char *)text.data, cases[i].line));
    }
}

static void add_step(uint64_t step, uint64_t generation, uint64_t unix_ns, unsigned stages)
{
    char text[600];
    struct error error = {0};
    size_t size = metrics_line(&(struct line_values){.step = step,
                                                     .generation = generation,
                                                     .loss = 10 - (double)step,
                                                     .val_loss = step == 4 ? 2.5 : 0,
                                                     .frozen_layers = (unsigned)generation - 1,
                                                     .stages = stages,
                                                     .unix_ns = unix_ns},
                               text);
    assert_int_equal(history_add(&history, "a", text, size, NULL, &error), 0);
}

static int take_step(void *context, const struct history_step *step)
{
    return report_facts_take(context, step);
}

static void make_facts(struct report_facts *facts)
{
    report_facts_init(facts);
    assert_int_equal(history_hand_out(&history, UINT64_MAX, take_step, facts), 0);
    assert_int_equal(report_facts_finish(facts, &list), 0);
}

/* Generation 2 takes over after step 2; generation 3 begins at the checkpoint of step 2 again after
 * steps 3 and 4, so those two are lost; then it commits step 5. */
static void test_lost_steps_are_those_that_were_committed_and_computed_again(void **state)
{
    (void)state;
    struct report_facts facts;
    add_step(1, 1, 1000000000, 3);
    add_step(2, 1, 2000000000, 3);
    add_step(3, 2, 3000000000, 2);
    add_step(4, 2, 4000000000, 2);
    add_step(5, 3, 6000000000, 1);
    add(EVENT(2500000000, "a", "training", "generation 2 (node b (old) drains): 2 x 1, pause 5 ms",
              ",\"generation\":2,\"step\":2,\"pause_ms\":5.0")
            EVENT(5000000000, "a", "training",
                  "generation 3 (from the checkpoint of step 2): 1 x 1, pause 900 ms",
                  ",\"generation\":3,\"step\":2,\"pause_ms\":900.0")
                EVENT(5500000000, "a", "training", "layer 0 frozen at step 5",
                      ",\"generation\":3,\"step\":4,\"pause_ms\":900.0")
                    EVENT(5600000000, "a", "checkpoint", "checkpoint of step 2 committed", ""),
        5600000000);
    make_facts(&facts);
    assert_int_equal(facts.steps_committed, 5);
    assert_int_equal(facts.steps_lost, 2);
    assert_int_equal(facts.checkpoints, 1);
    assert_int_equal(facts.frozen_layers, 2);
    assert_true(facts.loss_first == 9 && facts.loss_last == 5);
    assert_true(facts.val_loss_first == 2.5 && facts.val_loss_last == 2.5);
    assert_true(facts.seconds == 5 && facts.tokens_per_second == 80);
    assert_int_equal(facts.generation_count, 3);
    assert_true(isnan(facts.generations[0].pause_ms));
    assert_int_equal(facts.generations[1].steps_lost, 0);
    assert_int_equal(facts.generations[1].first_step, 3);
    assert_string_equal(facts.generations[1].reason, "node b (old) drains");
    assert_int_equal(facts.generations[2].steps_lost, 2);
    assert_int_equal(facts.generations[2].stages, 1);
    assert_true(facts.generations[2].pause_ms == 900);
    report_facts_done(&facts);
}

static void test_one_lost_step_is_one(void **state)
{
    (void)state;
    struct report_facts facts;
    add_step(1, 1, 1000000000, 2);
    add_step(2, 1, 2000000000, 2);
    add_step(3, 2, 4000000000, 1);
    add(EVENT(3000000000, "a", "training", "generation 2 (x): 1 x 1, pause 5 ms",
              ",\"generation\":2,\"step\":1"),
        3000000000);
    make_facts(&facts);
    assert_int_equal(facts.steps_lost, 1);
    report_facts_done(&facts);
}

static void test_a_run_that_has_not_begun_has_no_facts(void **state)
{
    (void)state;
    struct report_facts facts;
    make_facts(&facts);
    assert_int_equal(facts.steps_committed, 0);
    assert_true(isnan(facts.loss_first) && isnan(facts.seconds));
    report_facts_done(&facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_events_are_merged_by_time_and_counted_once, teardown),
        cmocka_unit_test_teardown(test_a_printed_event_stays_printed, teardown),
        cmocka_unit_test_teardown(test_what_is_no_event_is_left_out, teardown),
        cmocka_unit_test_teardown(test_an_event_as_a_line, teardown),
        cmocka_unit_test_teardown(test_an_alarm_begins_and_ends_in_words, teardown),
        cmocka_unit_test_teardown(test_lost_steps_are_those_that_were_committed_and_computed_again,
                                  teardown),
        cmocka_unit_test_teardown(test_one_lost_step_is_one, teardown),
        cmocka_unit_test_teardown(test_a_run_that_has_not_begun_has_no_facts, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
