/*
 * Tests of step records: exact through bytes and JSON; a merge never chooses between two different
 * values.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "elastic/step/step_record.h"

static uint64_t bits(double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof(word));
    return word;
}

static void fill_strange(struct step_record *record)
{
    step_record_init(record, 9, 6, 4);
    record->evaluated = true;
    record->unit_squares[0] = -0.0;
    record->unit_squares[1] = INFINITY;
    record->unit_squares[2] = 5e-324;
    record->unit_squares[3] = step_record_known(NAN);
    record->unit_squares[4] = 0.1;
    record->lane_losses[0] = -INFINITY;
    record->lane_losses[2] = 1.7976931348623157e308;
    record->lane_validation_losses[3] = 2.5;
    record->has_similarities = true;
    record->similarities[0] = -0.0;
    record->similarities[STEP_RECORD_PAIRS - 1] = 0.75;
}

static void assert_same(const struct step_record *a, const struct step_record *b)
{
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->unit_count, b->unit_count);
    assert_int_equal(a->lane_count, b->lane_count);
    assert_int_equal(a->evaluated, b->evaluated);
    assert_int_equal(a->has_similarities, b->has_similarities);
    for (unsigned i = 0; a->has_similarities && i < STEP_RECORD_PAIRS; i++)
        assert_int_equal(bits(a->similarities[i]), bits(b->similarities[i]));
    for (unsigned i = 0; i < a->unit_count; i++)
        assert_int_equal(bits(a->unit_squares[i]), bits(b->unit_squares[i]));
    for (unsigned i = 0; i < a->lane_count; i++) {
        assert_int_equal(bits(a->lane_losses[i]), bits(b->lane_losses[i]));
        if (a->evaluated)
            assert_int_equal(bits(a->lane_validation_losses[i]),
                             bits(b->lane_validation_losses[i]));
    }
}

static void test_bytes_round_trip(void **state)
{
    (void)state;
    struct step_record record, back;
    struct bytes bytes = {0};
    fill_strange(&record);
    assert_int_equal(step_record_pack(&record, &bytes), 0);
    assert_int_equal(step_record_unpack(bytes.data, bytes.size_bytes, &back), 0);
    assert_same(&record, &back);
    bytes_done(&bytes);
}

static void test_json_round_trip(void **state)
{
    (void)state;
    struct step_record record, back;
    struct error error;
    fill_strange(&record);
    AUTO_JSON json_t *tree = step_record_encode(&record);
    AUTO_FREE char *text = json_text(tree);
    AUTO_JSON json_t *again = NULL;
    assert_int_equal(json_parse(text, strlen(text), "record", &again, &error), 0);
    assert_int_equal(step_record_decode(again, &back, &error), 0);
    assert_same(&record, &back);
}

static void test_bytes_of_any_other_size_are_refused(void **state)
{
    (void)state;
    struct step_record record, back;
    struct bytes bytes = {0};
    fill_strange(&record);
    assert_int_equal(step_record_pack(&record, &bytes), 0);
    for (size_t size = 0; size < bytes.size_bytes; size++)
        assert_int_equal(step_record_unpack(bytes.data, size, &back), -EBADMSG);
    assert_int_equal(bytes_append(&bytes, "", 1), 0);
    assert_int_equal(step_record_unpack(bytes.data, bytes.size_bytes, &back), -EBADMSG);
    bytes.size_bytes--;
    bytes_put_u32(bytes.data + 8, STEP_RECORD_UNITS_MAX + 1);
    assert_int_equal(step_record_unpack(bytes.data, bytes.size_bytes, &back), -EBADMSG);
    bytes_put_u32(bytes.data + 8, UINT32_MAX);
    assert_int_equal(step_record_unpack(bytes.data, bytes.size_bytes, &back), -EBADMSG);
    bytes_done(&bytes);
}

static void test_json_errors_name_the_key(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"{}", "step"},
        {"{\"step\":-1}", "step"},
        {"{\"step\":1,\"unit_squares\":[1.0],\"lane_losses\":[]}", "unit_squares"},
        {"{\"step\":1,\"unit_squares\":[\"7ff\"],\"lane_losses\":[]}", "unit_squares"},
        {"{\"step\":1,\"unit_squares\":[],\"lane_losses\":7}", "lane_losses"},
        {"{\"step\":1,\"unit_squares\":[],\"lane_losses\":[],"
         "\"lane_validation_losses\":[\"0000000000000000\"]}",
         "lane_validation_losses"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct step_record record;
        struct error error = {0};
        AUTO_JSON json_t *tree = json_loads(cases[i].text, 0, NULL);
        assert_int_equal(step_record_decode(tree, &record, &error), -EINVAL);
        assert_non_null(strstr(error.text, cases[i].named));
    }
}

static void test_merge_joins_what_parts_know(void **state)
{
    (void)state;
    struct step_record left, right, whole = {0};
    step_record_init(&left, 3, 2, 2);
    step_record_init(&right, 3, 2, 2);
    left.unit_squares[0] = 1;
    left.lane_losses[1] = 4;
    right.unit_squares[1] = 2;
    right.lane_losses[0] = 3;
    right.lane_losses[1] = 4; /* both records know the loss and agree */
    assert_false(step_record_complete(&left));
    assert_int_equal(step_record_merge(&whole, &left), 0);
    assert_int_equal(step_record_merge(&whole, &right), 0);
    assert_true(step_record_complete(&whole));
    assert_true(whole.unit_squares[0] == 1 && whole.unit_squares[1] == 2);
    assert_true(whole.lane_losses[0] == 3 && whole.lane_losses[1] == 4);
    struct step_record empty = {0};
    assert_int_equal(step_record_merge(&whole, &empty), 0);
    assert_true(step_record_complete(&whole));
    assert_false(step_record_complete(&empty));
}

static void test_merge_takes_the_evaluation_from_either(void **state)
{
    (void)state;
    struct step_record plain, evaluated;
    step_record_init(&plain, 1, 1, 1);
    step_record_init(&evaluated, 1, 1, 1);
    plain.unit_squares[0] = plain.lane_losses[0] = 1;
    plain.lane_validation_losses[0] = 77; /* not a value while not evaluated */
    evaluated.evaluated = true;
    assert_true(step_record_complete(&plain));
    assert_int_equal(step_record_merge(&plain, &evaluated), 0);
    assert_false(step_record_complete(&plain));
    evaluated.lane_validation_losses[0] = 5;
    assert_int_equal(step_record_merge(&plain, &evaluated), 0);
    assert_true(step_record_complete(&plain));
    assert_true(plain.lane_validation_losses[0] == 5);
}

static void test_merge_takes_the_measurement_from_either(void **state)
{
    (void)state;
    struct step_record loss, similarities;
    step_record_init(&loss, 1, 1, 1);
    step_record_init(&similarities, 1, 1, 1);
    loss.unit_squares[0] = loss.lane_losses[0] = loss.lane_validation_losses[0] = 1;
    loss.evaluated = similarities.evaluated = similarities.has_similarities = true;
    loss.similarities[3] = 77; /* not a value while not measured */
    for (unsigned i = 1; i < STEP_RECORD_PAIRS; i++)
        similarities.similarities[i] = i;
    assert_int_equal(step_record_merge(&loss, &similarities), 0);
    assert_true(loss.has_similarities && !step_record_complete(&loss));
    similarities.similarities[0] = 0.5;
    assert_int_equal(step_record_merge(&loss, &similarities), 0);
    assert_true(step_record_complete(&loss));
    assert_true(loss.similarities[3] == 3);
    similarities.similarities[0] = 0.25;
    assert_int_equal(step_record_merge(&loss, &similarities), -EBADMSG);
}

static void test_merge_refuses_a_conflict_and_changes_nothing(void **state)
{
    (void)state;
    struct step_record a, b, before;
    step_record_init(&a, 3, 2, 1);
    step_record_init(&b, 3, 2, 1);
    b.unit_squares[0] = 8; /* must not be merged: the conflict comes later */
    a.lane_losses[0] = 0.0;
    b.lane_losses[0] = -0.0; /* equal as numbers, not as bits */
    before = a;
    assert_int_equal(step_record_merge(&a, &b), -EBADMSG);
    assert_same(&a, &before);

    static const unsigned shapes[][3] = {{4, 2, 1}, {3, 1, 1}, {3, 2, 2}};
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        step_record_init(&b, shapes[i][0], shapes[i][1], shapes[i][2]);
        assert_int_equal(step_record_merge(&a, &b), -EBADMSG);
        assert_same(&a, &before);
    }
}

/* A run that diverges must still be able to commit: its NaN is a value, the same on every rank. */
static void test_a_computed_nan_is_known(void **state)
{
    (void)state;
    struct step_record record, other;
    assert_false(step_record_is_known(step_record_unknown()));
    assert_true(step_record_is_known(step_record_known(NAN)));
    assert_int_equal(bits(step_record_known(NAN)), bits(step_record_known(-NAN)));
    assert_int_equal(bits(step_record_known(-0.0)), bits(-0.0));
    step_record_init(&record, 1, 1, 1);
    record.unit_squares[0] = step_record_known(INFINITY - INFINITY);
    record.lane_losses[0] = step_record_known(NAN);
    assert_true(step_record_complete(&record));
    other = record;
    assert_int_equal(step_record_merge(&record, &other), 0);
    assert_true(isnan(step_record_norm(&record)));
    assert_int_equal(bits(step_record_norm(&record)), bits(step_record_known(NAN)));
    assert_int_equal(bits(step_record_loss(&record, 3)), bits(step_record_known(NAN)));
}

static void test_sums_are_in_order(void **state)
{
    (void)state;
    struct step_record record;
    step_record_init(&record, 1, 3, 3);
    static const double values[] = {1e16, 1.0, -1e16}; /* another order gives another sum */
    memcpy(record.lane_losses, values, sizeof(values));
    memcpy(record.lane_validation_losses, values, sizeof(values));
    record.unit_squares[0] = 9;
    record.unit_squares[1] = 16;
    record.unit_squares[2] = 0;
    assert_true(step_record_loss(&record, 2) == ((1e16 + 1.0) - 1e16) / 2);
    assert_true(step_record_validation_loss(&record, 4) == ((1e16 + 1.0) - 1e16) / 4);
    assert_true(step_record_norm(&record) == 5);
}

static void test_nothing_counts(void **state)
{
    (void)state;
    struct step_record record;
    step_record_init(&record, 1, 1, 2);
    record.unit_squares[0] = 0;
    for (unsigned lane = 0; lane < 2; lane++)
        record.lane_losses[lane] = record.lane_validation_losses[lane] = 0;
    assert_true(step_record_finite(&record));
    assert_int_equal(bits(step_record_loss(&record, 0)), 0);
    assert_int_equal(bits(step_record_validation_loss(&record, 0)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_round_trip),
        cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_bytes_of_any_other_size_are_refused),
        cmocka_unit_test(test_json_errors_name_the_key),
        cmocka_unit_test(test_merge_joins_what_parts_know),
        cmocka_unit_test(test_merge_takes_the_evaluation_from_either),
        cmocka_unit_test(test_merge_takes_the_measurement_from_either),
        cmocka_unit_test(test_merge_refuses_a_conflict_and_changes_nothing),
        cmocka_unit_test(test_a_computed_nan_is_known),
        cmocka_unit_test(test_sums_are_in_order),
        cmocka_unit_test(test_nothing_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
