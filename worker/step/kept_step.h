/*
 * The part of a step in progress that a worker keeps when its generation ends within the step: the
 * gradient sums and losses that it has computed (protocol/step_division.h).
 *
 * The copies that the worker keeps of another replica's sums go with it (worker/step/sum_copies.h).
 *
 * It is good for the next generations as long as the worker's state is of the boundary before that
 * step. Sums of units outside the worker's next stage go to the ranks that want them
 * (worker/step/moved_sums.h), and are lost with the engine after that. Sums whose reduction has
 * begun to overwrite them are lost, and so are those of pipelines on GPUs: when a link breaks, the
 * device may have computed with memory that never arrived.
 */
#pragma once

#include "worker/step/copied_sums.h"
#include "worker/step/engine.h"
#include "worker/step/memory.h"

struct kept_step;

/** kept_step_possible() - true if the engine has a step in progress, and sums of it can be kept, or
 * this rank keeps copies of others' (@has_copies) */
bool kept_step_possible(struct engine *engine, bool has_copies);
/** kept_step_new() - take gradients and losses out of an engine whose links are closed
 * @copies: that this rank keeps; taken in any case; NULL: none
 *
 * NULL: no memory, and the engine keeps gradients and losses. */
struct kept_step *kept_step_new(struct engine *engine, struct copied_sums *copies);
/** kept_step_free() - NULL allowed. The buffers go back to the arena */
void kept_step_free(struct kept_step *kept);

/** kept_step_is_current() - true if it is of the step after the worker's boundary */
bool kept_step_is_current(const struct kept_step *kept, const struct state *state);
/** kept_step_arena_bytes() - return the arena bytes of an engine of @rank in @layout beside the
 * kept sums; NULL: none */
size_t kept_step_arena_bytes(const struct kept_step *kept, const struct plan_layout *layout,
                             unsigned rank, const struct memory_need *need);
/** kept_step_fits() - true if it is current, and an engine of @rank in @layout has room beside it
 * in the arena */
bool kept_step_fits(const struct kept_step *kept, const struct state *state,
                    const struct plan_layout *layout, unsigned rank,
                    const struct memory_need *need);

struct step_sums_range {
    unsigned first_unit, end_unit;
};

/** kept_step_list() - add the sums of the trained units of @range to @sums, as those of rank
 * @source. -ENOMEM */
int kept_step_list(const struct kept_step *kept, const struct step_sums_range *range,
                   unsigned source, struct step_sums *sums) CHECK_RESULT;
/** kept_step_list_losses() - put the losses into @sums. -ENOMEM */
int kept_step_list_losses(const struct kept_step *kept, struct step_sums *sums) CHECK_RESULT;
/** kept_step_losses_of() - put the losses of the step that @engine computes into @sums. -ENOMEM */
int kept_step_losses_of(const struct engine *engine, struct step_sums *sums) CHECK_RESULT;
/** kept_step_copies() - return the copies of other ranks' sums, borrowed; NULL: none.
 * kept_step_take_copies() - the same, the caller's */
const struct copied_sums *kept_step_copies(const struct kept_step *kept);
struct copied_sums *kept_step_take_copies(struct kept_step *kept);
/** kept_step_sum() - return the buffer of a listed sum, in the arena; NULL: there is none */
const float *kept_step_sum(const struct kept_step *kept, const struct step_sum *sum);
/** kept_step_adopt_losses() - keep the losses of @sums, own and offered ones; *@kept is made where
 * this worker has nothing of its own. -ENOMEM */
int kept_step_adopt_losses(struct kept_step **kept, struct state *state,
                           const struct step_sums *sums) CHECK_RESULT;

/** kept_step_take_gradients() - hand the gradients over to an engine's own; the caller owns them */
struct gradients *kept_step_take_gradients(struct kept_step *kept);
/** kept_step_return_gradients() - take the gradients back from an engine that never began the
 * step */
void kept_step_return_gradients(struct kept_step *kept, struct gradients *gradients);
/** kept_step_restore() - put the losses of the lanes with which this replica goes on into
 * state->hold of an engine that begins the step, on the last stage. Does nothing for NULL */
void kept_step_restore(const struct kept_step *kept, struct engine *engine);
