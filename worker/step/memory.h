/*
 * The device memory that a generation needs, computed before any of it is allocated: a plan that
 * does not fit is refused with the numbers instead of failing half-way.
 *
 * The count includes all memory that the worker will take for its rank. Outside the arena these are
 * the units that it does not hold yet; those of the last generation stay until the first commit. In
 * the arena these are gradient buffers, activations of the micro-batches in flight, gradients of
 * copies of other stages, and, if sums across replicas are made on the device, room for the sums of
 * other replicas. Before a generation has agreed on its routes (worker/device/routes.h) that room
 * is counted if it may be needed; the engine takes no more than was counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/plan/plan_layout.h"
#include "model/net/stage.h"
#include "worker/state/state.h"

struct memory_need {
    size_t state_bytes;    /* parameters, weights and moments of the units that are not held yet */
    size_t gradient_bytes; /* of lanes that run one after another, of copies, of the tied table */
    size_t activation_bytes; /* of the micro-batches in flight (model/net/stage.h) */
    size_t reduction_bytes;  /* room for the sums of other replicas (worker/step/reduction.h) */
    unsigned deferred;       /* deferred weight gradients (elastic/plan/pipeline_schedule.h) */
};

/** memory_recompute() - return the activations that the stages of @layout recompute in backward
 * instead of keeping
 */
enum stage_recompute memory_recompute(const struct plan_layout *layout);

/** memory_settled_units() - return how many of the model's first units need only the memory of
 * units that never train again, in @layout
 *
 * A new worker learns from its donors how many are frozen; the plan may know fewer. */
unsigned memory_settled_units(const struct state *state, const struct plan_layout *layout);

/** memory_frozen_part() - return how many units of a stage are among the model's first
 * @frozen_units
 */
unsigned memory_frozen_part(unsigned first_unit, unsigned unit_count, unsigned frozen_units);

/** memory_need() - compute the need of @rank of @layout beyond the state that is held now
 * @sums_on_device: sums across replicas are made on the device, or may be
 *
 * A plan defers as many weight gradients as the slot has memory for, not counting the state of the
 * last generation that the worker still holds. If fewer fit beside that state, fewer are
 * deferred. */
struct memory_need memory_need(const struct state *state, const struct plan_layout *layout,
                               unsigned rank, bool sums_on_device);

/** memory_arena_bytes() - return the part of @need that comes from the arena; SIZE_MAX: overflow */
size_t memory_arena_bytes(const struct memory_need *need);
/** memory_arena_bytes_beside() - return the same beside the kept sums of a step in progress, of
 * @kept_bytes, which may be more than the plan has buffers for */
size_t memory_arena_bytes_beside(const struct memory_need *need, size_t kept_bytes);

/**
 * memory_check() - check that the device has enough memory: 0, or -ENOMEM with the numbers; -EIO:
 * the device has failed
 *
 * Memory that the arena keeps counts as free. If the device does not report its free memory
 * (kernel->memory), everything fits.
 */
int memory_check(const struct state *state, const struct memory_need *need,
                 struct error *error) CHECK_RESULT;

/** memory_has_room() - true if the device has memory for @need and @more_bytes; memory that the
 * arena keeps counts as free */
bool memory_has_room(const struct state *state, const struct memory_need *need, size_t more_bytes);

/** memory_is_short() - true if memory_make_room() would drop the kept arena */
bool memory_is_short(const struct state *state, const struct memory_need *need);
/** memory_make_room() - for a need that passed memory_check(): drop the kept arena if it is too
 * small or if the state needs its memory, and no part of it is in use */
void memory_make_room(struct state *state, const struct memory_need *need);
