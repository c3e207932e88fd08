/*
 * Tests of rounds along the tree of ranks, without threads and links: every rank's round is driven
 * in one loop, with messages in mailboxes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "base/words.h"
#include "elastic/plan/commit_tree.h"
#include "lib/elastic/ranked_plan.h"
#include "protocol/tree_round.h"

#define RANKS_MAX 75 /* two levels below the root, and two ranks of the third */
#define REFUSED   (-EDOM)

/* A question that adds numbers: the answer is their sum. */
struct adding {
    uint64_t part, answer;
    unsigned decided, parts_taken;
    uint64_t refuses; /* this value of a part */
};

static int take_number(const void *data, size_t size_bytes, uint64_t *ret_number)
{
    struct words_reader words = {.at = data, .count = 1};

    if (size_bytes != 8)
        return -EBADMSG;
    *ret_number = words_take(&words);
    return words.status;
}

static int pack_number(uint64_t number, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    words_put(&writer, number);
    return writer.status;
}

static int take_part(void *content, unsigned child, const void *data, size_t size_bytes)
{
    struct adding *adding = content;
    uint64_t number = 0;
    int status = take_number(data, size_bytes, &number);

    assert_true(child > 0);
    if (!status && adding->refuses && number == adding->refuses)
        return REFUSED;
    adding->part += number;
    adding->parts_taken++;
    return status;
}

static int pack_part(const void *content, struct bytes *message)
{
    const struct adding *adding = content;
    return pack_number(adding->part, message);
}

static int decide(void *content)
{
    struct adding *adding = content;

    adding->decided++;
    adding->answer = adding->part;
    return 0;
}

static int take_answer(void *content, const void *data, size_t size_bytes)
{
    struct adding *adding = content;
    return take_number(data, size_bytes, &adding->answer);
}

static int pack_answer(const void *content, struct bytes *message)
{
    const struct adding *adding = content;
    return pack_number(adding->answer, message);
}

static const struct tree_question question = {take_part, pack_part, decide, take_answer,
                                              pack_answer};

/* Each rank has a mailbox for the part that it has sent up, and one for the answer to it. */
struct tree {
    struct plan *plan;
    unsigned count;
    struct tree_round rounds[RANKS_MAX];
    struct adding contents[RANKS_MAX];
    struct bytes parts[RANKS_MAX], answers[RANKS_MAX];
    bool has_part[RANKS_MAX], has_answer[RANKS_MAX];
};

static void tree_begin(struct tree *tree, unsigned count, const struct tree_question *asked)
{
    *tree = (struct tree){.plan = ranked_plan(count), .count = count};
    for (unsigned rank = 0; rank < count; rank++) {
        tree->contents[rank].part = rank + 1;
        tree_round_begin(&tree->rounds[rank], asked, &tree->contents[rank], &tree->plan->layout,
                         rank);
    }
}

static void tree_done(struct tree *tree)
{
    for (unsigned rank = 0; rank < tree->count; rank++) {
        bytes_done(&tree->parts[rank]);
        bytes_done(&tree->answers[rank]);
    }
    plan_free(tree->plan);
}

static int receive(struct tree *tree, unsigned rank, const bool *here, const struct bytes *message)
{
    return *here ? tree_round_take(&tree->rounds[rank], message->data, message->size_bytes)
                 : -EAGAIN;
}

static int send_answers(struct tree *tree, unsigned rank)
{
    struct tree_round *round = &tree->rounds[rank];
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = tree_round_pack(round, &message);

    for (unsigned i = 0; !status && i < round->child_count; i++) {
        unsigned child = round->first_child + i;
        status = bytes_append(&tree->answers[child], message.data, message.size_bytes);
        tree->has_answer[child] = true;
    }
    return status;
}

/* Carry out one action of @rank. 0; -EAGAIN: its message is not here; the error of the round */
static int act(struct tree *tree, unsigned rank)
{
    struct tree_round *round = &tree->rounds[rank];

    switch (round->action) {
    case TREE_RECEIVE_PART:
        assert_int_equal(commit_tree_parent(round->peer), rank);
        return receive(tree, rank, &tree->has_part[round->peer], &tree->parts[round->peer]);
    case TREE_SEND_PART:
        assert_int_equal(round->peer, commit_tree_parent(rank));
        tree->has_part[rank] = true;
        return tree_round_pack(round, &tree->parts[rank]);
    case TREE_DECIDE:
        assert_int_equal(rank, 0);
        return tree_round_decide(round);
    case TREE_RECEIVE_ANSWER:
        return receive(tree, rank, &tree->has_answer[rank], &tree->answers[rank]);
    case TREE_SEND_ANSWER:
        return send_answers(tree, rank);
    case TREE_DONE:
        break;
    }
    return -EAGAIN;
}

/* Drive all ranks until nothing moves. Return the first error, or 0. */
static int run(struct tree *tree)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (unsigned i = 0; i < tree->count; i++) {
            unsigned rank = tree->count - 1 - i;
            int status = act(tree, rank);
            if (status && status != -EAGAIN)
                return status;
            moved = moved || !status;
        }
    }
    return 0;
}

static void test_every_rank_gets_the_answer_to_all_parts(void **state)
{
    static const unsigned counts[] = {1, 2, 9, 10, 73, RANKS_MAX};
    struct tree *tree = malloc(sizeof(*tree));

    (void)state;
    assert_non_null(tree);
    for (unsigned i = 0; i < ARRAY_COUNT(counts); i++) {
        uint64_t count = counts[i];
        tree_begin(tree, counts[i], &question);
        assert_int_equal(run(tree), 0);
        for (unsigned rank = 0; rank < count; rank++) {
            assert_int_equal(tree->rounds[rank].action, TREE_DONE);
            assert_int_equal(tree->contents[rank].answer, count * (count + 1) / 2);
            assert_int_equal(tree->contents[rank].decided, rank == 0);
        }
        tree_done(tree);
    }
    free(tree);
}

/* A rank whose subtree is not complete sends nothing, so no rank has an answer. */
static void test_no_rank_has_an_answer_while_one_part_is_missing(void **state)
{
    struct tree *tree = malloc(sizeof(*tree));

    (void)state;
    assert_non_null(tree);
    for (unsigned absent = 0; absent < 20; absent++) {
        tree_begin(tree, 20, &question);
        tree->rounds[absent].action = TREE_DONE; /* it does nothing */
        assert_int_equal(run(tree), 0);
        for (unsigned rank = 0; rank < 20; rank++)
            assert_true(rank == absent || tree->rounds[rank].action < TREE_SEND_ANSWER);
        assert_int_equal(tree->contents[0].decided, 0);
        tree_done(tree);
    }
    free(tree);
}

static void test_an_error_of_the_question_ends_the_round(void **state)
{
    struct tree *tree = malloc(sizeof(*tree));

    (void)state;
    assert_non_null(tree);
    tree_begin(tree, 12, &question);
    tree->contents[0].refuses = 5; /* sent by rank 4, a leaf */
    assert_int_equal(run(tree), REFUSED);
    assert_int_equal(tree->contents[0].decided, 0);
    assert_int_equal(tree->rounds[0].action, TREE_RECEIVE_PART);
    tree_done(tree);
    free(tree);
}

static void test_a_round_without_content_waits_for_every_rank(void **state)
{
    struct tree *tree = malloc(sizeof(*tree));

    (void)state;
    assert_non_null(tree);
    tree_begin(tree, RANKS_MAX, &tree_question_all_here);
    assert_int_equal(run(tree), 0);
    for (unsigned rank = 0; rank < RANKS_MAX; rank++)
        assert_int_equal(tree->rounds[rank].action, TREE_DONE);
    tree_done(tree);
    tree_begin(tree, 2, &tree_question_all_here);
    assert_int_equal(tree_round_take(&tree->rounds[0], "x", 1), -EBADMSG);
    tree_done(tree);
    free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_gets_the_answer_to_all_parts),
        cmocka_unit_test(test_no_rank_has_an_answer_while_one_part_is_missing),
        cmocka_unit_test(test_an_error_of_the_question_ends_the_round),
        cmocka_unit_test(test_a_round_without_content_waits_for_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
