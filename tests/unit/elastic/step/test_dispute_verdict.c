/* Tests of the accused ranks when replicas hold different values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "elastic/step/dispute_verdict.h"

#define RANKS 11

static void judge(const struct dispute_verdict_claim *claims, size_t count, bool settled,
                  unsigned accused)
{
    struct dispute_verdict verdict;
    unsigned seen = 0;

    assert_int_equal(dispute_verdict_judge(claims, count, RANKS, &verdict), 0);
    for (unsigned i = 0; i < verdict.accused_count; i++)
        seen |= 1u << verdict.accused[i];
    assert_int_equal(verdict.settled, settled);
    assert_int_equal(seen, accused);
}

static void test_the_majority_is_right(void **state)
{
    static const struct dispute_verdict_claim three[] = {
        {0, 1, 7}, {1, 1, 8}, {2, 1, 7}, {3, 0, 9}};
    static const struct dispute_verdict_claim five[] = {
        {0, 3, 7}, {1, 3, 8}, {2, 3, 7}, {3, 3, 9}, {4, 3, 7}};
    struct dispute_verdict verdict;

    (void)state;
    judge(three, ARRAY_COUNT(three), true, 1u << 1);
    judge(five, ARRAY_COUNT(five), true, 1u << 1 | 1u << 3);
    assert_int_equal(dispute_verdict_judge(five, ARRAY_COUNT(five), RANKS, &verdict), 0);
    assert_int_equal(verdict.unit, 3);
    assert_int_equal(verdict.holders, 5);
}

static void test_without_a_majority_all_are_doubtful(void **state)
{
    static const struct dispute_verdict_claim two[] = {{0, 1, 7}, {4, 1, 8}, {1, 2, 5}};
    static const struct dispute_verdict_claim four[] = {{0, 1, 7}, {1, 1, 7}, {2, 1, 8}, {3, 1, 8}};
    static const struct dispute_verdict_claim three[] = {{0, 1, 7}, {1, 1, 8}, {2, 1, 9}};

    (void)state;
    judge(two, ARRAY_COUNT(two), false, 1u << 0 | 1u << 4);
    judge(four, ARRAY_COUNT(four), false, 0xf);
    judge(three, ARRAY_COUNT(three), false, 0x7);
}

/*
 * A rank that is surely wrong leaves first; other differences show when the step is committed
 * again.
 */
static void test_units_are_judged_one_by_one(void **state)
{
    static const struct dispute_verdict_claim claims[] = {{0, 0, 1}, {1, 0, 1}, {2, 0, 2},
                                                          {5, 1, 1}, {6, 1, 2}, {0, 2, 3}};

    (void)state;
    judge(claims, ARRAY_COUNT(claims), true, 1u << 2);
}

static void test_agreement_accuses_nobody(void **state)
{
    static const struct dispute_verdict_claim claims[] = {{0, 0, 1}, {1, 0, 1}, {2, 1, 2}};

    (void)state;
    judge(claims, ARRAY_COUNT(claims), false, 0);
    judge(NULL, 0, false, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_majority_is_right),
        cmocka_unit_test(test_without_a_majority_all_are_doubtful),
        cmocka_unit_test(test_units_are_judged_one_by_one),
        cmocka_unit_test(test_agreement_accuses_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
