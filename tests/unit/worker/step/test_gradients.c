/*
 * Tests of the stack of gradient buffers against the naive way: keep every lane's gradient, and add
 * the lanes in the order of the tree. All lane counts to 13, all ranges: the same subtrees with the
 * same bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/worker/tiny_state.h"

#include "base/philox.h"
#include "worker/step/gradients.h"

#define LANES_MAX     13
#define MICRO_BATCHES 2
#define ELEMENTS_MAX  1024

/* Make magnitudes far apart, so that almost every other order of additions gives other bits. */
static void make_gradient(unsigned unit, unsigned lane, unsigned micro_batch, float *values,
                          size_t count)
{
    struct philox_key key = philox_key_make(3, unit);

    for (size_t i = 0; i < count; i++) {
        uint32_t words[4];
        philox_block(key, i, lane * 100 + micro_batch, words);
        values[i] = ((float)(words[0] >> 8) / 8388608.0f - 1.0f) * (float)(1u << (words[1] % 24));
    }
}

static void naive_lane(unsigned unit, unsigned lane, float *sum, size_t count)
{
    float values[ELEMENTS_MAX];

    memset(sum, 0, count * sizeof(float));
    for (unsigned m = 0; m < MICRO_BATCHES; m++) {
        make_gradient(unit, lane, m, values, count);
        for (size_t i = 0; i < count; i++)
            sum[i] += values[i];
    }
}

static void naive_sum(unsigned unit, struct lane_tree_span span, float *sum, size_t count)
{
    struct lane_tree_span left, right;
    float other[ELEMENTS_MAX];

    if (span.count == 1) {
        naive_lane(unit, span.first, sum, count);
        return;
    }
    lane_tree_children(span, &left, &right);
    naive_sum(unit, left, sum, count);
    naive_sum(unit, right, other, count);
    for (size_t i = 0; i < count; i++)
        sum[i] += other[i];
}

/*
 * Process one unit as the pipeline does: lane after lane, each lane accumulates its micro-batches.
 */
static void run_lanes(struct gradients *gradients, unsigned unit, struct lane_tree_span lanes,
                      size_t count)
{
    float values[ELEMENTS_MAX];

    for (unsigned lane = lanes.first; lane < lanes.first + lanes.count; lane++) {
        for (unsigned m = 0; m < MICRO_BATCHES; m++) {
            float *buffer = gradients_buffer(gradients, unit, lane, m == 0);
            make_gradient(unit, lane, m, values, count);
            for (size_t i = 0; i < count; i++)
                buffer[i] += values[i];
        }
        gradients_lane_done(gradients, unit, lane);
    }
}

static void check_range(const struct state *state, unsigned lanes, struct lane_tree_span range)
{
    const unsigned first_unit = 2, unit_count = 2;
    struct lane_tree_span subtrees[LANE_TREE_SUBTREES_MAX];
    struct gradients *gradients = NULL;
    struct error error = {0};
    float expected[ELEMENTS_MAX];

    assert_int_equal(gradients_new(state, first_unit, unit_count, lanes, range, &gradients, &error),
                     0);
    for (unsigned again = 0; again < 2; again++) /* a second step has no remainder of the first */
        for (unsigned unit = first_unit; unit < first_unit + unit_count; unit++) {
            size_t count = state->units[unit].layout.count;
            assert_true(count <= ELEMENTS_MAX);
            run_lanes(gradients, unit, range, count);
            uint16_t owners[LANE_TREE_LANES_MAX] = {0};
            lane_tree_own(owners, range, 1);
            unsigned subtree_count =
                lane_tree_subtrees(lanes, owners, 1, subtrees, LANE_TREE_SUBTREES_MAX);
            float *const *sums = gradients_subtrees(gradients, unit);
            for (unsigned i = 0; i < subtree_count; i++) {
                naive_sum(unit, subtrees[i], expected, count);
                assert_memory_equal(sums[i], expected, count * sizeof(float));
            }
            assert_ptr_equal(gradients_reduced(gradients)[unit - first_unit], sums[0]);
        }
    gradients_free(gradients);
}

static void test_all_ranges(void **state)
{
    struct tiny_state tiny;

    (void)state;
    tiny_state_init(&tiny, true);
    for (unsigned lanes = 1; lanes <= LANES_MAX; lanes++)
        for (unsigned first = 0; first < lanes; first++)
            for (unsigned count = 1; first + count <= lanes; count++)
                check_range(tiny.state, lanes, (struct lane_tree_span){first, count});
    tiny_state_done(&tiny);
}

/* Lanes of two units interleave in a pipeline: each unit has its own stack. */
static void test_units_do_not_mix(void **state)
{
    const struct lane_tree_span all = {0, 5};
    struct gradients *gradients = NULL;
    struct tiny_state tiny;
    struct error error = {0};
    float expected[ELEMENTS_MAX], values[ELEMENTS_MAX];

    (void)state;
    tiny_state_init(&tiny, true);
    assert_int_equal(gradients_new(tiny.state, 2, 2, 5, all, &gradients, &error), 0);
    for (unsigned lane = 0; lane < 5; lane++)
        for (unsigned unit = 4; unit-- > 2;) {
            size_t count = tiny.state->units[unit].layout.count;
            for (unsigned m = 0; m < MICRO_BATCHES; m++) {
                float *buffer = gradients_buffer(gradients, unit, lane, m == 0);
                make_gradient(unit, lane, m, values, count);
                for (size_t i = 0; i < count; i++)
                    buffer[i] += values[i];
            }
            gradients_lane_done(gradients, unit, lane);
        }
    for (unsigned unit = 2; unit < 4; unit++) {
        size_t count = tiny.state->units[unit].layout.count;
        naive_sum(unit, all, expected, count);
        assert_memory_equal(gradients_subtrees(gradients, unit)[0], expected,
                            count * sizeof(float));
    }
    gradients_free(gradients);
    tiny_state_done(&tiny);
}

/* Frozen units have no gradient, so they take no memory. */
static void test_frozen_units_take_nothing(void **state)
{
    struct gradients *gradients = NULL;
    struct tiny_state tiny;
    struct error error = {0};

    (void)state;
    tiny_state_init(&tiny, true);
    tiny.state->freeze.frozen_layers = 1; /* units 0, 1 and 2 */
    assert_int_equal(
        gradients_new(tiny.state, 1, 4, 8, (struct lane_tree_span){0, 8}, &gradients, &error), 0);
    assert_null(gradients_reduced(gradients)[0]);
    assert_null(gradients_reduced(gradients)[1]);
    assert_non_null(gradients_reduced(gradients)[2]);
    assert_non_null(gradients_reduced(gradients)[3]);
    gradients_free(gradients);
    gradients_free(NULL);
    tiny_state_done(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranges),
        cmocka_unit_test(test_units_do_not_mix),
        cmocka_unit_test(test_frozen_units_take_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
