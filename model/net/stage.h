/*
 * A stage: a contiguous range of units computing on one device.
 *
 * The stage owns activations and scratch for `slots` micro-batches in flight; parameters and
 * gradients belong to the caller and are borrowed per call, because they outlive a layout.
 * stage_new() allocates everything; forward and backward allocate nothing.
 *
 * Weights are parameters in the type of the backend's activations: the parameters themselves for
 * f32, otherwise copies in bf16. A unit's weights have the layout of its parameters, element for
 * element.
 *
 * The first units can be frozen: they keep nothing. Their sublayers share one set of activations of
 * each kind and two streams, for any number of units and slots. They compute one sample at a time,
 * because the bits of a product's row depend on the number of rows and on its place among them. A
 * frozen output must be a function of the sample alone, so that it can be kept and used again in
 * another micro-batch (worker/cache/frozen_outputs.h).
 *
 * To save memory a trained sublayer can keep only its input, and backward first recomputes the rest
 * with the same kernels on the same bits, so the result is the same to the bit.
 *
 * A micro-batch in slot s: the caller fills stage_input(s) (unless the stage begins with the
 * embedding), calls stage_forward_frozen() for each sample where units are frozen, or fills
 * stage_frozen_output() itself, calls stage_forward() and reads stage_output(s) (unless it ends
 * with the head). For the way back it fills stage_output_gradient() (unless it ends with the head)
 * and calls stage_backward_unit() from the last unit down to the first trained one; after the
 * stage's first trained unit, stage_input_gradient() holds the gradient for the previous stage.
 * There is one gradient stream in flight at a time (a schedule runs one backward at a time), but
 * the output gradient and the input gradient are two buffers: the next one may arrive while the
 * last one is still being sent.
 *
 * Backward of a slot follows a forward of the same slot with keep == true, once, before anything
 * else is forwarded in that slot. Evaluation uses the slots' buffers too, so run it only when no
 * backward is outstanding. The largest buffer is a head's logits, (N, V) per slot; the last stage
 * of 1F1B has one slot.
 *
 * Backward can be split (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024):
 * stage_backward_input() computes the gradient for the previous stage, and stage_backward_weight()
 * of the same slot follows at any later time, in the order of micro-batches. The sums have the bits
 * of stage_backward_unit(). Splitting copies the unit's rows of gradients, which pays off where
 * stages wait for each other, and the slot stays in use. Recomputed sublayers keep nothing and are
 * not split. Nor is the head: with splitting, all slots share its activations, and its backward
 * follows its forward at once.
 */
#pragma once

#include "kernels/kernel.h"
#include "model/net/unit.h"

struct stage;

/* Sublayers whose activations are recomputed in backward instead of kept. */
enum stage_recompute { STAGE_KEEP_ALL, STAGE_RECOMPUTE_ATTENTION, STAGE_RECOMPUTE_ALL };

struct stage_options {
    const struct kernel *kernel;
    struct kernel_device *device;  /* borrowed until stage_free() */
    const struct model_spec *spec; /* copied */
    unsigned first_unit, unit_count;
    unsigned frozen; /* number of first units without backward */
    unsigned batch;  /* B of one micro-batch */
    unsigned slots;  /* micro-batches in flight, >= 1 */
    bool splits;     /* backward may be split */
    bool freezes;    /* units may freeze later: take the permanent device memory for that now */
    enum stage_recompute recompute;
    void *memory; /* stage_memory_bytes() of the device, zeroed, borrowed for the stage's life;
                     NULL: the stage allocates it */
};

/** stage_new() - make a stage; -ENOMEM: @error lists the memory of the units */
int stage_new(const struct stage_options *options, struct stage **ret_stage,
              struct error *error) CHECK_RESULT;
void stage_free(struct stage *stage);

/**
 * stage_memory_bytes() - return the device memory of a stage with these options
 *
 * Chooses the attention kernel first, which may take device memory permanently, so the stage can
 * use only memory that is free after the call. SIZE_MAX: overflow, or no memory for the choice.
 */
size_t stage_memory_bytes(const struct stage_options *options);

/** stage_boundary_bytes() - return the size of the residual stream of a micro-batch, (B,T,C)
 * activations */
size_t stage_boundary_bytes(const struct stage *stage);

/* Device buffers of stage_boundary_bytes() each; see the head of this file. */
void *stage_input(struct stage *stage, unsigned slot);
void *stage_output(struct stage *stage, unsigned slot);
void *stage_output_gradient(struct stage *stage);
void *stage_input_gradient(struct stage *stage);

/** stage_frozen_units() - return the number of frozen units, the first ones of the stage */
unsigned stage_frozen_units(const struct stage *stage);

/** stage_frozen_output() - return the device buffer for the output of the first @unit_count units
 * (1 to stage_frozen_units()) for the @sample-th sample of slot @slot: (T,C) activations,
 * stage_sample_bytes(). The output of all frozen units has a buffer of the slot. The other buffers
 * are shared, and keep their content until the next stage_forward_frozen() */
void *stage_frozen_output(struct stage *stage, unsigned unit_count, unsigned slot, unsigned sample);
size_t stage_sample_bytes(const struct stage *stage);

/**
 * stage_forward_frozen() - run the frozen units on the @sample-th sample of slot @slot
 * @from: number of first units whose output is in stage_frozen_output() already and is not computed
 * @weights: weights of all units of the stage, as for stage_forward()
 * @tokens: host memory, (T) i32 of that sample, copied; needed by the embedding only
 *
 * Fills stage_frozen_output() of all frozen units. The stage must have one.
 */
void stage_forward_frozen(struct stage *stage, unsigned slot, unsigned sample, unsigned from,
                          void *const *weights, const int32_t *tokens);

/* A callback before the forward of each unit that is not frozen, on the caller's thread. */
struct stage_gate {
    bool (*passes)(void *context, unsigned unit); /* false: end the forward, without a result */
    void *context;
};

/** stage_set_gate() - set the gate (copied); NULL: none. With a gate, stage_forward() is neither
 * recorded nor replayed (model/net/recordings.h) */
void stage_set_gate(struct stage *stage, const struct stage_gate *gate);

/**
 * stage_forward() - run the stage's units that are not frozen on slot @slot
 * @weights: weights[i] is the flat device array of unit first_unit + i
 * @tokens, @targets: host memory, (B,T) i32 in [0, V), copied; needed by the embedding and the head
 *   only. A target of -1 does not count: its token has no loss and no gradient. With the embedding
 *   in the stage, tokens are kept for backward. @targets may be NULL when @keep is false: then no
 *   loss is computed, only logits.
 * @keep: false for evaluation: nothing is kept for backward
 * @loss_scale: factor of the loss sum (1 / tokens of the whole step that count); forward also
 *   replaces the head's logits by their gradient, so that the logits are stored and read only once.
 *   Ignored when @keep is false or the stage does not end with the head.
 */
void stage_forward(struct stage *stage, unsigned slot, void *const *weights, const int32_t *tokens,
                   const int32_t *targets, bool keep, float loss_scale);

/**
 * stage_loss_sum() - return the sum of the micro-batch's token losses, after a forward through the
 * head
 *
 * The losses are added in f64 in row order. Waits only for the compute queue. A failed device gives
 * NaN; synchronize() returns the error.
 */
double stage_loss_sum(struct stage *stage, unsigned slot);

/**
 * stage_losses() - copy the token losses of that micro-batch to the host, as a call of the compute
 * queue
 * @ret_losses: memory of the host, B*T f32, valid when the call has passed; NaN after a failure
 */
void stage_losses(struct stage *stage, unsigned slot, float *ret_losses);
/** stage_losses_sum() - return the sum of @losses, as stage_loss_sum() does */
double stage_losses_sum(const float *losses, size_t count);

/**
 * stage_backward_unit() - run backward of one unit on slot @slot, accumulating into @gradient
 * @weights: of that unit, unchanged since forward
 * @gradient: flat f32 device array of that unit, accumulated; padding untouched. NULL, only if
 * backward may be split: compute only the input's gradient
 * @want_input_gradient: false when no unit below is trained: the gradient stops here
 */
void stage_backward_unit(struct stage *stage, unsigned slot, unsigned unit, const void *weights,
                         float *gradient, bool want_input_gradient);

/** stage_splits_unit() - return whether backward of the trained unit @unit is split */
bool stage_splits_unit(const struct stage *stage, unsigned unit);

/**
 * stage_backward_input() - run the part of a unit's backward that gives the input's gradient
 *
 * As stage_backward_unit(), for a unit that is split. Overwrites stage_output(), so its content
 * must have been sent.
 */
void stage_backward_input(struct stage *stage, unsigned slot, unsigned unit, const void *weights,
                          bool want_input_gradient);

/**
 * stage_backward_weight() - run the rest of backward: accumulate into @gradient, as
 * stage_backward_unit()
 */
void stage_backward_weight(struct stage *stage, unsigned slot, unsigned unit, float *gradient);

/**
 * stage_rows() - copy @count rows of the stream before and after @unit to the host, after a forward
 * of slot @slot. The rows are at evenly spaced positions in evenly spaced samples
 * @unit: a unit of the stage: not frozen, neither embedding nor head
 * @ret_before, @ret_after: host memory, (@count, C) f32
 *
 * Waits only for the compute queue. Overwrites the scratch of the stage. After a failure of the
 * device the content is undefined.
 */
void stage_rows(struct stage *stage, unsigned slot, unsigned unit, unsigned count,
                float *ret_before, float *ret_after);

/**
 * stage_logits() - copy the logits, (B*T, V) f32, to host memory, after a forward through the head
 * with keep == false
 */
void stage_logits(struct stage *stage, unsigned slot, float *ret_logits);
