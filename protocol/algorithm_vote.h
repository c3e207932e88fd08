/*
 * A vote on the algorithms that the workers' libraries have chosen. On one kind of device the
 * choice for a shape follows from the libraries, and workers with other libraries are kept apart by
 * their identity. But a library may choose by facts that no identity names. Then replicas would
 * compute different bits, and the run's bits would not be known. So the workers compare their
 * choices when a generation begins, up and down the tree of ranks, and those that differ must
 * leave.
 *
 * For each shape the choice with the largest weight wins: the choice of a worker that has trained
 * before outweighs all others, because the run's bits so far come from it. Then the number of
 * workers counts, and then the lowest rank. Shapes of one stage are compared among the workers that
 * have them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "elastic/plan/plan_layout.h"
#include "protocol/tree_round.h"

/* Different choices of all workers; further ones are not compared. A stage has some 40 shapes. */
#define ALGORITHM_CHOICES_MAX 2048

struct algorithm_choice {
    uint64_t shape, choice; /* digests of their names */
    uint64_t weight;
};

struct algorithm_choices {
    unsigned count;
    struct algorithm_choice list[ALGORITHM_CHOICES_MAX];
};

/* The content of the round on one rank. */
struct algorithm_vote {
    struct algorithm_choices choices; /* of this rank's subtree */
    struct algorithm_choices winners; /* of each disputed shape, when the round is done */
};

/** algorithm_vote_begin() - begin the round of one rank of @layout, without choices yet. Errors of
 * the round (protocol/tree_round.h): -EBADMSG; -ENOMEM */
void algorithm_vote_begin(struct algorithm_vote *vote, struct tree_round *round,
                          const struct plan_layout *layout, unsigned rank);
/** algorithm_vote_add() - add a choice of this rank; @trained: this rank has trained with it */
void algorithm_vote_add(struct algorithm_vote *vote, uint64_t shape, uint64_t choice, bool trained);
/** algorithm_vote_lost() - true if another choice than @choice has won for @shape */
bool algorithm_vote_lost(const struct algorithm_vote *vote, uint64_t shape, uint64_t choice);
