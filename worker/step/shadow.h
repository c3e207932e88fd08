/*
 * Shadows: a copy of a stage's state on another node that stays equal to the bit, so that a stage
 * whose replicas are all on one node survives the loss of that node.
 *
 * Roles: the plan names the worker that shadows each stage (elastic/planner/shadow_stages.h
 * decides). The stage's worker of replica 0 feeds the shadow. A shadow is a worker of the job with
 * a stage of its own: it has a rank in the commit tree, on which the protocol relies.
 *
 * The protocol.
 *   1. When a generation begins, the shadow gets parameters and moments of the stage's units as any
 *      worker gets its own: by the plan's moves, from the checkpoint, or from the seed.
 *   2. In step s the feeding worker sends the reduced, unclipped gradient of each trained unit as
 *      soon as it is final: with one replica when backward has passed the unit, so that the send
 *      overlaps with the rest of backward; else (replicas on one node, a tied table) at the end of
 *      the reduction. The shadow has posted its receives when its step began, so bytes are read
 *      straight into their buffers and no link has to store them.
 *   3. The shadow sends HOLD(s) only when it has these gradients too. So the complete record, which
 *      is COMMIT(s), proves that two workers hold every stage's gradients. The feeding worker never
 *      waits. The shadow puts the units' square sums, computed from the gradients that it received,
 *      into its own record. Records that differ start a dispute (worker/step/dispute_round.h), so
 *      each step checks that the two copies will be equal. After a failure the step can be kept
 *      without the stage's worker.
 *   4. On COMMIT(s) both apply the same optimizer code to the same gradients with the same
 *      committed norm. Freezing is a function of the committed record, so both stop at the same
 *      unit; frozen units are only kept.
 *
 * The gradients are not sent one step later, hidden behind the next forward: if the stage's worker
 * dies when others have applied s and the shadow has no gradients of s, no worker can bring the
 * stage to s, and the others cannot go back. With HOLD by the shadow, the table of
 * elastic/recovery/recovery.h applies to each moment of death, with "survivor" read as worker or
 * shadow. Before all hold: no worker has applied s, and s is replayed from the shadow's copy at
 * s - 1. All hold, or some have applied: the shadow holds, and applies by the plan's commit.
 *
 * Cost: the bytes of the trained parameters once a step on the links (as much as for one more
 * replica), one more optimizer step and norm on the shadow's device, and four times the trained
 * parameters in its memory.
 */
#pragma once

#include "worker/step/engine.h"

struct shadow; /* one worker's part in one engine: the copies that it feeds and keeps */

/** shadow_new() - create the shadow part of @engine; *ret_shadow is NULL when the rank neither
 * feeds nor keeps a copy; -ENOMEM */
int shadow_new(const struct engine *engine, struct shadow **ret_shadow) CHECK_RESULT;

/** shadow_free() - wait for all posted messages; call it before the mesh and the gradients are
 * freed. NULL allowed */
void shadow_free(struct shadow *shadow);

/** shadow_begin() - begin a step: complete the last step's sends, post the receives */
int shadow_begin(struct shadow *shadow) CHECK_RESULT;

/** shadow_unit_passed() - send the gradient of @unit if it is final after backward */
int shadow_unit_passed(struct shadow *shadow, unsigned unit) CHECK_RESULT;

/** shadow_reduced() - send the other gradients: all gradients of the stage are final */
int shadow_reduced(struct shadow *shadow) CHECK_RESULT;

/** shadow_await() - wait until this worker has the gradients of all copies that it keeps */
int shadow_await(struct shadow *shadow) CHECK_RESULT;

/** shadow_gradients() - return the gradients of the copied units, by unit of the model; NULL for
 * the other units */
float *const *shadow_gradients(const struct shadow *shadow);
