/*
 * What a worker keeps of a step in progress when its generation ends within the step: the sums of
 * gradients and the losses that it has computed (protocol/step_division.h).
 *
 * It is good for the next generations as long as the worker keeps its stage and its state at the
 * boundary before that step. Sums whose reduction has begun to overwrite them are lost, and so are
 * those of pipelines on GPUs: when a link breaks, the device may have computed with memory that
 * never arrived.
 */
#pragma once

#include "worker/step/engine.h"

struct kept_step;

/** kept_step_possible() - true if the engine has a step in progress whose sums can be kept */
bool kept_step_possible(struct engine *engine);
/** kept_step_new() - take gradients and losses out of an engine whose links are closed; NULL: no
 * memory, and the engine keeps them */
struct kept_step *kept_step_new(struct engine *engine);
/** kept_step_free() - NULL allowed. The buffers go back to the arena */
void kept_step_free(struct kept_step *kept);

/** kept_step_fits() - true if an engine of @rank in @layout can go on with it: the same stage,
 * whose state is still here, and room in the arena */
bool kept_step_fits(const struct kept_step *kept, const struct state *state,
                    const struct plan_layout *layout, unsigned rank, size_t arena_bytes);
/** kept_step_facts() - describe it to the other ranks; nothing for NULL. -ENOMEM */
int kept_step_facts(const struct kept_step *kept, const struct plan_layout *layout, unsigned rank,
                    struct step_facts *ret_facts) CHECK_RESULT;

/** kept_step_take_gradients() - hand the gradients over to an engine's own; the caller owns them */
struct gradients *kept_step_take_gradients(struct kept_step *kept);
/** kept_step_return_gradients() - take them back from an engine that never began the step */
void kept_step_return_gradients(struct kept_step *kept, struct gradients *gradients);
/** kept_step_restore() - put the losses of the lanes that are this replica's into state->hold of an
 * engine that begins the step. Nothing for NULL */
void kept_step_restore(const struct kept_step *kept, struct engine *engine);
