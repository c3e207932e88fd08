#include "worker/step/pipeline.h"

#include <errno.h>

#include "base/clock.h"
#include "worker/device/tags.h"
#include "worker/step/arriving_units.h"
#include "worker/step/job_dataset.h"
#include "worker/step/lane_relay.h"
#include "worker/step/loss_ring.h"
#include "worker/step/reduction.h"
#include "worker/step/shadow.h"
#include "worker/step/sum_copies.h"
#include "worker/trace/recorder.h"

/* The lane of one of the replica's micro-batches, and its index in that lane. */
struct micro_batch {
    unsigned lane, index_in_lane;
};

static struct micro_batch micro_batch_at(const struct engine *engine, unsigned index)
{
    const struct engine_share *share = &engine->share;
    const struct lane_run *run = share->runs;

    for (; index >= run->end - run->start; run++)
        index -= run->end - run->start;
    return (struct micro_batch){.lane = run->lane, .index_in_lane = run->start + index};
}

/* Record a span from @began_ns until now, and return its end. */
static uint64_t record(const struct engine *engine, enum trace_kind kind, struct micro_batch batch,
                       uint64_t began_ns)
{
    const struct trace_span span = {.kind = (uint16_t)kind,
                                    .step = engine->state->hold.step,
                                    .lane = (uint16_t)batch.lane,
                                    .micro_batch = batch.index_in_lane};

    recorder_add(engine->timing.recorder, began_ns, span);
    return clock_monotonic_ns();
}

static bool first_stage(const struct engine_part *part)
{
    return part->stage_index == 0;
}

/*
 * Post a receive into one of the @count channels of a direction. If the device waits and not the
 * host, the host is ahead by at most one message of each direction: this bounds the work that a
 * failure leaves undone and the work in the device's queues.
 */
static int receive(struct tensor_channel *direction, unsigned count, unsigned index, uint64_t tag)
{
    int status = 0;

    for (unsigned i = 0; i < count && !status; i++)
        status = tensor_channel_complete(&direction[i]);
    if (!status)
        status = tensor_channel_receive(&direction[index], tag);
    return status ? status : tensor_channel_land(&direction[index]);
}

/* The place of a micro-batch's first sample in the order of all samples of the job. */
static uint64_t position_of(const struct engine *engine, struct micro_batch batch)
{
    const struct job_spec *spec = engine->state->spec;
    uint64_t per_step = (uint64_t)spec->train.lanes * spec->train.micro_batches_per_lane;
    uint64_t index = (engine->state->hold.step - 1) * per_step +
                     (uint64_t)batch.lane * spec->train.micro_batches_per_lane +
                     batch.index_in_lane;

    return index * spec->train.micro_batch;
}

static int load_training_samples(struct engine *engine, unsigned micro_batch)
{
    const struct job_spec *spec = engine->state->spec;
    struct micro_batch batch = micro_batch_at(engine, micro_batch);
    uint64_t position = position_of(engine, batch), began_ns = clock_monotonic_ns();
    bool last = micro_batch + 1 == engine->part.micro_batch_count;

    frozen_prefix_train(engine, position,
                        last ? UINT64_MAX
                             : position_of(engine, micro_batch_at(engine, micro_batch + 1)));
    int status = dataset_train_batch(engine->samples.dataset, position, spec->train.micro_batch,
                                     engine->samples.tokens, engine->samples.targets,
                                     &engine->samples.error);
    record(engine, TRACE_DATA, batch, began_ns);
    return status;
}

/* One forward of one micro-batch. */
struct pass {
    struct micro_batch batch;
    unsigned slot;
    uint64_t tag;
    bool validates, keep; /* keep: keep the data for backward */
};

/* One forward through the stage: input from the previous stage, output to the next stage. */
static int forward(struct engine *engine, const struct pass *pass)
{
    unsigned slot = pass->slot;
    uint64_t at_ns = clock_monotonic_ns();
    int status = tensor_channel_reuse(&engine->channels.outputs[slot]);

    at_ns = record(engine, TRACE_WAIT_SENT, pass->batch, at_ns);
    if (!status && !first_stage(&engine->part))
        status =
            receive(engine->channels.inputs, schedule_slots(&engine->position), slot, pass->tag);
    at_ns = record(engine, TRACE_WAIT_ACTIVATIONS, pass->batch, at_ns);
    if (status)
        return status;
    carrier_guard(engine->routes->guard);
    frozen_prefix_forward(engine, slot);
    if (stage_frozen_units(engine->stage))
        at_ns = record(engine, TRACE_FROZEN, pass->batch, at_ns);
    stage_forward(engine->stage, slot, engine->weights, engine->samples.tokens,
                  engine->samples.targets, pass->keep, engine->losses.scale);
    if (!first_stage(&engine->part))
        tensor_channel_used(&engine->channels.inputs[slot]);
    status = carrier_unguard(engine->routes->guard);
    if (!status)
        status = arriving_units_passed(engine);
    at_ns = record(engine, pass->validates ? TRACE_VALIDATION : TRACE_FORWARD, pass->batch, at_ns);
    if (status || engine_is_last_stage(engine))
        return status;
    status = tensor_channel_send(&engine->channels.outputs[slot], pass->tag);
    record(engine, TRACE_SEND, pass->batch, at_ns);
    return status;
}

/* On the last stage. Reading the loss waits for the device, which may be waiting for its input. */
static int read_loss(struct engine *engine, const struct pass *pass, double *ret_loss)
{
    uint64_t began_ns = clock_monotonic_ns();
    int status = tensor_channel_complete(&engine->channels.inputs[pass->slot]);

    if (status)
        return status;
    carrier_guard(engine->routes->guard);
    *ret_loss = stage_loss_sum(engine->stage, pass->slot);
    status = carrier_unguard(engine->routes->guard);
    record(engine, TRACE_LOSS, pass->batch, began_ns);
    return status;
}

/* Lane losses start unknown on every stage; the last stage sets those of its own lanes. */
static void add_loss(double *lane_loss, double loss, bool first)
{
    *lane_loss = step_record_known(first ? loss : *lane_loss + loss);
}

/* The loss of a micro-batch that is computed again is already in the sum. */
static void add_training_loss(struct engine *engine, struct micro_batch batch, double loss)
{
    unsigned *counted = &engine->share.loss_counts[batch.lane];

    if (batch.index_in_lane < *counted)
        return;
    add_loss(&engine->state->hold.lane_losses[batch.lane], loss, batch.index_in_lane == 0);
    *counted = batch.index_in_lane + 1;
}

/* Where the loss is read at once. */
static int add_own_loss(struct engine *engine, struct micro_batch batch, double loss)
{
    int status = lane_relay_await_loss(engine->share.relay, batch.lane, batch.index_in_lane);

    if (status)
        return status;
    add_training_loss(engine, batch, loss);
    return lane_relay_added_loss(engine->share.relay, batch.lane, batch.index_in_lane);
}

/* A pipeline on a GPU keeps nothing of a step that is left (kept_step.c). */
static bool is_alone(const struct engine *engine)
{
    return engine->plan->layout.stage_count == 1;
}

/* Read the oldest loss in the ring, as read_loss(). */
static int take_loss(struct engine *engine)
{
    const struct loss_entry entry = *loss_ring_oldest(engine->losses.ring);
    const struct micro_batch batch = {entry.lane, entry.index_in_lane};
    uint64_t began_ns = clock_monotonic_ns();
    int status = tensor_channel_complete(&engine->channels.inputs[entry.slot]);

    if (status)
        return status;
    carrier_guard(engine->routes->guard);
    double loss = loss_ring_take(engine->losses.ring);
    status = carrier_unguard(engine->routes->guard);
    record(engine, TRACE_LOSS, batch, began_ns);
    if (!status || is_alone(engine)) /* in a pipeline, the loss may follow from input that never
                                        arrived */
        add_training_loss(engine, batch, loss);
    return status;
}

/* Take all losses, even if the step is left: its sums may be kept, with their losses. */
static int take_losses(struct engine *engine, int status)
{
    while (engine->losses.ring && loss_ring_oldest(engine->losses.ring) &&
           (!status || is_alone(engine))) {
        int taken = take_loss(engine);
        status = status ? status : taken;
    }
    return status;
}

/* On the last stage, behind a forward of training. */
static int note_loss(struct engine *engine, const struct pass *pass)
{
    double loss = 0;
    int status = 0;

    if (!engine->losses.ring) {
        status = read_loss(engine, pass, &loss);
        return status ? status : add_own_loss(engine, pass->batch, loss);
    }
    if (loss_ring_is_full(engine->losses.ring))
        status = take_loss(engine);
    if (!status)
        loss_ring_put(engine->losses.ring, engine->stage,
                      (struct loss_entry){.lane = pass->batch.lane,
                                          .index_in_lane = pass->batch.index_in_lane,
                                          .slot = pass->slot});
    return status;
}

/* Begin the first turn of a step or of an evaluation. */
static void begin_turns(struct engine *engine)
{
    engine->timing.turn_began_ns = clock_monotonic_ns();
    engine->timing.longest_turn_ns = 0;
}

static void next_turn(struct engine *engine)
{
    uint64_t now_ns = clock_monotonic_ns();

    engine->timing.longest_turn_ns = engine_turn_ns(&engine->timing, now_ns);
    engine->timing.turn_began_ns = now_ns;
}

/* Return whether to leave the step here: its links broke (a rank that needs no message would not
 * notice), or the watch breaks them. */
static bool leaves(struct engine *engine)
{
    next_turn(engine);
    return mesh_broken(engine->mesh) || sum_copies_advance(engine->share.copies) ||
           (engine->watch.leaves &&
            engine->watch.leaves(engine->watch.context, &engine->timing.progress));
}

static unsigned validation_batches(const struct engine *engine)
{
    const struct job_spec *spec = engine->state->spec;

    return job_dataset_validation_batches(&spec->evaluate, &spec->train, engine->samples.dataset);
}

/* The MLP of the lowest trained layer. */
static unsigned measured_unit(const struct engine *engine)
{
    return 2 * engine->state->freeze.frozen_layers + 2;
}

static bool measures(const struct engine *engine, const struct pass *pass)
{
    unsigned unit = measured_unit(engine), first = engine->part.first_unit;

    return engine->state->hold.has_similarities && pass->batch.lane == 0 &&
           pass->batch.index_in_lane == 0 && unit >= first &&
           unit < first + engine->part.unit_count;
}

/* Compare rows after the forward of the first micro-batch of validation data. */
static int measure_similarities(struct engine *engine, const struct pass *pass)
{
    size_t width = engine->state->spec->model.width;
    float *before = engine->samples.rows, *after = before + PLASTICITY_ROWS * width;
    int status = tensor_channel_complete(&engine->channels.inputs[pass->slot]);

    if (status)
        return status;
    carrier_guard(engine->routes->guard);
    stage_rows(engine->stage, pass->slot, measured_unit(engine), PLASTICITY_ROWS, before, after);
    status = carrier_unguard(engine->routes->guard);
    if (!status)
        plasticity_similarities(before, after, width, engine->state->hold.similarities);
    return status;
}

/* Lane l measures the validation micro-batches l, l + lanes, l + 2 * lanes, ... in that order. */
static int evaluate_lane(struct engine *engine, unsigned lane)
{
    const struct job_spec *spec = engine->state->spec;
    struct engine_progress *progress = &engine->timing.progress;
    unsigned count = validation_batches(engine);
    double lane_loss = 0;

    for (unsigned batch = lane; batch < count; batch += spec->train.lanes, progress->done++) {
        const struct pass pass = {
            .batch = {.lane = lane, .index_in_lane = batch / spec->train.lanes},
            .slot = progress->done % schedule_slots(&engine->position),
            .tag = tag_make(TAG_VALIDATION, engine->state->hold.step, progress->done),
            .validates = true,
        };
        double loss = 0;
        if (leaves(engine))
            return -ECONNRESET;
        frozen_prefix_validate(engine, (uint64_t)batch * spec->train.micro_batch);
        int status = dataset_validation_batch(engine->samples.dataset,
                                              (uint64_t)batch * spec->train.micro_batch,
                                              spec->train.micro_batch, engine->samples.tokens,
                                              engine->samples.targets, &engine->samples.error);
        if (!status)
            status = forward(engine, &pass);
        if (!status && measures(engine, &pass))
            status = measure_similarities(engine, &pass);
        if (!status && engine_is_last_stage(engine))
            status = read_loss(engine, &pass, &loss);
        if (status)
            return status;
        add_loss(&lane_loss, loss, false);
    }
    if (engine_is_last_stage(engine)) /* set only when complete: a part of it may be kept */
        engine->state->hold.lane_validation_losses[lane] = lane_loss;
    return 0;
}

static bool evaluates_lane(const struct engine *engine, unsigned lane)
{
    const struct step_division *division = engine->share.division;

    return division->owners[lane] == engine->part.replica && !division->validated[lane];
}

static int evaluate(struct engine *engine)
{
    unsigned lanes = engine->share.division->lanes, batches = validation_batches(engine);
    struct engine_progress *progress = &engine->timing.progress;
    int status = 0;

    *progress = (struct engine_progress){.evaluates = true};
    for (unsigned lane = 0; lane < MIN(lanes, batches); lane++)
        if (evaluates_lane(engine, lane))
            progress->count += (batches - lane - 1) / lanes + 1;
    for (unsigned lane = 0; !status && lane < lanes; lane++)
        if (evaluates_lane(engine, lane))
            status = evaluate_lane(engine, lane);
    return status;
}

static int train_forward(struct engine *engine, const struct schedule_operation *operation)
{
    const struct pass pass = {
        .batch = micro_batch_at(engine, operation->micro_batch),
        .slot = operation->slot,
        .tag = tag_make(TAG_ACTIVATION, engine->state->hold.step, operation->micro_batch),
        .keep = engine->position.backward,
    };
    int status = 0;

    if (first_stage(&engine->part) || engine_is_last_stage(engine))
        status = load_training_samples(engine, operation->micro_batch);
    if (!status)
        status = forward(engine, &pass);
    return status || !engine_is_last_stage(engine) ? status : note_loss(engine, &pass);
}

/* All lanes of this replica have passed @unit. */
static int unit_passed(struct engine *engine, unsigned unit)
{
    int status = arriving_units_await_sums(engine, unit);

    sum_copies_stop(engine->share.copies);
    if (!status)
        status = reduction_begin(engine->reduction, unit);
    return status ? status : shadow_unit_passed(engine->shadow, unit);
}

/* Add a micro-batch to the gradients of @unit, by its whole backward or the deferred part. If
 * backward is split, units are at different micro-batches: those in a kept sum are skipped. */
static int add_gradient(struct engine *engine, const struct schedule_operation *operation,
                        struct micro_batch batch, unsigned unit)
{
    unsigned lane = batch.lane, index = batch.index_in_lane;
    int status = arriving_units_await_sums(engine, unit);
    if (!status)
        status = lane_relay_await(engine->share.relay, unit, lane, index);
    if (status)
        return status;
    bool skipped =
        engine->position.deferred > 0 && gradients_has(engine->gradients, unit, lane, index);
    float *gradient = skipped ? NULL : gradients_buffer(engine->gradients, unit, lane, index);

    carrier_guard(engine->routes->guard);
    if (operation->kind != SCHEDULE_BACKWARD_WEIGHT)
        stage_backward_unit(engine->stage, operation->slot, unit,
                            engine->weights[unit - engine->part.first_unit], gradient,
                            unit > engine->part.trained_from);
    else if (gradient)
        stage_backward_weight(engine->stage, operation->slot, unit, gradient);
    if (gradient)
        gradients_added(engine->gradients, unit, lane, index);
    status = carrier_unguard(engine->routes->guard);
    return status || !gradient ? status : lane_relay_added(engine->share.relay, unit, lane, index);
}

/*
 * All replicas of a stage begin the sums of its units in one order, from the last unit down, and
 * one of them may defer less than another. So behind the head, which is never split and comes
 * first, a unit whose backward is whole waits for the others' weights.
 */
static bool passes(const struct engine *engine, const struct schedule_operation *operation,
                   unsigned unit)
{
    bool head = unit + 1 == engine->state->unit_count;

    return operation->micro_batch + 1 == engine->part.micro_batch_count &&
           (operation->kind == SCHEDULE_BACKWARD ||
            head == (operation->kind == SCHEDULE_BACKWARD_INPUT));
}

static int backward_unit(struct engine *engine, const struct schedule_operation *operation,
                         struct micro_batch batch, unsigned unit)
{
    if (operation->kind != SCHEDULE_BACKWARD_INPUT || !stage_splits_unit(engine->stage, unit)) {
        int status = add_gradient(engine, operation, batch, unit);
        return !status && passes(engine, operation, unit) ? unit_passed(engine, unit) : status;
    }
    carrier_guard(engine->routes->guard);
    stage_backward_input(engine->stage, operation->slot, unit,
                         engine->weights[unit - engine->part.first_unit],
                         unit > engine->part.trained_from);
    return carrier_unguard(engine->routes->guard);
}

/* Wait for the gradient from the next stage, and for the buffers of the gradient to the previous
 * stage and, if backward is split, of the output. */
static int await_gradient(struct engine *engine, const struct schedule_operation *operation,
                          struct micro_batch batch, uint64_t tag)
{
    uint64_t at_ns = clock_monotonic_ns();
    int status = 0;

    if (!engine_is_last_stage(engine))
        status = receive(&engine->channels.output_gradient, 1, 0, tag);
    at_ns = record(engine, TRACE_WAIT_GRADIENTS, batch, at_ns);
    if (!status)
        status = tensor_channel_reuse(&engine->channels.input_gradient);
    if (!status && operation->kind == SCHEDULE_BACKWARD_INPUT)
        status = tensor_channel_reuse(&engine->channels.outputs[operation->slot]);
    record(engine, TRACE_WAIT_SENT, batch, at_ns);
    return status;
}

static unsigned lowest_trained(const struct engine *engine)
{
    return MAX(engine->part.first_unit, engine->part.trained_from);
}

/* Advance messages between two units. A failure of the links must be seen and reported soon, even
 * during a long operation. */
static int pause(struct engine *engine)
{
    int status = send_queue_poll(engine->channels.send_queue);

    return !status && mesh_broken(engine->mesh) ? -ECONNRESET : status;
}

static int backward(struct engine *engine, const struct schedule_operation *operation,
                    struct micro_batch batch)
{
    unsigned lowest = lowest_trained(engine);
    int status = 0;

    for (unsigned unit = engine->part.first_unit + engine->part.unit_count;
         !status && unit-- > lowest;) {
        status = backward_unit(engine, operation, batch, unit);
        if (!status)
            status = pause(engine);
    }
    if (!engine_is_last_stage(engine))
        tensor_channel_used(&engine->channels.output_gradient);
    if (!first_stage(&engine->part))
        tensor_channel_used(&engine->channels.inputs[operation->slot]);
    return status;
}

static int train_backward(struct engine *engine, const struct schedule_operation *operation)
{
    uint64_t tag = tag_make(TAG_GRADIENT, engine->state->hold.step, operation->micro_batch);
    struct micro_batch batch = micro_batch_at(engine, operation->micro_batch);
    int status = await_gradient(engine, operation, batch, tag);
    uint64_t at_ns = clock_monotonic_ns();

    if (!status)
        status = backward(engine, operation, batch);
    at_ns = record(engine, TRACE_BACKWARD, batch, at_ns);
    if (status || engine->part.first_unit <= engine->part.trained_from)
        return status;
    status = tensor_channel_send(&engine->channels.input_gradient, tag);
    record(engine, TRACE_SEND, batch, at_ns);
    return status;
}

/* Compute the weight gradients of a micro-batch whose backward() has passed. */
static int train_weights(struct engine *engine, const struct schedule_operation *operation)
{
    struct micro_batch batch = micro_batch_at(engine, operation->micro_batch);
    uint64_t began_ns = clock_monotonic_ns();
    int status = 0;

    for (unsigned unit = engine->part.first_unit + engine->part.unit_count;
         !status && unit-- > lowest_trained(engine);) {
        if (stage_splits_unit(engine->stage, unit))
            status = add_gradient(engine, operation, batch, unit);
        if (!status && passes(engine, operation, unit))
            status = unit_passed(engine, unit);
        if (!status)
            status = pause(engine);
    }
    record(engine, TRACE_WEIGHTS, batch, began_ns);
    return status;
}

static int run_operation(struct engine *engine, const struct schedule_operation *operation)
{
    switch (operation->kind) {
    case SCHEDULE_FORWARD:
        return train_forward(engine, operation);
    case SCHEDULE_BACKWARD:
    case SCHEDULE_BACKWARD_INPUT:
        return train_backward(engine, operation);
    case SCHEDULE_BACKWARD_WEIGHT:
        break;
    }
    return train_weights(engine, operation);
}

static uint64_t waited_ns(const struct engine *engine)
{
    struct mesh_statistics statistics;

    mesh_statistics(engine->mesh, &statistics);
    return statistics.wait_ns;
}

/* No result of a step is used before every message of the step has arrived. */
static int complete_all(struct engine *engine)
{
    uint64_t began_ns = clock_monotonic_ns();
    int status = tensor_channel_complete(&engine->channels.input_gradient);

    for (unsigned slot = 0; !status && slot < schedule_slots(&engine->position); slot++) {
        status = tensor_channel_complete(&engine->channels.outputs[slot]);
        if (!status)
            status = tensor_channel_complete(&engine->channels.inputs[slot]);
    }
    if (!status)
        status = tensor_channel_complete(&engine->channels.output_gradient);
    recorder_add_kind(engine->timing.recorder, began_ns, TRACE_WAIT_SENT, engine->state->hold.step);
    return status;
}

/* Begin the reductions of a step whose sums of this replica's lanes were already complete. */
static int pass_all(struct engine *engine)
{
    int status = 0;

    for (unsigned unit = engine->part.first_unit + engine->part.unit_count;
         !status && unit-- > lowest_trained(engine);)
        status = unit_passed(engine, unit);
    return status;
}

/* Run the next operation. The time of the watch does not count for the slot's speed. */
static int run_next(struct engine *engine, uint64_t *watched_ns)
{
    struct engine_progress *progress = &engine->timing.progress;
    uint64_t began_ns = clock_monotonic_ns();
    bool is_left = leaves(engine);

    *watched_ns += clock_monotonic_ns() - began_ns;
    if (is_left)
        return -ECONNRESET;
    struct schedule_operation operation = schedule_operation(&engine->position, progress->done);
    int status = run_operation(engine, &operation);
    progress->done++;
    return status;
}

/* Ask for the samples of the same micro-batches of the next step, because the layout usually
 * stays. */
static void begin_prefix(struct engine *engine)
{
    const struct job_training *training = &engine->state->spec->train;
    uint64_t per_step =
        (uint64_t)training->lanes * training->micro_batches_per_lane * training->micro_batch;

    frozen_prefix_begin(engine);
    if (engine->state->hold.step >= training->steps)
        return;
    for (unsigned i = 0; i < engine->part.micro_batch_count; i++)
        frozen_prefix_want(engine, per_step + position_of(engine, micro_batch_at(engine, i)));
}

int pipeline_run(struct engine *engine)
{
    struct engine_progress *progress = &engine->timing.progress;
    uint64_t entered_ns = clock_monotonic_ns();
    begin_turns(engine);
    int status = engine->state->hold.evaluated ? evaluate(engine) : 0;
    uint64_t began_ns = clock_monotonic_ns(), waited_before_ns = waited_ns(engine);
    uint64_t watched_ns = 0;

    if (status)
        return status;
    engine->timing.evaluation_ns = began_ns - entered_ns;
    *progress = (struct engine_progress){.count = schedule_operation_count(&engine->position)};
    begin_prefix(engine);
    if (!engine->part.micro_batch_count)
        status = pass_all(engine);
    while (!status && progress->done < progress->count)
        status = run_next(engine, &watched_ns);
    status = take_losses(engine, status);
    engine->timing.busy_ns =
        frozen_prefix_even_ns(engine, clock_monotonic_ns() - began_ns - watched_ns -
                                          (waited_ns(engine) - waited_before_ns));
    return status ? status : complete_all(engine);
}

int pipeline_evaluate(struct engine *engine)
{
    begin_turns(engine);
    int status = evaluate(engine);

    return status ? status : complete_all(engine);
}

static int make_channel(struct engine *engine, struct tensor_channel *channel, enum route route,
                        void *buffer, unsigned peer)
{
    const struct tensor_channel_options options = {
        .pinned = engine->state->pinned,
        .carrier = engine->routes->carriers[route],
        .send_queue = engine->channels.send_queue,
        .peer = peer,
        .buffer = buffer,
        .size_bytes = stage_boundary_bytes(engine->stage),
    };

    return tensor_channel_init(channel, &options);
}

/* Open the ring where the host's wait for a loss would leave the device idle. */
static int open_losses(struct engine *engine)
{
    const struct job_spec *spec = engine->state->spec;
    bool needed = engine_is_last_stage(engine) && !engine->state->kernel->host_memory;

    return needed ? loss_ring_new(engine->state->pinned,
                                  (size_t)spec->train.micro_batch * spec->model.context,
                                  &engine->losses.ring)
                  : 0;
}

int pipeline_open(struct engine *engine)
{
    unsigned slots = schedule_slots(&engine->position), before = engine->part.rank - 1;
    int status = 0;

    engine->channels.inputs = calloc(slots, sizeof(*engine->channels.inputs));
    engine->channels.outputs = calloc(slots, sizeof(*engine->channels.outputs));
    if (!engine->channels.inputs || !engine->channels.outputs)
        return -ENOMEM;
    for (unsigned i = 0; i < slots && !status && !first_stage(&engine->part); i++)
        status = make_channel(engine, &engine->channels.inputs[i], ROUTE_FORWARD_IN,
                              stage_input(engine->stage, i), before);
    for (unsigned i = 0; i < slots && !status && !engine_is_last_stage(engine); i++)
        status = make_channel(engine, &engine->channels.outputs[i], ROUTE_FORWARD_OUT,
                              stage_output(engine->stage, i), engine->part.rank + 1);
    if (!status && !engine_is_last_stage(engine))
        status = make_channel(engine, &engine->channels.output_gradient, ROUTE_BACKWARD_IN,
                              stage_output_gradient(engine->stage), engine->part.rank + 1);
    if (!status && !first_stage(&engine->part))
        status = make_channel(engine, &engine->channels.input_gradient, ROUTE_BACKWARD_OUT,
                              stage_input_gradient(engine->stage), before);
    return status ? status : open_losses(engine);
}

void pipeline_close(struct engine *engine)
{
    unsigned slots = schedule_slots(&engine->position);

    for (unsigned i = 0; engine->channels.inputs && i < slots; i++)
        tensor_channel_close(&engine->channels.inputs[i]);
    for (unsigned i = 0; engine->channels.outputs && i < slots; i++)
        tensor_channel_close(&engine->channels.outputs[i]);
    tensor_channel_close(&engine->channels.output_gradient);
    tensor_channel_close(&engine->channels.input_gradient);
    loss_ring_free(engine->losses.ring);
    free(engine->channels.inputs);
    free(engine->channels.outputs);
}
