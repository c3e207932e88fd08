/*
 * Problem: after a reduction all replicas of a stage, and its shadow, hold the same gradients.
 * Where one does not, a bit was lost in a memory, a device or a link, and whoever goes on with it
 * makes another model. That they differ is seen in the square sums that every commit carries; who
 * is wrong is not.
 *
 * Design: a commit in dispute is none. Its root tells all, and then all claims (rank, unit, bits of
 * the square sum) go up the tree of ranks, and one verdict down. Of each unit the value of more
 * than half of those who hold it is right, and whoever has another one goes: its slot is out of
 * service, and the others go on as after any loss. Without a majority nobody can tell; if the step
 * comes out so again, all who hold that unit go. Nobody goes before all know the verdict: who has
 * only seen links break would not know why.
 *
 * Whatever the verdict, and also without one, nobody holds the step any more: it is computed anew
 * from the state before it, that nobody has left. What replicas differ in must not stand because
 * those who have it otherwise died while all were still asking.
 *
 * Not seen: what all replicas have alike, what nobody else holds, and a wrong bit in parameters,
 * which goes into the sums of all replicas alike.
 */
#pragma once

#include "elastic/plan.h"
#include "worker/assembly.h"

struct state;

struct dispute_claim {
    unsigned rank, unit;
    uint64_t bits; /* of the square sum */
};

struct dispute_verdict {
    bool settled;           /* a majority has spoken */
    unsigned unit, holders; /* the first unit in dispute, and how many hold it */
    unsigned accused_count; /* settled: those who are wrong; else all who hold such a unit */
    unsigned accused[JOB_DEVICES_MAX]; /* ranks, ascending */
};

/**
 * dispute_judge() - from the claims of all ranks, in any order; of each rank one for a unit at most
 * @rank_count: at most JOB_DEVICES_MAX, above every rank
 *
 * Where the claims agree nobody is accused, unsettled.
 * Return: 0, -ENOMEM
 */
int dispute_judge(const struct dispute_claim *claims, size_t count, unsigned rank_count,
                  struct dispute_verdict *ret_verdict) CHECK_RESULT;

/**
 * dispute_run() - by all workers of @plan, once the commit of @mine was found to be in dispute
 *
 * Return: 0: @ret_verdict is the same everywhere and accuses somebody; -ECONNRESET, -ETIMEDOUT (the
 * mesh failed); -EBADMSG, also where the claims agree: then there was no reason to go; -ENOMEM
 */
int dispute_run(struct mesh *mesh, const struct plan *plan, unsigned rank,
                const struct step_record *mine, struct dispute_verdict *ret_verdict) CHECK_RESULT;

/**
 * dispute_outcome() - what the verdict on @step means for @rank
 * @again: this rank has seen that step in dispute before, without a majority
 *
 * Return, always with words in @error: -ENOTRECOVERABLE: its slot must go out of service;
 * -ECONNRESET: others go; -EAGAIN: nobody knows who is wrong
 */
int dispute_outcome(const struct plan *plan, unsigned rank, uint64_t step,
                    const struct dispute_verdict *verdict, bool again,
                    struct error *error) CHECK_RESULT;

/**
 * dispute_settle() - dispute_run() on what @state holds, and its outcome; @state holds nothing then
 * @disputed_step: that this rank has last seen in dispute without a majority, 0: none; kept
 *
 * Return: never 0; what dispute_run() and dispute_outcome() return
 */
int dispute_settle(struct mesh *mesh, const struct plan *plan, unsigned rank, struct state *state,
                   uint64_t *disputed_step, struct error *error) CHECK_RESULT;
