/*
 * A vote on the training data: all workers of a job must read the same data, because a worker with
 * other files would train a different run. Only the workers that differ must leave, so the workers
 * vote before a generation's first step, up and down the tree of ranks. If they disagree, no worker
 * leaves before all know the outcome: a worker with wrong data that only saw its links break would
 * be planned into the next generation. The data behind the state that the workers hold wins. Before
 * the first step the data of more than half of the workers wins; without a majority all must leave,
 * because the wrong data is not known.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/plan/plan_layout.h"
#include "protocol/tree_round.h"

#define DATA_VOTES_MAX                                                                             \
    8 /* different digests; further ones are not counted, and none has a majority                  \
       */

struct data_votes {
    uint64_t known; /* digest of the data behind the state; 0: nothing has been trained yet */
    unsigned count, ranks;
    struct {
        uint64_t digest;
        unsigned ranks;
    } list[DATA_VOTES_MAX];
};

/** data_votes_init() - initialize for one rank, whose state was trained on @known (0: on no
 * data) */
void data_votes_init(struct data_votes *votes, uint64_t digest, uint64_t known);
/** data_votes_merge() - add @part to @sum; -EBADMSG: the states come from different data, which is
 * impossible within a run */
int data_votes_merge(struct data_votes *sum, const struct data_votes *part) CHECK_RESULT;
/** data_votes_outcome() - return the digest that wins; 0: none */
uint64_t data_votes_outcome(const struct data_votes *votes);

/* The outcome, the same on all ranks. */
struct data_vote_outcome {
    bool known;      /* some worker has trained state, whose data counts */
    uint64_t digest; /* of the data that wins; 0: no majority */
    bool unanimous;
};

/* The content of the round on one rank. */
struct data_vote {
    struct data_votes votes;          /* of this rank's subtree */
    struct data_vote_outcome outcome; /* when the round is done */
};

/** data_vote_begin() - begin the round of one rank of @layout; @digest of its data, not 0, and
 * @known as in data_votes_init(). Errors of the round (protocol/tree_round.h): -EBADMSG; -ENOMEM */
void data_vote_begin(struct data_vote *vote, struct tree_round *round,
                     const struct plan_layout *layout, unsigned rank, uint64_t digest,
                     uint64_t known);
/** data_vote_judge() - decide the consequence for a rank of @node that reads @digest. 0: it
 * continues; -EILSEQ: it must leave, with the reason in @error */
int data_vote_judge(const struct data_vote_outcome *outcome, const char *node, uint64_t digest,
                    struct error *error) CHECK_RESULT;
