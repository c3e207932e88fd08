/*
 * Problem: after a reduction all replicas of a stage, and its shadow, hold the same gradients, and
 * before it the same parameters and moments. Where one does not, a bit was lost in a memory, a
 * device or a link, and whoever goes on with it makes another model. That they differ is seen in
 * the square sums and the digests that every commit carries; who is wrong is not.
 *
 * Design: a commit in dispute is none. Its root tells all, and then all claims (rank, unit, bits of
 * the square sum or the digest) go up the tree of ranks, and one verdict down
 * (elastic/step/dispute_verdict.h). Whoever is wrong goes: its slot is out of service, and the
 * others go on. Without a majority nobody can tell; if it comes out so again, all who hold that
 * unit go. Nobody goes before all know the verdict: who has only seen links break would not know
 * why.
 *
 * Gradients: whatever the verdict, and also without one, nobody holds the step any more: it is
 * computed anew from the state before it, that nobody has left. What replicas differ in must not
 * stand because those who have it otherwise died while all were still asking.
 *
 * State: it is older than the step, and since it is there the gradients of all were made with it,
 * so nobody's state is right any more. All let go of theirs, whatever the verdict, and the job goes
 * back to the newest checkpoint, whose state all held alike (worker/state/state_digest.h). A
 * majority that got its state from the one who is wrong accuses the one who is right: that costs a
 * slot, no bit. Who was not told, for links broke meanwhile, reports its state as good; but one
 * word of those who know is enough for the leader to count on none (CAUSE_STATE_DISPUTED).
 *
 * Not seen: what all replicas have alike, and what nobody else holds.
 */
#pragma once

#include "elastic/plan/plan.h"
#include "elastic/step/dispute_verdict.h"
#include "worker/state/state_digest.h"
#include "worker/step/tree_exchange.h"

/* The worse one last: where both are, state is what the dispute is about. */
enum dispute_about { DISPUTE_NOTHING, DISPUTE_GRADIENTS, DISPUTE_STATE };

/**
 * dispute_run() - by all workers of @plan, once a commit of @step was found to be in dispute
 * @mine: @count claims of @rank; borrowed
 *
 * Return: 0: @ret_verdict is the same everywhere and accuses somebody; -ECONNRESET, -ETIMEDOUT (the
 * mesh failed); -EBADMSG, also where the claims agree: then there was no reason to go; -ENOMEM
 */
int dispute_run(struct mesh *mesh, const struct plan *plan, unsigned rank, uint64_t step,
                const struct dispute_verdict_claim *mine, size_t count,
                struct dispute_verdict *ret_verdict) CHECK_RESULT;

/**
 * dispute_outcome() - what the verdict on @step means for @rank
 * @again: this rank has seen it in dispute before, without a majority
 *
 * Return, always with words in @error: -ENOTRECOVERABLE: its slot must go out of service; about
 * gradients -ECONNRESET: others go, or -EAGAIN: nobody knows who is wrong; about state -EUCLEAN: it
 * must let go of what it has
 */
int dispute_outcome(const struct plan *plan, unsigned rank, enum dispute_about about, uint64_t step,
                    const struct dispute_verdict *verdict, bool again,
                    struct error *error) CHECK_RESULT;

/*
 * What a worker remembers of disputes without a majority; all zero: none. It is the worker's own: a
 * process that took the place of one that was in the first of two has been in one only, and stays,
 * while the one that was in both goes.
 */
struct dispute_memory {
    uint64_t gradients_step; /* the last one; until the job goes back to a checkpoint */
    uint64_t state_step;
};

/** dispute_memory_rollback() - the job goes back: the same steps are computed from another state */
void dispute_memory_rollback(struct dispute_memory *memory);

/**
 * dispute_settle() - dispute_run() on what @state and @digests hold, and its outcome; @state holds
 * no step then
 *
 * State counts as seen before if it was in dispute no more than an interval of checkpoints ago, or
 * as many steps as all units take to be compared: whoever loses bits so often makes no way.
 *
 * Return: never 0; about gradients what dispute_run() and dispute_outcome() return, about state
 * what dispute_outcome() does, -EUCLEAN where there was no verdict
 */
int dispute_settle(struct mesh *mesh, const struct plan *plan, unsigned rank,
                   enum dispute_about about, uint64_t step, struct state *state,
                   const struct unit_digests *digests, struct dispute_memory *memory,
                   struct error *error) CHECK_RESULT;
