/* Tests of plasticity: similarities that can be computed by hand, and when a layer has calmed down.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "elastic/step/plasticity.h"

#define WIDTH     3
#define TOLERANCE 0.25
#define PATIENCE  2

static bool is_close(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

static void test_similarities_are_cosines(void **state)
{
    float inputs[PLASTICITY_ROWS][WIDTH] = {{0}};
    float rows[PLASTICITY_ROWS][WIDTH] = {{3, 0, 0}, {5, 0, 0}, {0, 2, 0}, {-1, 1, 0}};
    double similarities[STEP_RECORD_PAIRS];

    (void)state;
    for (unsigned i = 0; i < PLASTICITY_ROWS; i++) /* the stream is not the layer's own */
        for (unsigned k = 0; k < WIDTH; k++) {
            inputs[i][k] = (float)(i + 7 * k);
            rows[i][k] += inputs[i][k];
        }
    plasticity_similarities(&inputs[0][0], &rows[0][0], WIDTH, similarities);
    assert_true(similarities[0] == 1);                         /* rows 1 and 0: one direction */
    assert_true(similarities[1] == 0 && similarities[2] == 0); /* row 2: at right angles to both */
    assert_true(is_close(similarities[3], -sqrt(0.5)));        /* rows 3 and 0 */
    assert_true(is_close(similarities[5], sqrt(0.5)));         /* rows 3 and 2 */
    for (unsigned pair = 6; pair < STEP_RECORD_PAIRS; pair++)
        assert_true(similarities[pair] == 0); /* rows of zeros have no direction */
}

static void test_a_cosine_that_is_no_number_is_known(void **state)
{
    float inputs[PLASTICITY_ROWS][WIDTH] = {{0}};
    float rows[PLASTICITY_ROWS][WIDTH] = {{1, 0, 0}, {NAN, 0, 0}};
    double similarities[STEP_RECORD_PAIRS];

    (void)state;
    plasticity_similarities(&inputs[0][0], &rows[0][0], WIDTH, similarities);
    assert_true(isnan(similarities[0]) && step_record_is_known(similarities[0]));
}

/* Take a measurement in which all similarities have moved by the root of @plasticity. */
static bool calm_after(struct plasticity *state, double plasticity)
{
    double similarities[STEP_RECORD_PAIRS];

    for (unsigned i = 0; i < STEP_RECORD_PAIRS; i++)
        similarities[i] = state->before[i] + sqrt(plasticity);
    plasticity_take(state, similarities);
    return plasticity_is_calm(state, PATIENCE, TOLERANCE);
}

static void test_a_layer_is_calm_when_its_plasticity_is_stationary(void **state)
{
    struct plasticity plasticity;

    (void)state;
    plasticity_init(&plasticity);
    assert_false(calm_after(&plasticity, 4)); /* compares nothing */
    assert_true(plasticity.shown == 0);
    assert_false(calm_after(&plasticity, 1));
    assert_true(is_close(plasticity.shown, 1));
    assert_false(calm_after(&plasticity, 0.6));
    assert_false(calm_after(&plasticity, 0.6)); /* too few */
    assert_false(calm_after(&plasticity, 0.4)); /* 1.6 and 1.0: falls */
    assert_false(calm_after(&plasticity, 0.4)); /* 1.2 and 0.8 */
    assert_true(calm_after(&plasticity, 0.6));  /* 1.0 and 1.0 */
    assert_false(calm_after(&plasticity, 1));   /* 0.8 and 1.6: rises, as in a warm-up */
    assert_false(calm_after(&plasticity, 1));
    assert_true(calm_after(&plasticity, 1)); /* 1.6 and 2.0 */
}

/* Steps that are skipped change nothing, and say nothing of the layer. */
static void test_without_a_change_nothing_is_measured(void **state)
{
    struct plasticity plasticity;

    (void)state;
    plasticity_init(&plasticity);
    (void)calm_after(&plasticity, 1);
    for (unsigned i = 0; i < 9; i++)
        assert_false(calm_after(&plasticity, 0));
    assert_int_equal(plasticity.count, 0);
    for (unsigned i = 0; i < 2 * PATIENCE - 1; i++)
        assert_false(calm_after(&plasticity, 0.25));
    assert_false(calm_after(&plasticity, 0));
    assert_true(plasticity.shown == 0);
    assert_true(calm_after(&plasticity, 0.25));
}

static void test_a_measurement_that_is_no_number_begins_anew(void **state)
{
    struct plasticity plasticity;

    (void)state;
    plasticity_init(&plasticity);
    for (unsigned i = 0; i < 2 * PATIENCE + 1; i++)
        (void)calm_after(&plasticity, 1);
    assert_true(plasticity_is_calm(&plasticity, PATIENCE, TOLERANCE));
    assert_false(calm_after(&plasticity, (double)NAN));
    assert_false(plasticity.has_before);
    assert_int_equal(plasticity.count, 0);
}

static void test_round_trip_continues_the_same(void **state)
{
    struct plasticity plasticity, back;
    struct error error = {0};

    (void)state;
    for (unsigned measurements = 0; measurements < 50; measurements += 7) {
        plasticity_init(&plasticity);
        for (unsigned i = 0; i < measurements; i++)
            (void)calm_after(&plasticity, 0.7 / (i + 1));
        AUTO_JSON json_t *tree = plasticity_encode(&plasticity);
        assert_non_null(tree);
        assert_int_equal(plasticity_decode(tree, &back, &error), 0);
        assert_int_equal(back.count, plasticity.count);
        assert_memory_equal(back.values, plasticity.values, back.count * sizeof(double));
        assert_int_equal(back.has_before, plasticity.has_before);
        if (back.has_before)
            assert_memory_equal(back.before, plasticity.before, sizeof(back.before));
    }
}

static void test_decode_refuses(void **state)
{
    static const char *const broken[] = {
        "{}",
        "{\"before\":[\"0000000000000000\"],\"values\":[]}",
        "{\"before\":[],\"values\":[1]}",
        "{\"before\":[],\"values\":[\"3ff0000000000000\"]}",
        "{\"before\":[],\"values\":[\"7ff0000000000000\"]}",
        "{\"before\":[],\"values\":[\"000000000000000\"]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        AUTO_JSON json_t *tree = json_loads(broken[i], 0, NULL);
        struct plasticity plasticity;
        struct error error = {0};
        assert_non_null(tree);
        assert_int_equal(plasticity_decode(tree, &plasticity, &error), -EINVAL);
        assert_string_not_equal(error.text, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_similarities_are_cosines),
        cmocka_unit_test(test_a_cosine_that_is_no_number_is_known),
        cmocka_unit_test(test_a_layer_is_calm_when_its_plasticity_is_stationary),
        cmocka_unit_test(test_without_a_change_nothing_is_measured),
        cmocka_unit_test(test_a_measurement_that_is_no_number_begins_anew),
        cmocka_unit_test(test_round_trip_continues_the_same),
        cmocka_unit_test(test_decode_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
