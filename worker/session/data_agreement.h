/*
 * All workers of a job read the same training data; one that reads other files would make another
 * run of it. Who differs must go, and nobody else: so the workers vote before a generation's first
 * step, up and down the tree of ranks. Where they are not of one mind nobody goes before all know
 * the outcome: who has only seen links break would be taken along into the next generation. Data
 * that has led to the state they hold counts above all. Before the first step it is the data of
 * more than half of them; without such, all must go, because nobody can tell who is wrong.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/plan/plan.h"

#define DATA_VOTES_MAX                                                                             \
    8 /* kinds of data; of more some are not counted, and none has a majority                      \
       */

struct data_votes {
    uint64_t known; /* digest of the data behind the state; 0: nothing has been trained yet */
    unsigned count, ranks;
    struct {
        uint64_t digest;
        unsigned ranks;
    } list[DATA_VOTES_MAX];
};

/** data_votes_init() - of one rank, whose state was trained on @known (0: on nothing) */
void data_votes_init(struct data_votes *votes, uint64_t digest, uint64_t known);
/** data_votes_merge() - -EBADMSG: the states come from different data, which no run has */
int data_votes_merge(struct data_votes *sum, const struct data_votes *part) CHECK_RESULT;
/** data_votes_outcome() - the digest to go on with; 0: there is none */
uint64_t data_votes_outcome(const struct data_votes *votes);

/**
 * data_agreement_run() - one vote among the workers of @plan
 * @digest: of this rank's data, not 0; @known: as data_votes_init()
 *
 * Return: 0: @digest is what all go on with; -EILSEQ: this rank must go, @error says why;
 * -ECONNRESET, -ETIMEDOUT (the mesh failed); -EBADMSG; -ENOMEM
 */
int data_agreement_run(struct mesh *mesh, const struct plan *plan, unsigned rank, uint64_t digest,
                       uint64_t known, struct error *error) CHECK_RESULT;
