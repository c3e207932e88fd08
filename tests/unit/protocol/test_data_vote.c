/* Tests of the votes on the training data; whole votes over links: test_data_agreement.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "protocol/data_vote.h"

static void test_states_of_two_runs_are_refused(void **state)
{
    struct data_votes a, b;

    (void)state;
    data_votes_init(&a, 7, 7);
    data_votes_init(&b, 7, 8);
    assert_int_equal(data_votes_merge(&a, &b), -EBADMSG);
    data_votes_init(&b, 7, 0);
    assert_int_equal(data_votes_merge(&a, &b), 0);
    assert_int_equal(data_votes_outcome(&a), 7);
}

static void test_more_than_half_of_the_ranks_win(void **state)
{
    static const struct {
        unsigned sevens, eights;
        uint64_t outcome;
    } cases[] = {{1, 0, 7}, {2, 1, 7}, {1, 2, 8}, {2, 2, 0}, {0, 3, 8}};

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct data_votes sum = {0}, one;
        for (unsigned k = 0; k < cases[i].sevens + cases[i].eights; k++) {
            data_votes_init(&one, k < cases[i].sevens ? 7 : 8, 0);
            assert_int_equal(data_votes_merge(&sum, &one), 0);
        }
        assert_int_equal(data_votes_outcome(&sum), cases[i].outcome);
    }
}

static void test_a_rank_with_other_data_leaves_with_the_reason(void **state)
{
    static const struct {
        struct data_vote_outcome outcome;
        const char *words;
    } cases[] = {
        {{.digest = 8}, "node n3 reads other training data than most other nodes"},
        {{.digest = 8, .known = true}, "node n3 is not what this run was trained on"},
        {{.digest = 0}, "no kind of it is on more than half of the slots"},
    };
    const struct data_vote_outcome same = {.digest = 7};
    struct error error = {0};

    (void)state;
    assert_int_equal(data_vote_judge(&same, "n3", 7, &error), 0);
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(data_vote_judge(&cases[i].outcome, "n3", 7, &error), -EILSEQ);
        assert_non_null(strstr(error.text, cases[i].words));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_of_two_runs_are_refused),
        cmocka_unit_test(test_more_than_half_of_the_ranks_win),
        cmocka_unit_test(test_a_rank_with_other_data_leaves_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
