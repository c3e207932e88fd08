/*
 * What a generation takes of the device's memory, before any of it is taken: a plan that does not
 * fit is refused with the numbers instead of failing half-way.
 *
 * Counted is what the worker will take for its rank: units that it does not hold yet (those of the
 * last generation stay until the first commit), and of the arena gradient buffers, activations of
 * the micro-batches in flight, gradients of copies of other stages, and where sums across replicas
 * are made on the device room for what the others send. Before a generation has agreed on its
 * routes (worker/device/routes.h) that room is counted if it may come to that; the engine,
 * afterwards, takes no more than was counted.
 */
#pragma once

#include "elastic/plan/plan.h"
#include "model/net/stage.h"
#include "worker/state/state.h"

struct memory_need {
    size_t state_bytes;      /* parameters, weights and moments of the units that come */
    size_t gradient_bytes;   /* of lanes that run one after another, of copies, of the tied table */
    size_t activation_bytes; /* of the micro-batches in flight (model/net/stage.h) */
    size_t reduction_bytes;  /* room for the sums of other replicas (worker/step/reduction.h) */
};

/** memory_recompute() - what the stages of @plan compute again instead of keeping it */
enum stage_recompute memory_recompute(const struct plan *plan);

/** memory_need() - of @rank of @plan, one of its workers, beside the state that is held now
 * @sums_on_device: sums across replicas are made there, or may be */
struct memory_need memory_need(const struct state *state, const struct plan *plan, unsigned rank,
                               bool sums_on_device);

/** memory_arena_bytes() - the part of @need that the arena gives; SIZE_MAX: more than there can be
 */
size_t memory_arena_bytes(const struct memory_need *need);

/**
 * memory_check() - whether the device has as much: 0, or -ENOMEM with the numbers
 *
 * What the arena keeps counts as free. Where the device does not say what is free (kernel->memory)
 * everything fits.
 */
int memory_check(const struct state *state, const struct memory_need *need,
                 struct error *error) CHECK_RESULT;

/** memory_make_room() - what passed memory_check() goes before an arena that is kept in its way; no
 * part of that is in use */
void memory_make_room(struct state *state, const struct memory_need *need);
