/* Tests of the partition against every possible cut. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/planner/partition.h"

#define UNITS_MAX 9

static unsigned next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(*state >> 33);
}

struct naive {
    const double *costs;
    unsigned units, stages, first_least;
    bool (*allowed)(void *context, unsigned first, unsigned end, unsigned stages_left);
    double best;
    unsigned cuts[UNITS_MAX + 1], best_cuts[UNITS_MAX + 1];
};

/* Try every cut in lexicographic order: the first best cut is the one with the earliest cuts. */
static void try_cuts(struct naive *naive, unsigned stage, double largest)
{
    unsigned first = naive->cuts[stage], left = naive->stages - stage;
    unsigned least = stage == 0 ? MAX(1u, naive->first_least) : first + 1;
    for (unsigned end = least; end <= naive->units; end++) {
        if (left == 1 && end != naive->units)
            continue;
        if (naive->allowed && !naive->allowed(NULL, first, end, left))
            continue;
        double sum = 0;
        for (unsigned i = first; i < end; i++)
            sum += naive->costs[i];
        naive->cuts[stage + 1] = end;
        double now = fmax(largest, sum);
        if (left > 1) {
            try_cuts(naive, stage + 1, now);
        } else if (now < naive->best) {
            naive->best = now;
            memcpy(naive->best_cuts, naive->cuts, sizeof(naive->cuts));
        }
    }
}

/* Limit early stages to few units and late stages to more, like memory under 1F1B. */
static bool short_when_early(void *context, unsigned first, unsigned end, unsigned stages_left)
{
    (void)context;
    return (end - first) * stages_left <= 6;
}

static void check_against_naive(const double *costs, unsigned units, unsigned stages,
                                unsigned first_least, partition_allowed allowed)
{
    struct naive naive = {costs, units, stages, first_least, allowed, INFINITY, {0}, {0}};
    try_cuts(&naive, 0, 0);
    struct partition_table *table;
    assert_int_equal(partition_table_new(costs, units, stages, first_least, allowed, NULL, &table),
                     0);
    double largest = partition_table_largest(table, stages);
    assert_true(largest == naive.best);
    if (isfinite(largest)) {
        unsigned cuts[UNITS_MAX + 1];
        partition_table_cuts(table, stages, cuts);
        for (unsigned i = 0; i <= stages; i++)
            assert_int_equal(cuts[i], naive.best_cuts[i]);
    }
    partition_table_free(table);
}

static void test_equals_brute_force(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (unsigned round = 0; round < 400; round++) {
        double costs[UNITS_MAX];
        unsigned units = 1 + next_random(&random) % UNITS_MAX;
        for (unsigned i = 0; i < units; i++)
            costs[i] = next_random(&random) % 6; /* small whole numbers: many ties, exact sums */
        for (unsigned stages = 1; stages <= units; stages++) {
            unsigned first_least = round % 2 == 0 ? 0 : next_random(&random) % (units + 1);
            check_against_naive(costs, units, stages, first_least, NULL);
            check_against_naive(costs, units, stages, first_least, short_when_early);
        }
    }
}

static void test_ties_take_the_earliest_cuts(void **state)
{
    (void)state;
    const double costs[] = {1, 1, 1, 1, 1};
    unsigned first[4];
    struct partition_table *table;
    assert_int_equal(partition_table_new(costs, 5, 3, 0, NULL, NULL, &table), 0);
    assert_true(partition_table_largest(table, 3) == 2);
    partition_table_cuts(table, 3, first);
    partition_table_free(table);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[1], 1);
    assert_int_equal(first[2], 3);
    assert_int_equal(first[3], 5);
}

static void test_impossible_questions_are_refused(void **state)
{
    (void)state;
    const double good[] = {1, 2}, negative[] = {1, -2}, unknown[] = {1, NAN};
    struct partition_table *table;
    assert_int_equal(partition_table_new(good, 2, 0, 0, NULL, NULL, &table), -EINVAL);
    assert_int_equal(partition_table_new(good, 2, 3, 0, NULL, NULL, &table), -EINVAL);
    assert_int_equal(partition_table_new(negative, 2, 1, 0, NULL, NULL, &table), -EINVAL);
    assert_int_equal(partition_table_new(unknown, 2, 1, 0, NULL, NULL, &table), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_brute_force),
        cmocka_unit_test(test_ties_take_the_earliest_cuts),
        cmocka_unit_test(test_impossible_questions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
