/* Tests of the vote on a checkpoint within a step: every rank's vote is needed, and counted once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/elastic/ranked_plan.h"
#include "protocol/checkpoint_vote.h"

#define RANKS_MAX 80 /* a tree of three levels */
#define STEP      7

/* Messages that are never sent twice: one slot for each link and direction. */
struct crew {
    struct plan *plan;
    struct checkpoint_vote votes[RANKS_MAX];
    struct bytes up[RANKS_MAX], down[RANKS_MAX]; /* of each rank, to and from its parent */
    unsigned sent;
};

static void crew_begin(struct crew *crew, unsigned ranks)
{
    *crew = (struct crew){.plan = ranked_plan(ranks)};
    for (unsigned rank = 0; rank < ranks; rank++)
        checkpoint_vote_begin(&crew->votes[rank], &crew->plan->layout, rank, STEP);
}

static void crew_end(struct crew *crew)
{
    for (unsigned rank = 0; rank < crew->plan->layout.worker_count; rank++) {
        bytes_done(&crew->up[rank]);
        bytes_done(&crew->down[rank]);
    }
    plan_free(crew->plan);
}

/* Send the rank's pending message. */
static void crew_say(struct crew *crew, unsigned rank)
{
    struct checkpoint_vote *vote = &crew->votes[rank];

    if (vote->action == CHECKPOINT_VOTE_SEND_UP) {
        assert_int_equal(crew->up[rank].size_bytes, 0); /* once */
        assert_int_equal(checkpoint_vote_pack(vote, &crew->up[rank]), 0);
        crew->sent++;
    } else if (vote->action == CHECKPOINT_VOTE_SEND_DOWN) {
        struct bytes message = {0};
        assert_int_equal(checkpoint_vote_pack(vote, &message), 0);
        for (unsigned i = 0; i < vote->child_count; i++) {
            struct bytes *to = &crew->down[vote->first_child + i];
            assert_int_equal(bytes_append(to, message.data, message.size_bytes), 0);
            crew->sent++;
        }
        bytes_done(&message);
    }
}

/* Deliver all messages until no rank sends any more. */
static void crew_settle(struct crew *crew)
{
    unsigned ranks = crew->plan->layout.worker_count, before;

    do {
        before = crew->sent;
        for (unsigned rank = ranks; rank-- > 0;) {
            struct checkpoint_vote *vote = &crew->votes[rank];
            for (unsigned i = 0; i < vote->child_count; i++) {
                struct bytes *from = &crew->up[vote->first_child + i];
                if (from->size_bytes && !vote->has_child[i])
                    assert_int_equal(checkpoint_vote_take(vote, i, from->data, from->size_bytes),
                                     0);
            }
            if (crew->down[rank].size_bytes)
                assert_int_equal(
                    checkpoint_vote_hear(vote, crew->down[rank].data, crew->down[rank].size_bytes),
                    0);
            crew_say(crew, rank);
        }
    } while (crew->sent > before);
}

static unsigned count_agreed(const struct crew *crew)
{
    unsigned agreed = 0;

    for (unsigned rank = 0; rank < crew->plan->layout.worker_count; rank++)
        agreed += crew->votes[rank].action == CHECKPOINT_VOTE_AGREED;
    return agreed;
}

static struct unit_digests digest_of(unsigned unit, uint64_t value)
{
    struct unit_digests digests = {0};

    digests.known[unit] = true;
    digests.values[unit] = value;
    return digests;
}

/* No rank agrees before the last rank has voted, for any last rank; then all ranks agree. */
static void test_all_agree_with_the_last_vote(void **state)
{
    static const unsigned sizes[] = {1, 2, 9, 10, RANKS_MAX};
    const struct unit_digests digests = digest_of(3, 5);

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++)
        for (unsigned last = 0; last < sizes[i]; last++) {
            struct crew crew;
            crew_begin(&crew, sizes[i]);
            for (unsigned rank = 0; rank < sizes[i]; rank++)
                if (rank != last)
                    checkpoint_vote_cast(&crew.votes[rank], &digests);
            crew_settle(&crew);
            assert_int_equal(count_agreed(&crew), 0);
            checkpoint_vote_cast(&crew.votes[last], &digests);
            crew_settle(&crew);
            assert_int_equal(count_agreed(&crew), sizes[i]);
            assert_int_equal(crew.sent, 2 * (sizes[i] - 1)); /* one message each way */
            crew_end(&crew);
        }
}

/* Two replicas of a unit in different subtrees meet at rank 0 only. */
static void test_replicas_that_differ_leave_it_open(void **state)
{
    static const struct {
        unsigned one, other;
    } pairs[] = {{0, 1}, {1, 9}, {9, 10}, {9, 17}, {72, 1}, {79, 0}};

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(pairs); i++) {
        struct crew crew;
        crew_begin(&crew, RANKS_MAX);
        for (unsigned rank = 0; rank < RANKS_MAX; rank++) {
            const struct unit_digests digests = digest_of(
                rank == pairs[i].other ? pairs[i].one : rank, rank == pairs[i].other ? 1 : 0);
            checkpoint_vote_cast(&crew.votes[rank], &digests);
        }
        crew_settle(&crew);
        assert_int_equal(count_agreed(&crew), 0);
        crew_end(&crew);
    }
}

/* State that a commit has compared since is not compared again. */
static void test_a_later_vote_has_no_digests(void **state)
{
    const struct unit_digests digests = digest_of(0, 1);
    struct crew crew;

    (void)state;
    crew_begin(&crew, 3);
    checkpoint_vote_cast(&crew.votes[0], &digests);
    checkpoint_vote_cast(&crew.votes[1], NULL);
    checkpoint_vote_cast(&crew.votes[2], NULL);
    crew_settle(&crew);
    assert_int_equal(count_agreed(&crew), 3);
    crew_end(&crew);
}

/* Messages of the previous vote, and messages that come after a commit has told the outcome. */
static void test_messages_about_another_checkpoint_are_ignored(void **state)
{
    struct crew crew;
    struct bytes answer = {0};

    (void)state;
    crew_begin(&crew, 2);
    checkpoint_vote_cast(&crew.votes[1], NULL);
    crew_say(&crew, 1);
    checkpoint_vote_cast(&crew.votes[0], NULL);
    assert_int_equal(
        checkpoint_vote_take(&crew.votes[0], 0, crew.up[1].data, crew.up[1].size_bytes), 0);
    assert_int_equal(checkpoint_vote_pack(&crew.votes[0], &answer), 0);
    for (unsigned rank = 0; rank < 2; rank++)
        checkpoint_vote_begin(&crew.votes[rank], &crew.plan->layout, rank, STEP + 1);
    checkpoint_vote_cast(&crew.votes[0], NULL);
    assert_int_equal(
        checkpoint_vote_take(&crew.votes[0], 0, crew.up[1].data, crew.up[1].size_bytes), 0);
    assert_int_equal(checkpoint_vote_hear(&crew.votes[1], answer.data, answer.size_bytes), 0);
    assert_int_equal(crew.votes[0].action, CHECKPOINT_VOTE_LISTEN);
    assert_int_equal(crew.votes[1].action, CHECKPOINT_VOTE_LISTEN);
    checkpoint_vote_close(&crew.votes[1]);
    checkpoint_vote_cast(&crew.votes[1], NULL);
    assert_int_equal(crew.votes[1].action, CHECKPOINT_VOTE_CLOSED);
    bytes_done(&answer);
    crew_end(&crew);
}

/* Every cut of a vote, a word too many, a unit that does not exist, and an answer before the vote.
 */
static void test_nonsense_is_refused(void **state)
{
    const struct unit_digests digests = digest_of(2, 9);
    struct crew crew;
    uint8_t bytes[64] = {0};

    (void)state;
    crew_begin(&crew, 2);
    checkpoint_vote_cast(&crew.votes[1], &digests);
    crew_say(&crew, 1);
    size_t size = crew.up[1].size_bytes;
    assert_true(size + 8 <= sizeof(bytes));
    memcpy(bytes, crew.up[1].data, size);
    for (size_t part = 0; part < size; part++)
        assert_int_equal(checkpoint_vote_take(&crew.votes[0], 0, bytes, part), -EBADMSG);
    assert_int_equal(checkpoint_vote_take(&crew.votes[0], 0, bytes, size + 8), -EBADMSG);
    bytes_put_u64(bytes + 16, STEP_RECORD_UNITS_MAX);
    assert_int_equal(checkpoint_vote_take(&crew.votes[0], 0, bytes, size), -EBADMSG);
    assert_false(crew.votes[0].has_child[0]);
    assert_int_equal(checkpoint_vote_hear(&crew.votes[1], bytes, 4), -EBADMSG);
    checkpoint_vote_begin(&crew.votes[1], &crew.plan->layout, 1, STEP);
    bytes_put_u64(bytes, STEP);
    assert_int_equal(checkpoint_vote_hear(&crew.votes[1], bytes, 8), -EBADMSG);
    crew_end(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_agree_with_the_last_vote),
        cmocka_unit_test(test_replicas_that_differ_leave_it_open),
        cmocka_unit_test(test_a_later_vote_has_no_digests),
        cmocka_unit_test(test_messages_about_another_checkpoint_are_ignored),
        cmocka_unit_test(test_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
