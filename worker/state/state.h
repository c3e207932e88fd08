/*
 * The state of training that a worker holds: parameters and moments of some units at one step
 * boundary, and the freeze state, which every worker has whole.
 *
 * Between steps all held units are at `applied_step`. `holds` says that the reduced gradients of
 * step applied_step + 1 are complete for the units of the current stage and for those whose shadow
 * this worker is (HOLD in elastic/recovery/recovery.h); they lie in the engine that made them,
 * which lives until they are applied or thrown away.
 */
#pragma once

#include "elastic/step/freeze.h"
#include "elastic/step/step_record.h"
#include "kernels/kernel.h"
#include "model/net/unit.h"
#include "worker/device/pinned.h"
#include "worker/state/arena.h"

struct state_unit {
    struct unit_layout layout;
    bool held;
    bool reserved;     /* not held: the memory is there already, zeroed */
    float *parameters; /* device, layout.count */
    void *weights; /* the parameters in the type of the activations (model/net/stage.h); the same
                      memory where that is f32 */
    float *first_moment, *second_moment; /* NULL when the unit is frozen */
};

struct state {
    const struct job_spec *spec; /* borrowed */
    struct model_spec model;
    const struct kernel *kernel;
    struct kernel_device *device; /* borrowed */
    struct arena *arena;          /* what an engine computes with */
    struct pinned *pinned;        /* what an engine's messages leave from and come to */
    unsigned thread_count;        /* threads of the host that initialize a unit; 1 unless set */
    unsigned unit_count;
    struct state_unit *units;
    struct kernel_adamw_tensor *step_tensors; /* room for all of one optimizer step */

    uint64_t applied_step;
    uint64_t data_digest; /* low word of the dataset's behind applied_step; 0: not known */
    struct freeze_state freeze;
    struct step_record committed; /* of applied_step; step 0 when it came from elsewhere */
    bool holds;
    struct step_record hold; /* of applied_step + 1, my part of it */
};

/** state_new() - no unit is held yet; @spec, @kernel and @device are borrowed; -EINVAL (no model),
 * -ENOMEM */
int state_new(const struct job_spec *spec, const struct kernel *kernel,
              struct kernel_device *device, struct state **ret_state,
              struct error *error) CHECK_RESULT;
void state_free(struct state *state);

/** state_model() - the model part of a job; -EINVAL for a family that this build does not know */
int state_model(const struct job_spec *spec, struct model_spec *ret_model,
                struct error *error) CHECK_RESULT;

/** state_reserve_unit() - take the memory of a unit that is not held, before its state comes; with
 * moments where @trained. Zeroed, so every page of it is there. -ENOMEM: nothing is reserved */
int state_reserve_unit(struct state *state, unsigned index, bool trained,
                       struct error *error) CHECK_RESULT;
/** state_take_unit() - memory for one unit, what was reserved first (zeroed; moments unless
 * frozen); marks it held */
int state_take_unit(struct state *state, unsigned index, struct error *error) CHECK_RESULT;
void state_drop_unit(struct state *state, unsigned index);
/** state_drop_all() - hold nothing */
void state_drop_all(struct state *state);

/** state_begin() - step 0: nothing applied, held or frozen; units stay as they are */
void state_begin(struct state *state);

/** state_initialize() - [first, first + count) as the seed makes them, at step 0; what else is held
 * must be at step 0 too */
int state_initialize(struct state *state, unsigned first, unsigned count,
                     struct error *error) CHECK_RESULT;

/** state_make_weights() - weights from parameters that came from elsewhere; AdamW keeps them so */
void state_make_weights(struct state *state, unsigned index);

unsigned state_frozen_units(const struct state *state);
/** state_tied() - the head's table still follows the embedding's */
bool state_tied(const struct state *state);
/** state_mirrored() - @tensor is a copy that another unit accounts for: not in norms, not in
 * checkpoints */
bool state_mirrored(const struct state *state, const struct unit_tensor *tensor);

/**
 * state_apply() - the optimizer step of @record, complete, on every unit that has a gradient
 * @gradients: a unit of the model: its reduced gradient, device, flat; NULL: not this worker's
 *
 * Clips by the record's norm; a record without a finite loss and norm changes no parameter. Then
 * advances applied_step and the freeze state; units that freeze by it lose their moments. Nothing
 * can fail.
 */
void state_apply(struct state *state, const struct step_record *record, float *const *gradients);

/** state_list_held() - of each unit, whether it is held */
void state_list_held(const struct state *state, bool *ret_held);

/** state_encode() - what goes along with tensors, to checkpoints and other workers: freeze state
 * and digest of the data; new reference, NULL when memory is short */
json_t *state_encode(const struct state *state);
/** state_decode() - -EINVAL names the key; @ret_data_digest: 0 where nobody knew it */
int state_decode(const json_t *tree, unsigned layers, struct freeze_state *ret_freeze,
                 uint64_t *ret_data_digest, struct error *error) CHECK_RESULT;

/** state_held_range() - the contiguous held range at or after @from; count 0 when there is none */
void state_held_range(const struct state *state, unsigned from, unsigned *ret_first,
                      unsigned *ret_count);
