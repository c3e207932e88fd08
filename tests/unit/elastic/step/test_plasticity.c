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
    float rows[PLASTICITY_ROWS][WIDTH] = {{3, 0, 0}, {5, 0, 0}, {0, 2, 0}, {-1, 1, 0}};
    double similarities[STEP_RECORD_PAIRS];

    (void)state;
    plasticity_similarities(&rows[0][0], WIDTH, similarities);
    assert_true(similarities[0] == 1);                         /* rows 1 and 0: one direction */
    assert_true(similarities[1] == 0 && similarities[2] == 0); /* row 2: at right angles to both */
    assert_true(is_close(similarities[3], -sqrt(0.5)));        /* row 3 and row 0 */
    assert_true(is_close(similarities[5], sqrt(0.5)));         /* row 3 and row 2 */
    for (unsigned pair = 6; pair < STEP_RECORD_PAIRS; pair++)
        assert_true(similarities[pair] == 0); /* rows of zeros have no direction */
}

static void test_what_is_no_number_is_known(void **state)
{
    float rows[PLASTICITY_ROWS][WIDTH] = {{1, 0, 0}, {NAN, 0, 0}};
    double similarities[STEP_RECORD_PAIRS];

    (void)state;
    plasticity_similarities(&rows[0][0], WIDTH, similarities);
    assert_true(isnan(similarities[0]) && step_record_is_known(similarities[0]));
}

/* A measurement whose similarities all have moved by the root of @squared_difference. */
static bool measure(struct plasticity *plasticity, double squared_difference)
{
    double similarities[STEP_RECORD_PAIRS];

    for (unsigned i = 0; i < STEP_RECORD_PAIRS; i++)
        similarities[i] = plasticity->before[i] + sqrt(squared_difference);
    return plasticity_measured(plasticity, similarities, TOLERANCE, PATIENCE);
}

static void test_a_layer_that_has_calmed_down_is_to_freeze(void **state)
{
    struct plasticity plasticity;

    (void)state;
    plasticity_init(&plasticity);
    assert_false(measure(&plasticity, 4)); /* the first one compares nothing */
    assert_true(plasticity.last < 0);
    assert_false(measure(&plasticity, 1));
    assert_true(is_close(plasticity.last, 1));
    assert_false(measure(&plasticity, 0.5));
    assert_false(measure(&plasticity, 0.2)); /* within a quarter of 1: once */
    assert_false(measure(&plasticity, 0.3)); /* and not in a row */
    assert_false(measure(&plasticity, 0.2));
    assert_true(measure(&plasticity, 0.01));
}

/* The next layer is compared with the largest plasticity of all, and at first with nothing. */
static void test_the_next_layer_begins_anew(void **state)
{
    struct plasticity plasticity;

    (void)state;
    plasticity_init(&plasticity);
    (void)measure(&plasticity, 1);
    (void)measure(&plasticity, 1);
    (void)measure(&plasticity, 0.01);
    assert_true(measure(&plasticity, 0.01));
    plasticity_next_layer(&plasticity);
    assert_false(measure(&plasticity, 0.2));
    assert_false(measure(&plasticity, 0.2));
    assert_true(measure(&plasticity, 0.2));
}

static void test_what_is_no_number_begins_anew(void **state)
{
    struct plasticity plasticity;

    (void)state;
    plasticity_init(&plasticity);
    (void)measure(&plasticity, 1);
    (void)measure(&plasticity, 1);
    (void)measure(&plasticity, 0.1);
    assert_int_equal(plasticity.calm, 1);
    assert_false(measure(&plasticity, (double)NAN));
    assert_false(plasticity.has_before);
    assert_int_equal(plasticity.calm, 0);
    assert_true(plasticity.most < 1.1);
}

static void test_round_trip_continues_the_same(void **state)
{
    struct plasticity plasticity, back;
    struct error error = {0};

    (void)state;
    for (unsigned measurements = 0; measurements < 4; measurements++) {
        plasticity_init(&plasticity);
        for (unsigned i = 0; i < measurements; i++)
            (void)measure(&plasticity, 0.7 / (i + 1));
        AUTO_JSON json_t *tree = plasticity_encode(&plasticity);
        assert_non_null(tree);
        assert_int_equal(plasticity_decode(tree, &back, &error), 0);
        assert_memory_equal(&back.last, &plasticity.last, sizeof(back.last));
        assert_memory_equal(&back.most, &plasticity.most, sizeof(back.most));
        assert_int_equal(back.calm, plasticity.calm);
        assert_int_equal(back.has_before, plasticity.has_before);
        if (back.has_before)
            assert_memory_equal(back.before, plasticity.before, sizeof(back.before));
    }
}

static void test_decode_refuses(void **state)
{
    static const char *const broken[] = {
        "{}",
        "{\"before\":[\"0000000000000000\"],\"last\":\"0000000000000000\","
        "\"most\":\"0000000000000000\",\"calm\":0}",
        "{\"before\":[],\"last\":1,\"most\":\"0000000000000000\",\"calm\":0}",
        "{\"before\":[],\"last\":\"0000000000000000\",\"most\":\"x\",\"calm\":0}",
        "{\"before\":[],\"last\":\"0000000000000000\",\"most\":\"0000000000000000\",\"calm\":-1}",
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
        cmocka_unit_test(test_what_is_no_number_is_known),
        cmocka_unit_test(test_a_layer_that_has_calmed_down_is_to_freeze),
        cmocka_unit_test(test_the_next_layer_begins_anew),
        cmocka_unit_test(test_what_is_no_number_begins_anew),
        cmocka_unit_test(test_round_trip_continues_the_same),
        cmocka_unit_test(test_decode_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
