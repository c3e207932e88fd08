/*
 * Enter a generation and leave it: decide which of the held state stays, read or initialize the
 * rest, open the links, and hand over state. trainer->plan is the generation's plan.
 */
#pragma once

#include "worker/session/trainer.h"

/** generation_apply() - apply the step of @record, which all ranks hold, once the checkpoint in
 * flight has copied the state that changes */
void generation_apply(struct trainer *trainer, const struct step_record *record);
/** generation_settle() - before the old engine is freed: apply a step that the survivors agreed to
 * keep, from the held gradients; -EDOM: it must not be applied (worker/session/divergence.h) */
int generation_settle(struct trainer *trainer, struct error *error) CHECK_RESULT;
/** generation_close() - free the engine, routes and links of the last generation; keep the engine's
 * sums and losses of a step in progress */
void generation_close(struct trainer *trainer);
/** generation_drop_state() - drop the state, the step in progress, and all knowledge of both */
void generation_drop_state(struct trainer *trainer);
/** generation_forget_step() - drop the kept sums and losses of a step in progress */
void generation_forget_step(struct trainer *trainer);

/** generation_steps_aside() - true if a plan without this worker continues from the state that it
 * holds. The worker keeps the state: after another failure before the first commit it may be the
 * last copy */
bool generation_steps_aside(const struct trainer *trainer);
/** generation_fits() - check that the held state may be used in this plan; false with @error */
bool generation_fits(struct trainer *trainer, unsigned rank, struct error *error);
/** generation_make_room() - free memory for this rank's part; -ENOMEM with the numbers: the device
 * cannot hold it */
int generation_make_room(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;
/** generation_obtain_state() - obtain the state that no other worker hands over: from the seed, a
 * model folder or a checkpoint */
int generation_obtain_state(struct trainer *trainer, unsigned rank,
                            struct error *error) CHECK_RESULT;
/** generation_join() - open the links, and begin to hand over state both ways. -ECANCELED: another
 * plan replaces this one, or the worker is to stop */
int generation_join(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;
/** generation_rejoin() - after the links of a generation broke because it ends within a step: drop
 * the step, and open links among the same ranks again, with the key of @next. Errors as
 * generation_join() */
int generation_rejoin(struct trainer *trainer, unsigned rank, const struct plan *next,
                      struct error *error) CHECK_RESULT;
/** generation_finish_handover() - wait until all units are handed over to and by this worker, when
 * no step does so first: before the finished model's evaluation and the last checkpoint */
int generation_finish_handover(struct trainer *trainer, struct error *error) CHECK_RESULT;
/** generation_confirm() - after the first round of all ranks (a commit, or the round before the
 * last evaluation), which proves that each rank has its state: drop the units that only others need
 * now, and release the donors. Later calls do nothing. Errors as the mesh */
int generation_confirm(struct trainer *trainer) CHECK_RESULT;
/** generation_end_sums() - end the moves of sums, before the engine is closed; when the generation
 * broke, after its links */
void generation_end_sums(struct trainer *trainer);
/** generation_end_handover() - end the handover; when the generation broke, after its links */
void generation_end_handover(struct trainer *trainer);
