/*
 * When a generation begins from memory, all ranks agree how the step in progress continues: facts
 * go up the tree of ranks, the root divides the step, and the division comes down
 * (protocol/step_division.h). The cost is two messages of a few words for each lane in progress.
 */
#pragma once

#include "elastic/plan/plan_layout.h"
#include "protocol/step_division.h"
#include "protocol/tree_round.h"

/* The question, the same on all ranks except for `rank`. */
struct division_question {
    const struct plan_layout *layout; /* borrowed until the end of the round */
    unsigned rank;                    /* of this worker */
    uint64_t step;                    /* in progress */
    unsigned trained_from;            /* first trained unit */
    unsigned lanes, micro_batches;    /* of the job; of one lane */
};

/* The content of the round on one rank. */
struct division_round {
    const struct plan_layout *layout;
    unsigned rank;
    uint64_t step;
    unsigned trained_from;
    unsigned rank_count;           /* of the layout */
    struct step_facts *facts;      /* (rank_count,), owned: of this rank's subtree */
    struct step_division division; /* when the round is done: the same on all ranks */
};

/**
 * division_round_begin() - begin the round of one rank
 * @mine: the facts of this rank; taken
 *
 * Errors of the round (protocol/tree_round.h): -EBADMSG, also if the division counts on a sum that
 * this rank does not have; -ENOMEM. Call division_round_done() in any case.
 */
int division_round_begin(struct division_round *content, struct tree_round *round,
                         const struct division_question *question,
                         struct step_facts *mine) CHECK_RESULT;
void division_round_done(struct division_round *content);
