/* Tests of reports: through JSON and back, and refused if they contradict themselves. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/json.h"
#include "lib/elastic/sample_report.h"

static void test_worker_round_trip(void **state)
{
    (void)state;
    struct worker_report report, back;
    struct error error = {0};
    sample_report(&report, 5);
    AUTO_JSON json_t *tree = worker_report_encode(&report);
    assert_int_equal(worker_report_decode(tree, &back, &error), 0);
    AUTO_JSON json_t *again = worker_report_encode(&back);
    assert_true(json_equal(tree, again));
    assert_true(back.instance == report.instance);
    assert_int_equal(back.phase, WORKER_STUCK);
    assert_int_equal(back.held_first_unit, 2);
    assert_int_equal(back.held_unit_count, 4);
    assert_int_equal(back.old_unit_count, 3);
    assert_int_equal(back.extra_count, 2);
    assert_int_equal(back.extras[0].first, 7);
    assert_int_equal(back.extras[0].count, 2);
    assert_true(back.extras[0].shadows);
    assert_false(back.extras[1].shadows);
    assert_int_equal(back.unreached_count, 2);
    assert_int_equal(back.unreached[1], 5);
    assert_true(back.holds);
    assert_true(back.record.unit_squares[2] == 0.1);
    assert_false(step_record_is_known(back.record.unit_squares[3]));
    assert_string_equal(back.lost[1], "b/1");
    assert_string_equal(back.text, report.text);
}

/* Programs of control 1 use the same words, and understand them. */
static void test_every_cause_has_a_word(void **state)
{
    static const char *const words[] = {"checkpoint_lost", "checkpoint_away", "state_disputed",
                                        "diverged", "crashed"};
    struct error error = {0};

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(words); i++) {
        const enum worker_cause cause = (enum worker_cause)(CAUSE_NONE + 1 + i);
        struct worker_report report = {.phase = WORKER_STUCK, .cause = cause}, back;
        AUTO_JSON json_t *tree = worker_report_encode(&report);
        assert_int_equal(worker_report_decode(tree, &back, &error), 0);
        assert_int_equal(back.cause, cause);
        assert_string_equal(json_string_value(json_object_get(tree, "cause")), words[i]);
        assert_true(json_is_true(json_object_get(tree, words[i])));

        assert_int_equal(json_object_del(tree, "cause"), 0);
        assert_int_equal(worker_report_decode(tree, &back, &error), 0);
        assert_int_equal(back.cause, cause);
        assert_int_equal(json_object_set_new(tree, words[i], json_integer(1)), 0);
        assert_int_equal(worker_report_decode(tree, &back, &error), -EINVAL);
        assert_non_null(strstr(error.text, words[i]));
        assert_int_equal(json_object_del(tree, words[i]), 0);
        assert_int_equal(worker_report_decode(tree, &back, &error), 0);
        assert_int_equal(back.cause, CAUSE_NONE);
    }
}

static void test_a_cause_of_a_newer_program_is_none(void **state)
{
    struct worker_report report = {.phase = WORKER_STUCK}, back;
    struct error error = {0};

    (void)state;
    AUTO_JSON json_t *tree = worker_report_encode(&report);
    assert_null(json_object_get(tree, "cause"));
    assert_int_equal(json_object_set_new(tree, "cause", json_string("stars")), 0);
    assert_int_equal(worker_report_decode(tree, &back, &error), 0);
    assert_int_equal(back.cause, CAUSE_NONE);
    assert_int_equal(json_object_set_new(tree, "cause", json_true()), 0);
    assert_int_equal(worker_report_decode(tree, &back, &error), -EINVAL);
    assert_non_null(strstr(error.text, "cause"));
}

static void test_every_phase_has_a_word(void **state)
{
    (void)state;
    for (unsigned phase = WORKER_STARTING; phase <= WORKER_BAD; phase++) {
        struct worker_report report = {.phase = (enum worker_phase)phase}, back;
        AUTO_JSON json_t *tree = worker_report_encode(&report);
        assert_int_equal(worker_report_decode(tree, &back, NULL), 0);
        assert_int_equal(back.phase, phase);
        assert_int_equal(back.record.step, 0);
    }
    assert_string_equal(worker_phase_word(WORKER_PREPARED), "prepared");
}

/* The last output of a dying program may be any bytes. */
static void test_text_that_is_not_utf8(void **state)
{
    (void)state;
    struct worker_report report = {.text = "oops \xff\xfe"}, back;
    AUTO_JSON json_t *tree = worker_report_encode(&report);
    assert_int_equal(worker_report_decode(tree, &back, NULL), 0);
    assert_string_equal(back.text, "oops ??");
}

static void test_worker_refusals_name_the_key(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *named;
    } cases[] = {
        {"slot", "64", "slot"},
        {"slot", "\"a\"", "slot"},
        {"instance", "\"12\"", "instance"},
        {"instance", "\"000000000000000g\"", "instance"},
        {"phase", "\"asleep\"", "phase"},
        {"generation", "-1", "generation"},
        {"applied_step", "9223372036854775807", "applied_step"},
        {"held", "[1]", "held"},
        {"held", "[-1,1]", "held"},
        {"held", "[2,513]", "held"},
        {"held", "[515,0]", "held"},
        {"old", "[0,1,2]", "old"},
        {"old", "{}", "old"},
        {"extras", "1", "extras"},
        {"unreached", "1", "unreached"},
        {"unreached", "[\"b/0\"]", "unreached"},
        {"unreached", "[-1]", "unreached"},
        {"unreached", "[8192]", "unreached"},
        {"extras", "[[0,1]]", "extras"},
        {"extras", "[[0,1,1]]", "extras"},
        {"extras", "[[514,1,true]]", "extras"},
        {"holds", "1", "holds"},
        {"frozen_layers", "515", "frozen_layers"},
        {"text", "null", "text"},
        {"lost", "[1]", "lost"},
        {"lost", "[\"0123456789012345678901234567890123456789012345678901234567890123456789012\"]",
         "lost"},
        {"record", "{}", "record"},
        {"applied_step", "40", "instead of 41"},
        {"holds", "false", "instead of 41"},
    };
    struct worker_report report, back;
    sample_report(&report, 0);
    AUTO_JSON json_t *whole = worker_report_encode(&report);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct error error = {0};
        AUTO_JSON json_t *tree = json_deep_copy(whole);
        json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
        assert_int_equal(json_object_set_new(tree, cases[i].key, value), 0);
        assert_int_equal(worker_report_decode(tree, &back, &error), -EINVAL);
        if (!strstr(error.text, cases[i].named))
            fail_msg("\"%s\" does not name \"%s\"", error.text, cases[i].named);
    }
}

static void test_missing_keys(void **state)
{
    (void)state;
    static const char *const rare[] = {"record", "extras", "unreached", "root"};
    struct worker_report report, back;
    sample_report(&report, 0);
    AUTO_JSON json_t *whole = worker_report_encode(&report);
    const char *key;
    json_t *value;
    json_object_foreach(whole, key, value)
    {
        struct error error = {0};
        AUTO_JSON json_t *tree = json_deep_copy(whole);
        assert_int_equal(json_object_del(tree, key), 0);
        bool needed = true;
        for (size_t i = 0; i < ARRAY_COUNT(rare); i++)
            needed = needed && strcmp(key, rare[i]) != 0;
        assert_int_equal(worker_report_decode(tree, &back, &error), needed ? -EINVAL : 0);
    }
}

static void test_an_applied_record_must_be_complete(void **state)
{
    (void)state;
    struct worker_report report, back;
    struct error error = {0};
    sample_report(&report, 0);
    report.holds = false;
    report.applied_step = 42;
    AUTO_JSON json_t *partial = worker_report_encode(&report);
    assert_int_equal(worker_report_decode(partial, &back, &error), -EINVAL);
    assert_non_null(strstr(error.text, "not complete"));
    memset(report.record.unit_squares, 0, sizeof(report.record.unit_squares));
    memset(report.record.lane_losses, 0, sizeof(report.record.lane_losses));
    AUTO_JSON json_t *complete = worker_report_encode(&report);
    assert_int_equal(worker_report_decode(complete, &back, &error), 0);
}

static void test_node_round_trip(void **state)
{
    (void)state;
    struct node_report *report = calloc(1, sizeof(*report));
    struct node_report *back = calloc(1, sizeof(*back));
    struct error error = {0};
    strcpy(report->node, "a");
    report->generation = 3;
    report->worker_count = REPORT_WORKERS_MAX;
    for (unsigned i = 0; i < report->worker_count; i++)
        sample_report(&report->workers[i], REPORT_WORKERS_MAX - 1 - i);
    AUTO_JSON json_t *tree = node_report_encode(report);
    assert_int_equal(node_report_decode(tree, back, &error), 0);
    AUTO_JSON json_t *again = node_report_encode(back);
    assert_true(json_equal(tree, again));

    report->workers[1].slot = report->workers[0].slot;
    AUTO_JSON json_t *twice = node_report_encode(report);
    assert_int_equal(node_report_decode(twice, back, &error), -EINVAL);
    assert_non_null(strstr(error.text, "slot 63 is reported twice"));

    report->workers[1].slot = REPORT_WORKERS_MAX;
    AUTO_JSON json_t *outside = node_report_encode(report);
    assert_int_equal(node_report_decode(outside, back, &error), -EINVAL);
    assert_non_null(strstr(error.text, "workers[1]: \"slot\""));

    report->worker_count = 0;
    strcpy(report->node, "A B");
    AUTO_JSON json_t *unnamed = node_report_encode(report);
    assert_int_equal(node_report_decode(unnamed, back, &error), -EINVAL);
    free(report);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worker_round_trip),
        cmocka_unit_test(test_every_cause_has_a_word),
        cmocka_unit_test(test_a_cause_of_a_newer_program_is_none),
        cmocka_unit_test(test_every_phase_has_a_word),
        cmocka_unit_test(test_text_that_is_not_utf8),
        cmocka_unit_test(test_worker_refusals_name_the_key),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_an_applied_record_must_be_complete),
        cmocka_unit_test(test_node_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
