/* Tests of the outputs of frozen layers that are loaded, kept, continued and given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/cache/frozen_outputs.h"

#define SAMPLES  40
#define ELEMENTS 16
#define BUDGET   ((uint64_t)1 << 20)
#define LONG_NS  1000000000ull /* a computation that any disk beats */
#define MEASURED 15

static char parent[64], folder[96];
static float buffers[8][ELEMENTS]; /* by units */

static int set_up(void **state)
{
    (void)state;
    snprintf(parent, sizeof(parent), "/tmp/firn-frozen-XXXXXX");
    assert_non_null(mkdtemp(parent));
    snprintf(folder, sizeof(folder), "%s/frozen", parent);
    return 0;
}

static unsigned count_files(void)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    if (!directory)
        return 0;
    for (const struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static int tear_down(void **state)
{
    struct frozen_outputs *outputs = frozen_outputs_new(folder, "n", BUDGET);
    (void)state;
    frozen_outputs_finish(outputs);
    frozen_outputs_free(outputs);
    assert_int_equal(count_files(), 0);
    return rmdir(parent);
}

static struct frozen_outputs_part part_of(unsigned unit_count)
{
    return (struct frozen_outputs_part){.weights = {1, unit_count},
                                        .data = {2, 3},
                                        .unit_count = unit_count,
                                        .sample_count = SAMPLES,
                                        .sample_bytes = sizeof(buffers[0])};
}

static void *at(void *context, unsigned unit_count)
{
    (void)context;
    return buffers[unit_count];
}

static unsigned load(struct frozen_outputs *outputs, uint64_t index)
{
    const struct frozen_outputs_target target = {at, NULL};
    return frozen_outputs_load(outputs, index, &target);
}

static float value_of(uint64_t index, unsigned unit_count)
{
    return (float)index * 10 + (float)unit_count;
}

static void keep(struct frozen_outputs *outputs, uint64_t index, unsigned from, unsigned unit_count,
                 uint64_t took_ns)
{
    float output[ELEMENTS];
    for (unsigned i = 0; i < ELEMENTS; i++)
        output[i] = value_of(index, unit_count);
    if (!frozen_outputs_keeps(outputs, index)) {
        frozen_outputs_pass(outputs, from, took_ns);
        return;
    }
    frozen_outputs_keep(outputs, index, output, from, took_ns);
}

/* One epoch, as a worker does it. Returns how many outputs were loaded. */
static unsigned run_epoch(struct frozen_outputs *outputs, unsigned unit_count, uint64_t took_ns)
{
    unsigned loaded = 0;
    for (uint64_t index = 0; index < SAMPLES; index++) {
        unsigned found = load(outputs, index);
        if (found)
            assert_true(buffers[found][ELEMENTS - 1] == value_of(index, found));
        loaded += found == unit_count;
        if (found < unit_count)
            keep(outputs, index, found, unit_count, took_ns);
    }
    return loaded;
}

static struct frozen_outputs *begin(const char *numerics, uint64_t budget_bytes,
                                    unsigned unit_count)
{
    struct frozen_outputs *outputs = frozen_outputs_new(folder, numerics, budget_bytes);
    const struct frozen_outputs_part part = part_of(unit_count);
    assert_non_null(outputs);
    assert_true(frozen_outputs_begin(outputs, &part));
    return outputs;
}

/* Check the kept outputs of the last samples, as reported to the planner. */
static void assert_met(const struct frozen_outputs *outputs, unsigned unit_count, double share)
{
    double met;

    assert_int_equal(frozen_outputs_met(outputs, &met), unit_count);
    assert_true(fabs(met - share) < 1e-9);
}

static void test_the_second_epoch_loads(void **state)
{
    (void)state;
    struct frozen_outputs *outputs = begin("n", BUDGET, 3);
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), 0);
    assert_met(outputs, 0, 0);
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), SAMPLES);
    struct frozen_outputs_counts counts = frozen_outputs_take_counts(outputs);
    assert_met(outputs, 3, (double)SAMPLES / (2 * SAMPLES - MEASURED));
    assert_int_equal(counts.loaded, SAMPLES);
    assert_int_equal(counts.computed, SAMPLES);
    assert_int_equal(counts.continued, 0);
    assert_int_equal(frozen_outputs_take_counts(outputs).loaded, 0);
    frozen_outputs_free(outputs);
    /* Another process of the node computes a few, to compare times, and loads the others. */
    outputs = begin("n", BUDGET, 3);
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), SAMPLES - MEASURED);
    frozen_outputs_free(outputs);
}

static void test_more_frozen_layers_go_on_from_fewer(void **state)
{
    (void)state;
    struct frozen_outputs *outputs = begin("n", BUDGET, 3);
    run_epoch(outputs, 3, LONG_NS);
    frozen_outputs_take_counts(outputs);
    const struct frozen_outputs_part more = part_of(5), most = part_of(7);
    assert_true(frozen_outputs_begin(outputs, &more));
    assert_int_equal(count_files(), 2);
    run_epoch(outputs, 5, LONG_NS);
    struct frozen_outputs_counts counts = frozen_outputs_take_counts(outputs);
    assert_int_equal(counts.computed, MEASURED);
    assert_int_equal(counts.continued, SAMPLES - MEASURED);
    assert_met(outputs, 3, 1 / (1 + 0.8)); /* the epoch before counts for less */
    for (unsigned epoch = 0; epoch < 9; epoch++) {
        assert_int_equal(run_epoch(outputs, 5, LONG_NS), SAMPLES);
        frozen_outputs_take_counts(outputs);
    }
    double share;
    assert_int_equal(frozen_outputs_met(outputs, &share), 5);
    assert_true(share > 0.9 && share <= 1);
    assert_true(frozen_outputs_begin(outputs, &most));
    assert_met(outputs, 5, share);      /* until a step has looked */
    assert_int_equal(count_files(), 2); /* that of 3 units is gone */
    assert_int_equal(load(outputs, 0), 0);
    frozen_outputs_free(outputs);
}

/* After going back to a checkpoint before the freeze. */
static void test_fewer_frozen_layers_never_use_an_output_of_more(void **state)
{
    (void)state;
    struct frozen_outputs *outputs = begin("n", BUDGET, 5);
    run_epoch(outputs, 5, LONG_NS);
    const struct frozen_outputs_part fewer = part_of(3);
    assert_true(frozen_outputs_begin(outputs, &fewer));
    run_epoch(outputs, 3, LONG_NS);
    assert_int_equal(frozen_outputs_take_counts(outputs).continued, 0);
    frozen_outputs_free(outputs);
}

static void test_other_weights_data_or_numerics_find_nothing(void **state)
{
    (void)state;
    struct frozen_outputs *outputs = begin("n", BUDGET, 3);
    run_epoch(outputs, 3, LONG_NS);
    struct frozen_outputs_part part = part_of(3);
    part.weights.low++;
    assert_true(frozen_outputs_begin(outputs, &part));
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), 0);
    part.data.high++;
    assert_true(frozen_outputs_begin(outputs, &part));
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), 0);
    part.last_dispute = 7;
    assert_true(frozen_outputs_begin(outputs, &part));
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), 0);
    frozen_outputs_free(outputs);
    outputs = begin("other", BUDGET, 3);
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), 0);
    frozen_outputs_free(outputs);
}

static void test_samples_without_room_are_computed(void **state)
{
    (void)state;
    struct frozen_outputs *outputs = begin("n", (uint64_t)2 * 10 * 4096, 3); /* ten, in two files */
    assert_true(frozen_outputs_keeps(outputs, 9));
    assert_false(frozen_outputs_keeps(outputs, 10));
    run_epoch(outputs, 3, LONG_NS);
    run_epoch(outputs, 3, LONG_NS);
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), 10);
    frozen_outputs_free(outputs);
    outputs = frozen_outputs_new(folder, "n", 0);
    const struct frozen_outputs_part part = part_of(3);
    assert_false(frozen_outputs_begin(outputs, &part));
    frozen_outputs_free(outputs);
}

static void test_what_is_slower_than_computing_ends(void **state)
{
    (void)state;
    struct frozen_outputs *outputs = begin("n", BUDGET, 3);
    run_epoch(outputs, 3, 1); /* nothing is faster than that */
    assert_int_equal(run_epoch(outputs, 3, 1), MEASURED);
    assert_int_equal(run_epoch(outputs, 3, 1), 0);
    frozen_outputs_free(outputs);
}

static void test_a_condemned_file_is_no_longer_used_by_anybody(void **state)
{
    (void)state;
    struct frozen_outputs *one = begin("n", BUDGET, 3), *other = begin("n", BUDGET, 3);
    run_epoch(one, 3, LONG_NS);
    run_epoch(other, 3, LONG_NS);
    frozen_outputs_condemn(one);
    assert_int_equal(count_files(), 0);
    assert_int_equal(run_epoch(other, 3, LONG_NS), 0);
    assert_int_equal(run_epoch(one, 3, LONG_NS), 0);
    const struct frozen_outputs_part part = part_of(5);
    assert_true(frozen_outputs_begin(one, &part)); /* with other weights */
    assert_true(frozen_outputs_begin(other, &part));
    frozen_outputs_free(one);
    frozen_outputs_free(other);
}

static void test_without_a_folder_all_is_computed(void **state)
{
    (void)state;
    FILE *file = fopen(folder, "w");
    assert_non_null(file);
    fclose(file);
    struct frozen_outputs *outputs = frozen_outputs_new(folder, "n", BUDGET);
    const struct frozen_outputs_part part = part_of(3);
    assert_false(frozen_outputs_begin(outputs, &part));
    assert_int_equal(run_epoch(outputs, 3, LONG_NS), 0);
    frozen_outputs_free(outputs);
    assert_int_equal(unlink(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_second_epoch_loads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_more_frozen_layers_go_on_from_fewer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_fewer_frozen_layers_never_use_an_output_of_more,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_weights_data_or_numerics_find_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_samples_without_room_are_computed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_slower_than_computing_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_condemned_file_is_no_longer_used_by_anybody, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_folder_all_is_computed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
