/* Tests of the round in which all ranks agree how a step in progress continues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "protocol/division_round.h"

#define RANKS         3
#define LANES         8
#define MICRO_BATCHES 6
#define STEP          41
#define LANE_WORDS    5 /* owner, start, validated, head, giver */

enum lane_word { OWNER, START, VALIDATED, HEAD, GIVER };

static unsigned first_unit[] = {0, 4}, first_lane[] = {0, 3, 6, LANES};
static const struct plan_layout layout = {.stage_count = 1,
                                          .replica_count = RANKS,
                                          .worker_count = RANKS,
                                          .stage_first_unit = first_unit,
                                          .replica_first_lane = first_lane,
                                          .lane_micro_batches = MICRO_BATCHES};

struct ranks {
    struct division_round contents[RANKS];
    struct tree_round rounds[RANKS];
    struct bytes answer;
};

/* Rank 0 has a lane of three, and two micro-batches of another; the others are new. */
static struct step_facts facts_of(unsigned rank)
{
    struct step_facts facts = {0};

    if (rank > 0)
        return facts;
    facts.lanes = calloc(LANES, sizeof(*facts.lanes));
    assert_non_null(facts.lanes);
    facts.lanes[0] = (struct lane_fact){
        .micro_batches = MICRO_BATCHES, .furthest = MICRO_BATCHES, .span = {0, 1}};
    facts.lanes[1] = (struct lane_fact){.micro_batches = 2, .furthest = 2, .span = {1, 1}};
    return facts;
}

/* Run the round up to the answer of rank 0, which is in ranks->answer. */
static void begin(struct ranks *ranks)
{
    memset(ranks, 0, sizeof(*ranks));
    for (unsigned rank = 0; rank < RANKS; rank++) {
        const struct division_question question = {.layout = &layout,
                                                   .rank = rank,
                                                   .step = STEP,
                                                   .lanes = LANES,
                                                   .micro_batches = MICRO_BATCHES};
        struct step_facts facts = facts_of(rank);
        assert_int_equal(
            division_round_begin(&ranks->contents[rank], &ranks->rounds[rank], &question, &facts),
            0);
    }
    for (unsigned rank = 1; rank < RANKS; rank++) {
        CLEANUP(bytes_done) struct bytes part = {0};
        assert_int_equal(tree_round_pack(&ranks->rounds[rank], &part), 0);
        assert_int_equal(ranks->rounds[0].peer, rank);
        assert_int_equal(tree_round_take(&ranks->rounds[0], part.data, part.size_bytes), 0);
    }
    assert_int_equal(tree_round_decide(&ranks->rounds[0]), 0);
    assert_int_equal(tree_round_pack(&ranks->rounds[0], &ranks->answer), 0);
}

static void end(struct ranks *ranks)
{
    bytes_done(&ranks->answer);
    for (unsigned rank = 0; rank < RANKS; rank++)
        division_round_done(&ranks->contents[rank]);
}

static int take(struct ranks *ranks, unsigned rank)
{
    return tree_round_take(&ranks->rounds[rank], ranks->answer.data, ranks->answer.size_bytes);
}

static uint64_t *word(struct ranks *ranks, unsigned lane, enum lane_word of)
{
    return (uint64_t *)(void *)ranks->answer.data + 1 + (size_t)LANE_WORDS * lane + of;
}

static unsigned shared_lane(const struct ranks *ranks, unsigned after)
{
    unsigned lane = after;

    while (lane < LANES && !ranks->contents[0].division.heads[lane])
        lane++;
    assert_true(lane < LANES);
    return lane;
}

static void test_all_ranks_get_one_division(void **state)
{
    struct ranks ranks;

    (void)state;
    begin(&ranks);
    const struct step_division *root = &ranks.contents[0].division;
    assert_int_equal(root->step, STEP);
    assert_int_equal(root->starts[1], 2);
    for (unsigned rank = 1; rank < RANKS; rank++) {
        const struct step_division *other = &ranks.contents[rank].division;
        assert_int_equal(take(&ranks, rank), 0);
        for (unsigned replica = 0; replica < RANKS; replica++) {
            struct lane_run runs[LANES + 1], others[LANES + 1];
            unsigned count = step_division_runs(root, replica, runs);
            assert_int_equal(step_division_runs(other, replica, others), count);
            assert_memory_equal(runs, others, count * sizeof(*runs));
        }
        assert_memory_equal(root->owners, other->owners, LANES * sizeof(*root->owners));
        assert_memory_equal(root->starts, other->starts, LANES * sizeof(*root->starts));
    }
    /* 40 micro-batches for parts of 3, 3 and 2 lanes: 15, 15 and 10. */
    assert_int_equal(step_division_left(root, 0), 15);
    assert_int_equal(step_division_left(root, 1), 15);
    assert_int_equal(step_division_left(root, 2), 10);
    end(&ranks);
}

/* Change one word of the answer, and expect that @rank refuses it. */
static void refuse_at(unsigned rank, unsigned lane, enum lane_word of, uint64_t value)
{
    struct ranks ranks;

    begin(&ranks);
    assert_true(*word(&ranks, lane, of) != value);
    *word(&ranks, lane, of) = value;
    assert_int_equal(take(&ranks, rank), -EBADMSG);
    end(&ranks);
}

static void refuse(unsigned lane, enum lane_word of, uint64_t value)
{
    refuse_at(1, lane, of, value);
}

static void test_unsound_divisions_are_refused(void **state)
{
    struct ranks ranks;

    (void)state;
    begin(&ranks);
    unsigned first = shared_lane(&ranks, 0), second = shared_lane(&ranks, first + 1);
    unsigned giver = ranks.contents[0].division.givers[first];
    unsigned owner = ranks.contents[0].division.owners[first];
    unsigned head = ranks.contents[0].division.heads[first];
    unsigned new_giver = giver ? giver : ranks.contents[0].division.givers[second];
    end(&ranks);
    refuse(first, OWNER, RANKS);
    refuse(first, GIVER, RANKS);
    refuse(first, GIVER, owner);        /* its own head */
    refuse(second, GIVER, giver);       /* two heads */
    refuse(second, OWNER, owner);       /* it gets two */
    refuse(first, HEAD, MICRO_BATCHES); /* the whole lane */
    refuse(first, START, head);         /* nothing of the head is left */
    refuse_at(new_giver, new_giver == giver ? first : second, START, 1); /* which it has not */
    refuse(0, START, MICRO_BATCHES + 1);
    refuse(0, OWNER, 1); /* which has nothing of this lane */
    refuse(0, VALIDATED, 2);
}

static void test_answers_of_another_size_are_refused(void **state)
{
    struct ranks ranks;

    (void)state;
    begin(&ranks);
    assert_int_equal(ranks.answer.size_bytes, 8 * (1 + LANE_WORDS * LANES));
    assert_int_equal(bytes_append(&ranks.answer, "12345678", 8), 0);
    assert_int_equal(take(&ranks, 1), -EBADMSG);
    ranks.answer.size_bytes -= 16;
    assert_int_equal(take(&ranks, 2), -EBADMSG);
    end(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_get_one_division),
        cmocka_unit_test(test_unsound_divisions_are_refused),
        cmocka_unit_test(test_answers_of_another_size_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
