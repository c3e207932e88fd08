/*
 * The training state of a worker: parameters and moments of some units at one step boundary, and
 * the freeze state, which every worker has in full.
 *
 * Between steps all held units are at `applied_step`. `holds` is true when the reduced gradients of
 * step applied_step + 1 are complete for the units of the current stage and for those that this
 * worker shadows (HOLD in elastic/recovery/recovery.h). The engine that computed the gradients
 * keeps them, and is kept until they are applied or dropped.
 */
#pragma once

#include "checkpoint/read/load.h"
#include "elastic/step/freeze.h"
#include "elastic/step/step_record.h"
#include "kernels/kernel.h"
#include "model/net/unit.h"
#include "protocol/sum_copies.h"
#include "worker/device/pinned.h"
#include "worker/state/arena.h"

struct state_unit {
    struct unit_layout layout;
    bool held;
    bool reserved;     /* not held: the memory is already allocated, zeroed */
    float *parameters; /* device, layout.count */
    void *weights; /* the parameters in the type of the activations (model/net/stage.h); the same
                      memory if that is f32 */
    float *first_moment, *second_moment; /* NULL when the unit never trains again; zero when it is
                                            frozen and may thaw */
};

struct state {
    const struct job_spec *spec; /* borrowed */
    struct model_spec model;
    const struct kernel *kernel;
    struct kernel_device *device;     /* borrowed */
    struct arena *arena;              /* memory of an engine */
    struct pinned *pinned;            /* buffers of an engine's messages */
    unsigned thread_count;            /* host threads that initialize a unit; 1 unless set */
    struct sum_copies_cost copy_cost; /* of the last copy of sums (worker/step/sum_copies.h) */
    struct load_listener listener; /* notified while units are read from files; none unless set */
    unsigned unit_count;
    struct state_unit *units;
    struct kernel_adamw_tensor *step_tensors; /* room for all of one optimizer step */

    uint64_t applied_step;
    uint64_t data_digest; /* low word of the dataset's digest behind applied_step; 0: not known */
    struct freeze_state freeze;
    struct step_record committed; /* of applied_step; step 0 when the state came from elsewhere */
    bool holds;
    struct step_record hold; /* of applied_step + 1, this worker's part */
};

/** state_new() - create a state without units; @spec, @kernel and @device are borrowed; -EINVAL (no
 * model), -ENOMEM */
int state_new(const struct job_spec *spec, const struct kernel *kernel,
              struct kernel_device *device, struct state **ret_state,
              struct error *error) CHECK_RESULT;
void state_free(struct state *state);

/** state_model() - return the model part of a job; -EINVAL: this build does not know the family */
int state_model(const struct job_model *job_model, struct model_spec *ret_model,
                struct error *error) CHECK_RESULT;

/** state_reserve_unit() - allocate the memory of a unit that is not held, before its state arrives;
 * with moments if @trained (now or later). Zeroed, so all its pages exist. -ENOMEM: nothing is
 * reserved
 * @device: that of the state, or another one of its kernel if another thread calls; the state's
 * thread may use all other units meanwhile */
int state_reserve_unit(struct state *state, struct kernel_device *device, unsigned index,
                       bool trained, struct error *error) CHECK_RESULT;
/** state_take_unit() - mark a unit held, in reserved memory if there is any (zeroed; moments unless
 * it never trains again) */
int state_take_unit(struct state *state, unsigned index, struct error *error) CHECK_RESULT;
void state_drop_unit(struct state *state, unsigned index);
/** state_drop_all() - drop all units */
void state_drop_all(struct state *state);

/** state_begin() - set step 0: nothing applied, held or frozen; units stay as they are */
void state_begin(struct state *state);

/** state_initialize() - initialize units [first, first + count) from the seed, at step 0; all other
 * held units must be at step 0 too */
int state_initialize(struct state *state, unsigned first, unsigned count,
                     struct error *error) CHECK_RESULT;

/** state_make_weights() - compute the weights from parameters of another source; AdamW keeps them
 * equal afterwards */
void state_make_weights(struct state *state, unsigned index);

static inline unsigned state_frozen_units(const struct state *state)
{
    return model_frozen_units(&state->model, state->freeze.frozen_layers);
}
/** state_settled_units() - return how many of the model's first units never train again */
unsigned state_settled_units(const struct state *state);
/** state_tied() - true while the head's table is tied to the embedding's */
bool state_tied(const struct state *state);
/** state_mirrored() - true if @tensor is a copy of another unit's tensor: not in norms, not in
 * checkpoints */
bool state_mirrored(const struct state *state, const struct unit_tensor *tensor);

/**
 * state_apply() - run the optimizer step of @record, complete, on every unit with a gradient
 * @gradients: per unit of the model: its reduced gradient, device, flat; NULL: not on this worker
 *
 * Clips by the record's norm; a record without a finite loss and norm changes no parameter. Then
 * advances applied_step and the freeze state; units that freeze now lose their moments, and units
 * that thaw begin with moments of zero. Cannot fail.
 */
void state_apply(struct state *state, const struct step_record *record, float *const *gradients);

/** state_list_held() - set ret_held[unit] for each unit of the model */
void state_list_held(const struct state *state, bool *ret_held);

/** state_encode() - encode the data that accompanies tensors to checkpoints and other workers:
 * freeze state and data digest; new reference, NULL when memory is short */
json_t *state_encode(const struct state *state);
/** state_decode() - decode state_encode(); -EINVAL names the key; @ret_data_digest: 0: not known */
int state_decode(const json_t *tree, unsigned layers, struct freeze_state *ret_freeze,
                 uint64_t *ret_data_digest, struct error *error) CHECK_RESULT;

/** state_held_range() - return the first contiguous held range at or after @from; count 0: none */
void state_held_range(const struct state *state, unsigned from, unsigned *ret_first,
                      unsigned *ret_count);
