/*
 * Shadows: a copy of a stage's state on another node that stays equal to the bit, so that a stage
 * whose replicas are all on one node survives the loss of that node.
 *
 * Who: the plan says which worker shadows which stage (elastic/planner/shadow_stages.h decides).
 * The stage's worker of replica 0 feeds it. A shadow is a worker of the job with a stage of its
 * own: it has a rank in the commit tree, and that is what the protocol rests on.
 *
 * The protocol.
 *   1. When a generation begins the shadow gets parameters and moments of the stage's units as any
 *      worker gets its own: by the plan's moves, from the checkpoint, or from the seed.
 *   2. In step s the feeding worker sends the reduced, unclipped gradient of each trained unit as
 *      soon as it is final: with one replica when backward has passed the unit, so that it travels
 *      while backward goes on below; else (replicas on one node, a tied table) at the end of the
 *      reduction. The shadow has posted its receives when its step began, so bytes are read
 *      straight into their buffers and no link has to store them.
 *   3. The shadow says HOLD(s) only when it has these gradients too. So the complete record, which
 *      is COMMIT(s), proves that every stage's gradients are held twice; the feeding worker waits
 *      for nothing. The shadow puts the units' square sums, computed from what it received, into
 *      its own record: records that differ end the job (worker/step/step_commit.c), so each step
 * checks that the two copies will be equal; and after a failure the step can stand without the
 *      stage's worker.
 *   4. On COMMIT(s) both apply the same optimizer code to the same gradients with the same
 *      committed norm. Freezing is a function of the committed record, so both stop at the same
 *      unit; what is frozen is only kept.
 *
 * Why not one step later, hidden behind the next forward: if the stage's worker dies when others
 * have applied s and the shadow has no gradients of s, nobody can bring the stage to s, and the
 * others cannot go back. With HOLD by the shadow the table of elastic/recovery/recovery.h holds
 * with "survivor" read as worker or shadow, for each moment of death: before all hold: nobody has
 * applied, s is replayed from the shadow's copy at s - 1; all hold, or some have applied: the
 * shadow holds, and applies by the plan's commit.
 *
 * Cost: the bytes of the trained parameters once a step on the links (as much as one replica more
 * would cost), an optimizer step and a norm more on the shadow's device, and four times the trained
 * parameters in its memory.
 */
#pragma once

#include "worker/step/engine.h"

struct shadow; /* one worker's part in one engine: what it feeds, what it keeps */

/** shadow_new() - NULL into *ret_shadow when the rank neither feeds nor keeps a copy; -ENOMEM */
int shadow_new(const struct engine *engine, struct shadow **ret_shadow) CHECK_RESULT;

/** shadow_free() - waits out what is posted; before the mesh and the gradients go; NULL allowed */
void shadow_free(struct shadow *shadow);

/** shadow_begin() - of a step: the last step's sends are over, the receives are posted */
int shadow_begin(struct shadow *shadow) CHECK_RESULT;

/** shadow_unit_passed() - backward is through with @unit: feed its gradient if that is final */
int shadow_unit_passed(struct shadow *shadow, unsigned unit) CHECK_RESULT;

/** shadow_reduced() - all gradients of the stage are final: feed the rest */
int shadow_reduced(struct shadow *shadow) CHECK_RESULT;

/** shadow_await() - until this worker has the gradients of all copies that it keeps */
int shadow_await(struct shadow *shadow) CHECK_RESULT;

/** shadow_gradients() - of the units it keeps copies of, by unit of the model; NULL elsewhere */
float *const *shadow_gradients(const struct shadow *shadow);
