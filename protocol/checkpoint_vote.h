/*
 * The vote on a checkpoint while the step after it is computed.
 *
 * Problem: a checkpoint can be committed when every rank's share is durable and all replicas have
 * the same state. The commit of a step says both (protocol/step_commit.h), but a step may take half
 * an hour, and shares are durable after seconds. If all nodes vanish before the step ends, the work
 * of the previous step is lost as well, although all of it is on disk.
 *
 * Design: a rank votes as soon as its share is durable, with the digests of its state. Votes go up
 * the tree of ranks. When rank 0 has them all and no two differ, its answer goes down: rank 0
 * begins to commit, and keepers of copies begin their part. Ranks check at the boundaries of
 * micro-batches, and no rank waits.
 *
 * No rank votes against a checkpoint. A failed share or differing replicas only leave the vote
 * open, and the commit of the step reports them. Messages name the checkpoint: a message that
 * arrives after the commit is ignored.
 *
 * A state machine without I/O: its action is the next thing to do. checkpoint_vote_run() does it
 * over the links of a worker (worker/session/checkpoint_duty.c) or of a simulated one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "elastic/plan/commit_tree.h"
#include "protocol/unit_digests.h"

enum checkpoint_vote_action {
    CHECKPOINT_VOTE_CLOSED,  /* do nothing: no vote is in progress, or a commit told the outcome */
    CHECKPOINT_VOTE_LISTEN,  /* take messages of children and parent; cast this rank's vote */
    CHECKPOINT_VOTE_SEND_UP, /* send the message of checkpoint_vote_pack() to the parent */
    CHECKPOINT_VOTE_SEND_DOWN, /* send that message to all children */
    CHECKPOINT_VOTE_AGREED,    /* the checkpoint can be committed */
};

/* All zero: closed. */
struct checkpoint_vote {
    enum checkpoint_vote_action action;
    uint64_t step; /* the boundary whose state the checkpoint has */
    unsigned rank, first_child, child_count;
    bool is_cast, is_sent; /* this rank's vote is cast; its subtree's is sent */
    bool has_child[COMMIT_TREE_FAN];
    bool differs;                /* two replicas of the subtree */
    struct unit_digests digests; /* of the subtree so far */
};

/** checkpoint_vote_begin() - begin a vote on the checkpoint of @step, on @rank of @layout. A vote
 * on an earlier checkpoint ends */
void checkpoint_vote_begin(struct checkpoint_vote *vote, const struct plan_layout *layout,
                           unsigned rank, uint64_t step);
/** checkpoint_vote_close() - end the vote: a commit has told its outcome */
void checkpoint_vote_close(struct checkpoint_vote *vote);

/** checkpoint_vote_cast() - cast the vote of this rank, whose share is durable. Does nothing if the
 * vote is not open
 * @digests: of its state at the boundary; NULL: a commit has compared it since */
void checkpoint_vote_cast(struct checkpoint_vote *vote, const struct unit_digests *digests);
/** checkpoint_vote_take() - take the message of child @child, by its place among the children. 0,
 * also if it is about another checkpoint; -EBADMSG */
int checkpoint_vote_take(struct checkpoint_vote *vote, unsigned child, const void *data,
                         size_t size_bytes) CHECK_RESULT;
/** checkpoint_vote_hear() - take the answer from the parent. Errors as above */
int checkpoint_vote_hear(struct checkpoint_vote *vote, const void *data,
                         size_t size_bytes) CHECK_RESULT;
/** checkpoint_vote_pack() - append the message that `action` names, which then counts as sent. 0;
 * -ENOMEM
 */
int checkpoint_vote_pack(struct checkpoint_vote *vote, struct bytes *message) CHECK_RESULT;

/* The links of one rank; they never wait. @is_answer: an answer, down the tree; else a vote, up. */
struct checkpoint_vote_links {
    void *context;
    /* Take the next message that has arrived from @peer; the caller frees it. 0; -EAGAIN: there is
     * none; another error: the links broke. */
    int (*take)(void *context, unsigned peer, bool is_answer, struct bytes *ret_message);
    /* 0; an error: the links broke. */
    int (*send)(void *context, unsigned peer, bool is_answer, const struct bytes *message);
};

/** checkpoint_vote_run() - take all arrived messages, of this vote and of earlier ones, and send
 * the messages due. 0; -EBADMSG; -ENOMEM; the errors of @links */
int checkpoint_vote_run(struct checkpoint_vote *vote,
                        const struct checkpoint_vote_links *links) CHECK_RESULT;
