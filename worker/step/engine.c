#include "worker/step/engine.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "worker/state/state_digest.h"
#include "worker/step/arriving_units.h"
#include "worker/step/gradient_norm.h"
#include "worker/step/job_dataset.h"
#include "worker/step/kept_step.h"
#include "worker/step/lane_relay.h"
#include "worker/step/memory.h"
#include "worker/step/pipeline.h"
#include "worker/step/reduction.h"
#include "worker/step/shadow.h"
#include "worker/step/sum_copies.h"
#include "worker/step/tied_embedding.h"
#include "worker/step/warm_up.h"
#include "worker/trace/recorder.h"

bool engine_evaluates(const struct job_evaluation *evaluation, const struct job_training *training,
                      uint64_t step)
{
    if (!evaluation->every)
        return false;
    return step == 1 || step % evaluation->every == 0 || step == training->steps;
}

bool engine_stale(const struct engine *engine)
{
    uint64_t divided = engine->share.division->step;

    return engine->part.trained_from != state_frozen_units(engine->state) ||
           (divided && divided <= engine->state->applied_step);
}

/* Set this rank's range of units, and its schedule within a step. */
static void place(struct engine *engine)
{
    const struct plan *plan = engine->plan;

    engine->part.replica = engine->part.rank / plan->layout.stage_count;
    engine->part.stage_index = engine->part.rank % plan->layout.stage_count;
    engine->part.first_unit = plan->layout.stage_first_unit[engine->part.stage_index];
    engine->part.unit_count =
        plan->layout.stage_first_unit[engine->part.stage_index + 1] - engine->part.first_unit;
    engine->part.trained_from = state_frozen_units(engine->state);
    engine->part.micro_batch_count =
        step_division_left(engine->share.division, engine->part.replica);
    engine->position =
        schedule_position_of(&plan->layout, engine->part.stage_index, engine->part.trained_from,
                             engine->part.micro_batch_count);
}

/* Take this replica's part of the division. */
static int take_share(struct engine *engine, const struct step_division *division)
{
    const struct job_training *training = &engine->state->spec->train;
    struct engine_share *share = &engine->share;

    share->division = malloc(sizeof(*share->division));
    share->runs = calloc((size_t)training->lanes + 1, sizeof(*share->runs));
    share->loss_counts = calloc(training->lanes, sizeof(*share->loss_counts));
    if (!share->division || !share->runs || !share->loss_counts)
        return -ENOMEM;
    if (division)
        *share->division = *division;
    else
        step_division_plan(&engine->plan->layout, training->lanes, training->micro_batches_per_lane,
                           share->division);
    place(engine);
    share->run_count = step_division_runs(share->division, engine->part.replica, share->runs);
    return 0;
}

static int make_buffers(struct engine *engine)
{
    const struct job_spec *spec = engine->state->spec;
    size_t tokens = (size_t)spec->train.micro_batch * spec->model.context;

    engine->samples.tokens = calloc(tokens, sizeof(int32_t));
    engine->samples.targets = calloc(tokens, sizeof(int32_t));
    engine->weights = calloc(engine->part.unit_count, sizeof(*engine->weights));
    engine->samples.rows = calloc(2 * PLASTICITY_ROWS, spec->model.width * sizeof(float));
    if (!engine->samples.tokens || !engine->samples.targets || !engine->samples.rows ||
        !engine->weights)
        return -ENOMEM;
    for (unsigned i = 0; i < engine->part.unit_count; i++) {
        state_make_weights(engine->state, engine->part.first_unit + i);
        engine->weights[i] = engine->state->units[engine->part.first_unit + i].weights;
    }
    return 0;
}

/* The queue has room for each message of a step once: no message is queued twice. */
static int make_links(struct engine *engine, struct error *error)
{
    int status = send_queue_new(schedule_slots(&engine->position) + 2 * engine->part.unit_count + 2,
                                engine->routes->guard, &engine->channels.send_queue);

    if (!status)
        status = pipeline_open(engine);
    if (!status)
        status = reduction_new(engine, &engine->reduction);
    if (!status)
        status = lane_relay_new(engine, &engine->share.relay, error);
    if (!status)
        status = sum_copies_new(engine, &engine->share.copies, error);
    return status ? status : tied_embedding_new(engine, &engine->tie);
}

/* List the gradients that a commit applies: those of the stage and of the copies kept here. */
static int make_shadow(struct engine *engine)
{
    unsigned unit_count = engine->state->unit_count;
    int status = shadow_new(engine, &engine->shadow);

    if (status)
        return status;
    engine->applied = calloc(unit_count, sizeof(*engine->applied));
    if (!engine->applied)
        return -ENOMEM;
    for (unsigned unit = 0; engine->shadow && unit < unit_count; unit++)
        engine->applied[unit] = shadow_gradients(engine->shadow)[unit];
    for (unsigned i = 0; i < engine->part.unit_count; i++)
        if (engine->part.first_unit + i >= engine->part.trained_from)
            engine->applied[engine->part.first_unit + i] = gradients_reduced(engine->gradients)[i];
    return 0;
}

static int make_stage(struct engine *engine, struct error *error)
{
    struct stage_options options = {
        .kernel = engine->state->kernel,
        .device = engine->state->device,
        .spec = &engine->state->model,
        .first_unit = engine->part.first_unit,
        .unit_count = engine->part.unit_count,
        .frozen = memory_frozen_part(engine->part.first_unit, engine->part.unit_count,
                                     engine->part.trained_from),
        .batch = engine->state->spec->train.micro_batch,
        .slots = schedule_slots(&engine->position),
        .splits = engine->position.deferred > 0,
        .freezes = engine->state->spec->elastic.freeze.policy != JOB_FREEZE_NONE,
        .recompute = memory_recompute(&engine->plan->layout),
    };
    size_t size_bytes = stage_memory_bytes(&options);

    if (size_bytes == SIZE_MAX || arena_take(engine->state->arena, size_bytes, &options.memory))
        return error_set(error, -ENOMEM, "no %zu MiB of the device for activations",
                         size_bytes >> 20);
    return stage_new(&options, &engine->stage, error);
}

/* The buffers of sums that arrive from other ranks. */
static size_t offered_bytes(const struct state *state, const struct step_sums *offered)
{
    size_t sum_bytes = 0;

    for (unsigned i = 0; i < offered->count; i++)
        if (offered->list[i].offered && offered->list[i].chosen)
            sum_bytes +=
                arena_part_bytes(state->units[offered->list[i].unit].layout.count * sizeof(float));
    return sum_bytes;
}

static int begin_arena(struct engine *engine, const struct step_sums *offered, struct error *error)
{
    const struct memory_need need = memory_need(engine->state, &engine->plan->layout,
                                                engine->part.rank, reduction_on_device(engine));
    size_t size_bytes =
        kept_step_arena_bytes(engine->share.kept, &engine->plan->layout, engine->part.rank, &need);

    size_t more_bytes = offered ? offered_bytes(engine->state, offered) : 0;

    if (size_bytes < SIZE_MAX - more_bytes &&
        (!engine->share.kept || arena_fits(engine->state->arena, size_bytes + more_bytes)))
        size_bytes += more_bytes; /* else they are allocations of their own */
    engine->position.deferred = MIN(engine->position.deferred, need.deferred);
    return size_bytes == SIZE_MAX
               ? error_set(error, -ENOMEM, "no device has what a generation needs")
               : arena_begin(engine->state->arena, size_bytes, error);
}

static int make_gradients(struct engine *engine, const struct step_sums *offered,
                          struct error *error)
{
    const struct gradients_options options = {
        .state = engine->state,
        .first_unit = engine->part.first_unit,
        .unit_count = engine->part.unit_count,
        .replica = engine->part.replica,
        .division = engine->share.division,
        .skips = engine->position.deferred > 0,
        .kept = engine->share.kept ? kept_step_take_gradients(engine->share.kept) : NULL,
        .offered = offered,
    };

    return gradients_new(&options, &engine->gradients, error);
}

static int make_all(struct engine *engine, const struct engine_options *options,
                    struct error *error)
{
    int status = take_share(engine, options->division);

    if (!status)
        status = begin_arena(engine, options->offered, error);
    if (!status) /* its buffers are the first parts of the arena: they may outlive the engine */
        status = make_gradients(engine, options->offered, error);
    if (!status)
        status = make_stage(engine, error);
    if (!status)
        status = frozen_prefix_open(engine, options->frozen);
    if (!status && (status = make_buffers(engine)) == 0 &&
        (status = make_links(engine, error)) == 0)
        status = make_shadow(engine);
    if (!status)
        status = gradient_norm_new(engine->state, &engine->squares);
    if (!status)
        status = state_digest_new(engine->state, &engine->check);
    return status ? status : warm_up_run(engine, options->warm, error);
}

int engine_new(const struct engine_options *options, struct engine **ret_engine,
               struct error *error)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (!engine) {
        kept_step_free(options->kept);
        return error_set(error, -ENOMEM, "no memory for a generation");
    }
    *engine = (struct engine){.state = options->state,
                              .samples.dataset = options->dataset,
                              .plan = options->plan,
                              .part.rank = options->rank,
                              .routes = options->routes,
                              .calendar = options->calendar,
                              .watch = options->watch,
                              .timing.recorder = options->recorder,
                              .share.kept = options->kept,
                              .arrivals.handover = options->handover,
                              .mesh = options->routes->mesh};
    int status = make_all(engine, options, error);
    if (status) {
        /* Sums of the kept step may be on their way to other ranks. */
        mesh_abort(engine->mesh, "this worker cannot begin its part");
        engine_free(engine);
        return error && error->code
                   ? status
                   : error_set(error, status, "no memory for the buffers of a generation");
    }
    *ret_engine = engine;
    return 0;
}

static void share_done(struct engine_share *share)
{
    free(share->division);
    free(share->runs);
    free(share->loss_counts);
}

/* Close the links and the objects that borrow the gradients. */
static void close_links(struct engine *engine)
{
    if (engine->channels.send_queue)
        send_queue_drop(engine->channels.send_queue);
    pipeline_close(engine);
    lane_relay_close(engine->share.relay);
    sum_copies_close(engine->share.copies);
    reduction_free(engine->reduction);
    tied_embedding_free(engine->tie);
    shadow_free(engine->shadow);
    send_queue_free(engine->channels.send_queue);
}

/* Take the sums of the step in progress, or those of the step that this engine was to continue. */
static struct kept_step *take_kept(struct engine *engine, bool keeps)
{
    struct kept_step *kept = engine->share.kept;

    if (!kept)
        return keeps ? kept_step_new(engine, sum_copies_take(engine->share.copies)) : NULL;
    engine->share.kept = NULL;
    if (engine->gradients) {
        kept_step_return_gradients(kept, engine->gradients);
        engine->gradients = NULL;
        return kept;
    }
    kept_step_free(kept);
    return NULL;
}

struct kept_step *engine_close(struct engine *engine)
{
    if (!engine)
        return NULL;
    bool keeps = kept_step_possible(engine, sum_copies_keeps_any(engine->share.copies));
    close_links(engine);
    struct kept_step *kept = take_kept(engine, keeps);
    sum_copies_free(engine->share.copies);
    gradient_norm_free(engine->squares);
    state_digest_free(engine->check);
    free(engine->weights);
    frozen_prefix_close(engine);
    free(engine->samples.tokens);
    free(engine->samples.targets);
    free(engine->samples.rows);
    free(engine->applied);
    gradients_free(engine->gradients);
    stage_free(engine->stage);
    share_done(&engine->share);
    if (!kept)
        arena_end(engine->state->arena);
    pinned_turn(engine->state->pinned);
    free(engine);
    return kept;
}

void engine_free(struct engine *engine)
{
    kept_step_free(engine_close(engine));
}

/* Scale by the tokens that count. Without any, every loss and gradient is 0 for any scale. */
static float loss_scale(const struct engine *engine, uint64_t step)
{
    uint64_t counted =
        job_dataset_counted(&engine->state->spec->train, engine->samples.dataset, step);

    return counted > 0 ? (float)(1.0 / (double)counted) : 0.0f;
}

static void begin_record(struct engine *engine)
{
    struct state *state = engine->state;
    uint64_t step = state->applied_step + 1;

    state->holds = false;
    step_record_init(&state->hold, step, state->unit_count, state->spec->train.lanes);
    state->hold.evaluated = engine_evaluates(&state->spec->evaluate, &state->spec->train, step);
    state->hold.has_similarities =
        state->hold.evaluated &&
        freeze_measures(&state->freeze, &state->spec->elastic.freeze, &state->spec->model, step);
    engine->losses.scale = loss_scale(engine, step);
    engine->share.computes = true;
    memset(engine->share.loss_counts, 0,
           state->spec->train.lanes * sizeof(*engine->share.loss_counts));
    lane_relay_forget(engine->share.relay);
    gradients_begin(engine->gradients);
    kept_step_restore(engine->share.kept, engine);
    if (engine->share.kept)
        sum_copies_adopt(engine->share.copies, kept_step_take_copies(engine->share.kept));
    kept_step_free(engine->share.kept);
    engine->share.kept = NULL;
}

static void count_frozen(struct engine *engine)
{
    if (engine->prefix.cache)
        engine->prefix.counts = frozen_outputs_take_counts(engine->prefix.cache->outputs);
}

static int links_broke(const struct engine *engine, int status, struct error *error)
{
    struct mesh_fault fault;

    if (status != -ECONNRESET && status != -ETIMEDOUT) /* memory, or a limit of the links */
        return error_set(error, status, "step %llu could not be computed: %s",
                         (unsigned long long)engine->state->hold.step, strerror(-status));
    mesh_fault(engine->mesh, &fault);
    return error_set(error, status, "step %llu: the links of generation %llu broke%s%s",
                     (unsigned long long)engine->state->hold.step,
                     (unsigned long long)engine->plan->generation, fault.failed ? ": " : "",
                     fault.failed ? fault.text : "");
}

/* The other workers see this one leave, and continue without it. */
static int data_broke(const struct engine *engine, struct error *error)
{
    return error_set(error, -EILSEQ, "step %llu: %s", (unsigned long long)engine->state->hold.step,
                     engine->samples.error.text);
}

static void compare_state(struct engine *engine)
{
    const struct state *state = engine->state;
    const struct plan_layout *layout = &engine->plan->layout;

    if (engine->calendar && checkpoint_calendar_due(engine->calendar, state->applied_step))
        (void)state_digest_all(engine->check, layout, engine->part.rank);
    else
        state_digest_run(engine->check, layout, engine->part.rank, false);
}

/* Wait until the gradients of this rank are the sums of the whole step. */
static int finish_sums(struct engine *engine)
{
    uint64_t began_ns = clock_monotonic_ns();
    int status = reduction_finish(engine->reduction);

    if (!status)
        status = tied_embedding_exchange(engine->tie);
    if (!status)
        status = shadow_reduced(engine->shadow);
    if (!status)
        status = shadow_await(engine->shadow);
    recorder_add_kind(engine->timing.recorder, began_ns, TRACE_REDUCE, engine->state->hold.step);
    return status;
}

static int measure_norm(struct engine *engine, struct error *error)
{
    const struct state *state = engine->state;
    uint64_t began_ns = clock_monotonic_ns();

    gradient_norm_record(engine->squares, engine->plan, engine->part.rank, engine->applied,
                         &engine->state->hold);
    compare_state(engine);
    int status = state->kernel->synchronize(state->device, error);
    recorder_add_kind(engine->timing.recorder, began_ns, TRACE_NORM, state->hold.step);
    return status;
}

static void look_meanwhile(void *context)
{
    const struct engine *engine = context;

    if (sum_copies_advance(engine->share.copies))
        return; /* the waiting call will see it */
    (void)engine->watch.leaves(engine->watch.context, &engine->timing.progress);
}

void engine_look(struct engine *engine, bool looks)
{
    mesh_meanwhile(engine->mesh, looks && engine->watch.leaves ? look_meanwhile : NULL, engine);
}

/* Compute the gradients of this rank, and their sums over the whole step. */
static int run(struct engine *engine)
{
    int status = reduction_expect(engine->reduction);

    if (!status)
        status = lane_relay_begin(engine->share.relay);
    if (!status)
        status = sum_copies_begin(engine->share.copies);
    if (!status)
        status = shadow_begin(engine->shadow);
    engine_look(engine, true);
    if (!status)
        status = arriving_units_begin(engine);
    if (!status)
        status = pipeline_run(engine);
    if (!status)
        status = lane_relay_finish(engine->share.relay);
    if (!status)
        status = finish_sums(engine);
    if (!status)
        status = arriving_units_finish(engine);
    if (!status)
        status = sum_copies_finish(engine->share.copies);
    engine_look(engine, false);
    return status;
}

int engine_compute(struct engine *engine, struct error *error)
{
    struct mesh_statistics before, after;
    uint64_t began_ns = clock_monotonic_ns();

    mesh_statistics(engine->mesh, &before);
    begin_record(engine);
    engine->timing.progress = (struct engine_progress){0};
    int status = run(engine);
    if (status)
        return engine->samples.error.code ? data_broke(engine, error)
                                          : links_broke(engine, status, error);
    status = measure_norm(engine, error);
    if (status)
        return status;
    status = routes_compare(engine->routes, engine->state->hold.step);
    if (status)
        return links_broke(engine, status, error);
    lane_relay_hide_loss(engine->share.relay);
    engine->state->holds = true;
    engine->share.computes = false;
    count_frozen(engine);
    mesh_statistics(engine->mesh, &after);
    engine->timing.wait_ns = after.wait_ns - before.wait_ns;
    engine->timing.compute_ns = clock_monotonic_ns() - began_ns - engine->timing.wait_ns;
    return 0;
}

int engine_evaluate(struct engine *engine, struct error *error)
{
    struct state *state = engine->state;

    state->holds = false;
    step_record_init(&state->hold, state->applied_step + 1, 0, state->spec->train.lanes);
    state->hold.evaluated = true;
    int status = pipeline_evaluate(engine);
    if (engine->samples.error.code)
        return data_broke(engine, error);
    return status ? error_set(error, status,
                              "the links of generation %llu broke while the model was evaluated",
                              (unsigned long long)engine->plan->generation)
                  : state->kernel->synchronize(state->device, error);
}

void engine_apply(struct engine *engine, const struct step_record *record)
{
    state_apply(engine->state, record, engine->applied);
}

void engine_drop_others(struct engine *engine)
{
    for (unsigned unit = 0; unit < engine->state->unit_count; unit++)
        if (engine->state->units[unit].held &&
            !plan_layout_keeps(&engine->plan->layout, engine->part.rank, unit))
            state_drop_unit(engine->state, unit);
}
