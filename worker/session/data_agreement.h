/*
 * A vote on the training data: all workers of a job must read the same data, because a worker with
 * other files would train another run. Only the workers that differ must leave, so the workers vote
 * before a generation's first step, up and down the tree of ranks. Where they disagree no worker
 * leaves before all know the outcome: a worker with wrong data that only saw its links break would
 * be planned into the next generation. The data behind the state that the workers hold wins. Before
 * the first step the data of more than half of the workers wins; without a majority all must leave,
 * because the wrong data is not known.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "comm/mesh/mesh.h"
#include "elastic/plan/plan_layout.h"

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

/** data_votes_init() - init for one rank, whose state was trained on @known (0: on no data) */
void data_votes_init(struct data_votes *votes, uint64_t digest, uint64_t known);
/** data_votes_merge() - add @part to @sum; -EBADMSG: the states come from different data, which is
 * impossible within a run */
int data_votes_merge(struct data_votes *sum, const struct data_votes *part) CHECK_RESULT;
/** data_votes_outcome() - return the digest that wins; 0: none */
uint64_t data_votes_outcome(const struct data_votes *votes);

/**
 * data_agreement_run() - run one vote among the workers of @layout
 * @digest: of this rank's data, not 0; @known: as in data_votes_init()
 *
 * Return: 0: all continue with @digest; -EILSEQ: this rank must leave, with the reason in @error;
 * -ECONNRESET, -ETIMEDOUT (the mesh failed); -EBADMSG; -ENOMEM
 */
int data_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       uint64_t digest, uint64_t known, struct error *error) CHECK_RESULT;
