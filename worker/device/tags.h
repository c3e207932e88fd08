/* Tags of the messages on a mesh: what a message is, which step it belongs to, and which one of
 * them. */
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
    TAG_CLOSING,        /* the same two for the rounds that end a job */
    TAG_CLOSED,
    TAG_STATE,      /* index: unit handed over */
    TAG_STATE_HEAD, /* index: unit */
    TAG_RELEASE,    /* to a donor: its state has arrived for good */
    TAG_HISTORY,    /* metrics for a node that has none */
    TAG_SHADOW,     /* index: unit whose gradient goes to the copy of its stage */
    TAG_ROUTE,      /* how tensors travel, before the first step */
    TAG_DATA,       /* whether all read the same data, before that */
    TAG_DISPUTE,    /* who holds which gradients, when replicas hold different ones */
    TAG_DIGEST,     /* of what went from device to device; index: which way */
};

/* kind: 8 bits, step: 24 (steps in flight never differ by more than one), index: 24, low 8 free */
static inline uint64_t tag_make(enum tag_kind kind, uint64_t step, unsigned index)
{
    return (uint64_t)kind << 56 | (step & 0xffffff) << 32 | (uint64_t)(index & 0xffffff) << 8;
}
