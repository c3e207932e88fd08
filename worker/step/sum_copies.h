/*
 * Copies of gradient sums while a step is computed: this rank sends copies of its own to its
 * keeper, and keeps those of the rank before it in the ring (protocol/sum_copies.h).
 *
 * The keeper asks and says what it has. Its owner answers with a list of sums and, in bulk, with
 * the sums: copies of the buffers, which grow on meanwhile. Both look for messages between two
 * operations of the pipeline and while they wait for others. No copy is begun once the reduction of
 * a unit has begun, which overwrites sums; an empty list ends the step, and the keeper waits for
 * it, so nothing is under way between two steps.
 *
 * Only with host memory: the planner lets no GPUs copy sums. A keeper without memory for what it
 * has asked for fails the step.
 */
#pragma once

#include "worker/step/copied_sums.h"
#include "worker/step/engine.h"

struct sum_copies;

/** sum_copies_new() - prepare both roles of this rank; *ret_copies is NULL where the plan wants no
 * copies. -ENOMEM; -ENOTSUP: a device with memory of its own */
int sum_copies_new(struct engine *engine, struct sum_copies **ret_copies,
                   struct error *error) CHECK_RESULT;

/* All functions below accept NULL; those with a result return the errors of mesh_wait(), and
 * -EBADMSG, -ENOMEM. */

/** sum_copies_adopt() - keep the copies of the engine before, which are taken; NULL: none */
void sum_copies_adopt(struct sum_copies *copies, struct copied_sums *kept);
/** sum_copies_begin() - begin a step, or the rest of one */
int sum_copies_begin(struct sum_copies *copies) CHECK_RESULT;
/** sum_copies_advance() - receive what is here, and send what is due, without waiting; fails the
 * mesh where it fails */
int sum_copies_advance(struct sum_copies *copies) CHECK_RESULT;
/** sum_copies_stop() - begin no more copies in this step: sums are overwritten from now on */
void sum_copies_stop(struct sum_copies *copies);
/** sum_copies_finish() - end the step: wait until the copies under way have arrived, when all ranks
 * have computed their parts */
int sum_copies_finish(struct sum_copies *copies) CHECK_RESULT;

/** sum_copies_close() - end it before the mesh is closed; within a step, this fails the mesh */
void sum_copies_close(struct sum_copies *copies);
/** sum_copies_keeps_any() - return whether this rank keeps copies of the step in progress */
bool sum_copies_keeps_any(const struct sum_copies *copies);
/** sum_copies_take() - return the copies that this rank keeps, after sum_copies_close(): the
 * caller's; NULL: none */
struct copied_sums *sum_copies_take(struct sum_copies *copies);
void sum_copies_free(struct sum_copies *copies);
