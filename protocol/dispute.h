/*
 * Problem: after a reduction all replicas of a stage, and its shadow, hold the same gradients, and
 * before it the same parameters and moments. If one replica differs, a bit was wrong in a memory, a
 * device or a link, and a worker that continues from it trains a different model. The square sums
 * and the digests in every commit show that replicas differ, but not which one is wrong.
 *
 * Design: a disputed step does not commit. The root of the commit tree informs all ranks. Then all
 * claims (rank, unit, bits of the square sum or the digest) go up the tree of ranks, and one
 * verdict comes down (elastic/step/dispute_verdict.h). An accused worker leaves, its slot goes out
 * of service, and the others continue. Without a majority the wrong replica is not known; if the
 * dispute recurs, all holders of that unit leave. No worker leaves before all ranks have the
 * verdict: a rank that only sees its links break would not know why.
 *
 * Gradients: with or without a verdict, no rank holds the step any more. The step is computed again
 * from the state before it, which every rank still has. The death of the disagreeing replicas
 * before the verdict must not lead to a disputed gradient being applied.
 *
 * State: a wrong state is older than the step, and all gradients since then were computed with it,
 * so the state of every rank is wrong. All ranks drop their state, with every verdict, and the job
 * goes back to the newest checkpoint, whose state was equal on all ranks
 * (worker/state/state_digest.h). A majority that got its state from the wrong replica accuses the
 * right one: this costs a slot, but no bit. A rank that does not learn of the dispute, because
 * links broke meanwhile, reports its state as good. But one report of a rank that knows is enough
 * for the leader to discard the state of all ranks (CAUSE_STATE_DISPUTED).
 *
 * Not detected: errors that all replicas share, and errors in units with a single holder.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/plan/plan_layout.h"
#include "elastic/step/dispute_verdict.h"
#include "elastic/step/step_record.h"
#include "protocol/tree_round.h"
#include "protocol/unit_digests.h"

/* In ascending order of severity: if both differ, the dispute is about state. */
enum dispute_about { DISPUTE_NOTHING, DISPUTE_GRADIENTS, DISPUTE_STATE };

/* The claims of a subtree of ranks. */
struct dispute_claims {
    struct dispute_verdict_claim *list; /* owned */
    size_t count;
};

/* The content of the round on one rank. */
struct dispute {
    const struct plan_layout *layout;
    struct dispute_claims claims;
    struct dispute_verdict verdict; /* when the round is done: the same on all ranks */
};

/**
 * dispute_begin() - begin the round of one rank: claims go up, one verdict comes down
 * @mine: @count claims of @rank; copied
 * @layout: borrowed until the end of the round
 *
 * All workers of @layout begin it once a commit was found to be in dispute. The verdict accuses at
 * least one rank. Errors of the round (protocol/tree_round.h): -EBADMSG, also if the claims agree
 * and so give no reason for a dispute; -ENOMEM. Call dispute_done() in any case.
 */
int dispute_begin(struct dispute *dispute, struct tree_round *round,
                  const struct plan_layout *layout, unsigned rank,
                  const struct dispute_verdict_claim *mine, size_t count) CHECK_RESULT;
void dispute_done(struct dispute *dispute);

/** dispute_list_claims() - list the claims of @rank in a dispute: the square sums of @record, or
 * @digests. @ret_claims has STEP_RECORD_UNITS_MAX entries. Return: their number */
size_t dispute_list_claims(const struct step_record *record, const struct unit_digests *digests,
                           enum dispute_about about, unsigned rank,
                           struct dispute_verdict_claim *ret_claims);

/**
 * dispute_outcome() - decide the consequence of the verdict on @step for @rank
 * @again: this rank has seen that step in dispute before, without a majority
 *
 * Return, always with a text in @error: -ENOTRECOVERABLE: the slot of @rank must go out of service;
 * about gradients -ECONNRESET: other ranks leave, or -EAGAIN: the wrong rank is not known; about
 * state -EUCLEAN: @rank must drop its state
 */
int dispute_outcome(const struct plan_layout *layout, unsigned rank, enum dispute_about about,
                    uint64_t step, const struct dispute_verdict *verdict, bool again,
                    struct error *error) CHECK_RESULT;

/** dispute_what_follows() - return the consequence for the job, for people: "it is computed again"
 */
const char *dispute_what_follows(enum dispute_about about);

/*
 * A worker's record of disputes without a majority; all zero: none. The record is local to one
 * process: a process that started between two disputes has seen only the second and stays, while a
 * process that has seen both leaves.
 */
struct dispute_memory {
    uint64_t gradients_step; /* of the last dispute; reset when the job goes back to a checkpoint */
    uint64_t state_step;
};

/** dispute_memory_rollback() - forget gradients: the same steps are computed from another state */
void dispute_memory_rollback(struct dispute_memory *memory);

/**
 * dispute_memory_has_seen() - return whether there was a dispute without a majority before
 * @interval: steps between checkpoints; 0: none are made. @unit_count: of the model
 *
 * A dispute about gradients counts if the last one was about the same step. A dispute about state
 * counts if the last one is no older than an interval of checkpoints, or than the number of steps
 * in which all units are compared: a worker that loses bits that often makes no progress.
 */
bool dispute_memory_has_seen(const struct dispute_memory *memory, enum dispute_about about,
                             uint64_t step, uint64_t interval, unsigned unit_count);
/** dispute_memory_note() - remember a verdict without a majority */
void dispute_memory_note(struct dispute_memory *memory, enum dispute_about about, uint64_t step,
                         const struct dispute_verdict *verdict);
