/*
 * One worker's part in one generation: its stage, its links, its gradient buffers.
 *
 * Made when a plan takes over and thrown away with the next one; the training state outlives it. A
 * step is engine_compute() (to HOLD), then exchange_run() (to COMMIT), then engine_apply() (to
 * APPLIED). If the world breaks between them, the engine keeps the reduced gradients until the next
 * plan says whether the step stands.
 */
#pragma once

#include "elastic/plan/one_f_one_b.h"
#include "elastic/plan/plan.h"
#include "model/data/dataset.h"
#include "model/net/stage.h"
#include "worker/device/routes.h"
#include "worker/device/tensor_channel.h"
#include "worker/state/state.h"
#include "worker/step/gradients.h"

struct reduction;
struct shadow;
struct state_digest;
struct tied_embedding;

struct engine_timing {
    uint64_t compute_ns, wait_ns; /* of the last step: own work, and waiting for others */
    uint64_t busy_ns; /* of own work: forwards and backwards of training, which grow with lanes */
};

struct engine {
    struct state *state;           /* borrowed */
    const struct dataset *dataset; /* borrowed */
    const struct plan *plan;       /* borrowed */
    const struct routes *routes;   /* borrowed */
    struct mesh *mesh;             /* routes->mesh */
    unsigned rank, replica, stage_index;
    unsigned first_unit, unit_count;
    unsigned trained_from; /* first trained unit of the whole model, when the engine was made */
    struct lane_tree_span lanes;
    unsigned micro_batch_count; /* of this replica in one step */

    struct one_f_one_b_position position;
    struct stage *stage;
    struct gradients *gradients;
    void **weights;        /* unit_count, device */
    struct shadow *shadow; /* copies that it feeds or keeps; NULL: none */
    float **applied;       /* a unit of the model: the gradient that a commit applies; NULL: none */
    struct gradient_norm *squares;           /* what the norm is made of */
    struct state_digest *check;              /* of what replicas hold alike */
    struct reduction *reduction;             /* across the replicas of the stage */
    struct send_queue *departures;           /* what leaves over the links of this engine */
    struct tensor_channel *inputs, *outputs; /* a slot: from the stage before, to the next one */
    struct tensor_channel output_gradient,
        input_gradient;         /* from the next stage, to the one before */
    struct tied_embedding *tie; /* NULL: no tied table here */
    int32_t *tokens, *targets;
    float loss_scale; /* of the step: makes the sum of its token losses their mean */
    struct engine_timing timing;
};

/** engine_new() - the stage's units must be held in @state; everything for a step is allocated here
 */
int engine_new(struct state *state, const struct dataset *dataset, const struct plan *plan,
               unsigned rank, const struct routes *routes, struct engine **ret_engine,
               struct error *error) CHECK_RESULT;
void engine_free(struct engine *engine);

/** engine_stale() - the frozen boundary moved since the engine was made: it must be made anew (same
 * links) */
bool engine_stale(const struct engine *engine);

/**
 * engine_compute() - forward, backward and reduction of step applied_step + 1; fills state->hold,
 * and runs its check of the state before that step Return: 0: the state holds; -ECONNRESET,
 * -ETIMEDOUT: the mesh failed; others: the device failed
 */
int engine_compute(struct engine *engine, struct error *error) CHECK_RESULT;

/**
 * engine_evaluate() - measure the validation loss of the parameters at applied_step, which no step
 * follows: state->hold has the lanes' sums then, as of step applied_step + 1, and does not hold
 * Errors as engine_compute()
 */
int engine_evaluate(struct engine *engine, struct error *error) CHECK_RESULT;

/** engine_apply() - the optimizer step of a complete record on what this engine reduced */
void engine_apply(struct engine *engine, const struct step_record *record);

/** engine_drop_others() - drop the units that its rank neither computes nor shadows */
void engine_drop_others(struct engine *engine);

/** engine_evaluates() - whether @step measures the validation loss, of the parameters that it
 * begins with */
bool engine_evaluates(const struct job_spec *spec, uint64_t step);
