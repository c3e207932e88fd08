#include "protocol/tree_round.h"

#include <assert.h>
#include <errno.h>

#include "elastic/plan/commit_tree.h"

/* The messages are empty, so any content is an error. */
const struct tree_question tree_question_all_here = {0};

static void next_part(struct tree_round *round, unsigned taken)
{
    round->action = TREE_RECEIVE_PART;
    round->peer = round->first_child + taken;
    if (taken < round->child_count)
        return;
    round->action = round->rank ? TREE_SEND_PART : TREE_DECIDE;
    round->peer = round->rank ? commit_tree_parent(round->rank) : 0;
}

static void answered(struct tree_round *round)
{
    round->action = round->child_count ? TREE_SEND_ANSWER : TREE_DONE;
}

void tree_round_begin(struct tree_round *round, const struct tree_question *question, void *content,
                      const struct plan_layout *layout, unsigned rank)
{
    assert(rank < layout->worker_count);
    *round = (struct tree_round){.question = question, .content = content, .rank = rank};
    round->child_count = commit_tree_children(layout, rank, &round->first_child);
    next_part(round, 0);
}

static int take_nothing(size_t size_bytes)
{
    return size_bytes ? -EBADMSG : 0;
}

static int take_part(struct tree_round *round, const void *data, size_t size_bytes)
{
    const struct tree_question *question = round->question;
    int status = question->take_part
                     ? question->take_part(round->content, round->peer, data, size_bytes)
                     : take_nothing(size_bytes);

    if (!status)
        next_part(round, round->peer - round->first_child + 1);
    return status;
}

static int take_answer(struct tree_round *round, const void *data, size_t size_bytes)
{
    const struct tree_question *question = round->question;
    int status = question->take_answer ? question->take_answer(round->content, data, size_bytes)
                                       : take_nothing(size_bytes);

    if (!status)
        answered(round);
    return status;
}

int tree_round_take(struct tree_round *round, const void *data, size_t size_bytes)
{
    assert(round->action == TREE_RECEIVE_PART || round->action == TREE_RECEIVE_ANSWER);
    return round->action == TREE_RECEIVE_PART ? take_part(round, data, size_bytes)
                                              : take_answer(round, data, size_bytes);
}

int tree_round_pack(struct tree_round *round, struct bytes *message)
{
    bool part = round->action == TREE_SEND_PART;
    const struct tree_question *question = round->question;
    int (*pack)(const void *, struct bytes *) = part ? question->pack_part : question->pack_answer;

    assert(part || round->action == TREE_SEND_ANSWER);
    int status = pack ? pack(round->content, message) : 0;
    if (!status)
        round->action = part ? TREE_RECEIVE_ANSWER : TREE_DONE;
    return status;
}

int tree_round_decide(struct tree_round *round)
{
    assert(round->action == TREE_DECIDE);
    int status = round->question->decide ? round->question->decide(round->content) : 0;
    if (!status)
        answered(round);
    return status;
}
