/*
 * One round of messages along the tree of ranks (elastic/plan/commit_tree.h): the part of every
 * rank is merged on its way up, rank 0 decides, and its answer comes down to every rank. Each
 * question that a generation answers together is such a round: the commit of a step, a dispute, the
 * division of a step in progress, the vote on the training data.
 *
 * The round is a state machine without I/O: its action (enum tree_action) is the next task of its
 * driver. A worker drives it over links, and waits (worker/step/tree_exchange.h); the simulator
 * drives it by events. An error ends the round.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "elastic/plan/plan_layout.h"

/* A link copies no larger message. */
#define TREE_MESSAGE_MAX_BYTES ((size_t)1 << 20)

/*
 * The content of a round: the codec of its messages, and the way in which parts are merged. Members
 * may be NULL if a round has no content. Each function returns 0 or a negative error.
 */
struct tree_question {
    /* Merge the part of @child's subtree, validated, into this rank's. */
    int (*take_part)(void *content, unsigned child, const void *data, size_t size_bytes);
    /* Append the part of this rank's subtree. */
    int (*pack_part)(const void *content, struct bytes *message);
    /* On rank 0: decide the answer. */
    int (*decide)(void *content);
    /* Take the answer, validated. */
    int (*take_answer)(void *content, const void *data, size_t size_bytes);
    /* Append the answer. */
    int (*pack_answer)(const void *content, struct bytes *message);
};

/* In the order of a round. */
enum tree_action {
    TREE_RECEIVE_PART,   /* receive the part of child `peer`; then tree_round_take() */
    TREE_SEND_PART,      /* send the message of tree_round_pack() to `peer`, the parent */
    TREE_DECIDE,         /* on rank 0, which has the parts of all ranks: tree_round_decide() */
    TREE_RECEIVE_ANSWER, /* receive the answer of `peer`, the parent; then tree_round_take() */
    TREE_SEND_ANSWER,    /* send the message of tree_round_pack() to all children */
    TREE_DONE,           /* this rank has the answer, and has passed it on */
};

struct tree_round {
    const struct tree_question *question;
    void *content; /* borrowed */
    unsigned rank, first_child, child_count;
    enum tree_action action;
    unsigned peer; /* of TREE_RECEIVE_PART, TREE_SEND_PART and TREE_RECEIVE_ANSWER */
};

/** tree_round_begin() - begin on @rank, one of the workers of @layout; @content is borrowed until
 * the end */
void tree_round_begin(struct tree_round *round, const struct tree_question *question, void *content,
                      const struct plan_layout *layout, unsigned rank);
/** tree_round_take() - take the message that `action` names. 0; the errors of the question */
int tree_round_take(struct tree_round *round, const void *data, size_t size_bytes) CHECK_RESULT;
/** tree_round_pack() - append the message that `action` names to @message; it then counts as sent.
 * 0; the errors of the question */
int tree_round_pack(struct tree_round *round, struct bytes *message) CHECK_RESULT;
/** tree_round_decide() - decide the answer, on rank 0. 0; the errors of the question */
int tree_round_decide(struct tree_round *round) CHECK_RESULT;

/** The question without content: a rank that is done knows that every rank has begun it. */
extern const struct tree_question tree_question_all_here;
