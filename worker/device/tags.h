/* Tags of the messages on a mesh: kind of message, step, and index within the step. */
#pragma once

#include <stdint.h>

enum tag_kind {
    TAG_ACTIVATION = 1, /* index: micro-batch */
    TAG_VALIDATION,     /* index: micro-batch of the evaluation */
    TAG_GRADIENT,       /* index: micro-batch */
    TAG_REDUCE,         /* index: unit; the low byte is comm/reduce/reduce.h's */
    TAG_TIE,            /* the token table's gradient between first and last stage */
    TAG_HOLD,           /* up the commit tree */
    TAG_COMMIT,         /* down the commit tree */
    TAG_CLOSING,        /* up and down the commit tree, in the rounds that end a job */
    TAG_CLOSED,
    TAG_STATE,           /* index: unit handed over */
    TAG_STATE_HEAD,      /* index: unit */
    TAG_RELEASE,         /* to a donor: its state has arrived and committed */
    TAG_HISTORY,         /* metrics for a node that has none */
    TAG_SHADOW,          /* index: unit whose gradient goes to the copy of its stage */
    TAG_ROUTE,           /* choice of carriers, before the first step */
    TAG_DATA,            /* vote on the training data, before TAG_ROUTE */
    TAG_DISPUTE,         /* claims and verdict when replicas differ */
    TAG_DIGEST,          /* of data between devices; index: direction */
    TAG_DIVISION,        /* facts about the step in progress, and its division, before the engine */
    TAG_HAS_PLAN,        /* within a step: a subtree of ranks has the next plan */
    TAG_CHECKPOINT_VOTE, /* within a step: index 0: votes, up the commit tree; 1: the answer */
    TAG_NUMERICS,        /* vote on algorithms, after TAG_ROUTE */
    TAG_SUMS,      /* offers of sums of a step in progress and their answers, before TAG_DIVISION */
    TAG_SUM,       /* index: unit of a sum that was asked for */
    TAG_HEAD_SUM,  /* index: unit of a lane's head, to the replica that computes the rest */
    TAG_HEAD_LOSS, /* of that head */
    TAG_COPIES,    /* index 0: the copies that a rank keeps; 1: a list of copies that follow */
    TAG_COPY,      /* index: of a sum in that list */
};

/* kind: 8 bits, step: 24 (steps in flight never differ by more than one), index: 24, low 8 free */
static inline uint64_t tag_make(enum tag_kind kind, uint64_t step, unsigned index)
{
    return (uint64_t)kind << 56 | (step & 0xffffff) << 32 | (uint64_t)(index & 0xffffff) << 8;
}
