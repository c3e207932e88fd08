#include "worker/step/lane_relay.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "elastic/step/step_record.h"
#include "worker/device/tags.h"
#include "worker/step/bulk_transfer.h"
#include "worker/trace/recorder.h"

/* The shared lane at one end of this replica's part. */
struct head {
    unsigned lane, micro_batches; /* 0: this end is between two lanes */
    unsigned rank;                /* of the other replica, in the same stage */
    struct bulk_transfer *units;  /* owned; of the engine's part */
};

struct lane_relay {
    struct engine *engine;
    struct head gives, gets;
    struct mesh_request *loss_request; /* NULL: the loss has arrived, or none is expected */
    double loss;                       /* of the head that this rank gets */
};

static int make_head(const struct engine *engine, unsigned lane, unsigned rank, struct head *head)
{
    *head = (struct head){.lane = lane,
                          .micro_batches = engine->share.division->heads[lane],
                          .rank = rank,
                          .units = calloc(engine->part.unit_count, sizeof(*head->units))};
    return head->units ? 0 : -ENOMEM;
}

static int find_heads(struct lane_relay *relay)
{
    const struct engine *engine = relay->engine;
    const struct step_division *division = engine->share.division;
    const struct plan_layout *layout = &engine->plan->layout;
    unsigned stage = engine->part.stage_index, replica = engine->part.replica;
    int status = 0;

    for (unsigned lane = 0; !status && lane < division->lanes; lane++) {
        if (!division->heads[lane])
            continue;
        unsigned owner = division->owners[lane], giver = division->givers[lane];
        if (owner == replica)
            status = make_head(engine, lane, plan_layout_rank(layout, giver, stage), &relay->gets);
        else if (giver == replica)
            status = make_head(engine, lane, plan_layout_rank(layout, owner, stage), &relay->gives);
    }
    return status;
}

int lane_relay_new(struct engine *engine, struct lane_relay **ret_relay, struct error *error)
{
    struct lane_relay *relay = calloc(1, sizeof(*relay));
    int status = -ENOMEM;

    *ret_relay = NULL;
    if (!relay)
        return status;
    relay->engine = engine;
    status = find_heads(relay);
    bool shares = relay->gets.micro_batches || relay->gives.micro_batches;
    if (!status && shares && !engine->state->kernel->host_memory)
        status = error_set(error, -ENOTSUP,
                           "this worker's device has memory of its own, and the plan lets it share "
                           "a lane: only CPU slots do");
    if (!status && shares)
        *ret_relay = relay;
    else
        lane_relay_close(relay);
    return status;
}

static unsigned lowest_trained(const struct engine *engine)
{
    return MAX(engine->part.first_unit, engine->part.trained_from);
}

static unsigned end_unit(const struct engine *engine)
{
    return engine->part.first_unit + engine->part.unit_count;
}

static struct bulk_transfer *transfer_of(const struct lane_relay *relay, const struct head *head,
                                         unsigned unit)
{
    return &head->units[unit - relay->engine->part.first_unit];
}

static float *sum_of(const struct lane_relay *relay, const struct head *head, unsigned unit)
{
    return gradients_sum(relay->engine->gradients, unit, (struct lane_tree_span){head->lane, 1});
}

static size_t unit_bytes(const struct lane_relay *relay, unsigned unit)
{
    return relay->engine->state->units[unit].layout.count * sizeof(float);
}

static uint64_t sum_tag(const struct lane_relay *relay, unsigned unit)
{
    return tag_make(TAG_HEAD_SUM, relay->engine->state->hold.step, unit);
}

static uint64_t loss_tag(const struct lane_relay *relay)
{
    return tag_make(TAG_HEAD_LOSS, relay->engine->state->hold.step, 0);
}

static void forget(struct lane_relay *relay, const struct head *head)
{
    for (unsigned i = 0; head->units && i < relay->engine->part.unit_count; i++) {
        bulk_transfer_close(&head->units[i]);
        head->units[i] = (struct bulk_transfer){0};
    }
}

void lane_relay_forget(struct lane_relay *relay)
{
    if (!relay)
        return;
    forget(relay, &relay->gives);
    forget(relay, &relay->gets);
}

/* Backward needs the last units first. */
int lane_relay_begin(struct lane_relay *relay)
{
    int status = 0;

    if (!relay || !relay->gets.micro_batches)
        return 0;
    const struct engine *engine = relay->engine;
    for (unsigned unit = end_unit(engine); !status && unit-- > lowest_trained(engine);)
        status = bulk_transfer_receive(transfer_of(relay, &relay->gets, unit), engine->mesh,
                                       relay->gets.rank, sum_tag(relay, unit),
                                       sum_of(relay, &relay->gets, unit), unit_bytes(relay, unit));
    if (!status && engine_is_last_stage(engine))
        status = mesh_receive(engine->mesh, relay->gets.rank, loss_tag(relay), &relay->loss,
                              sizeof(relay->loss), &relay->loss_request);
    return status;
}

int lane_relay_await(struct lane_relay *relay, unsigned unit, unsigned lane, unsigned index)
{
    if (!relay || !relay->gets.micro_batches || lane != relay->gets.lane ||
        index != relay->gets.micro_batches)
        return 0;
    const struct engine *engine = relay->engine;
    struct bulk_transfer *transfer = transfer_of(relay, &relay->gets, unit);
    uint64_t began_ns = clock_monotonic_ns();
    if (bulk_transfer_is_done(transfer))
        return 0;
    int status = bulk_transfer_settle(transfer, true);
    recorder_add_kind(engine->timing.recorder, began_ns, TRACE_WAIT_HEAD, engine->state->hold.step);
    return status;
}

int lane_relay_added(struct lane_relay *relay, unsigned unit, unsigned lane, unsigned index)
{
    if (!relay || lane != relay->gives.lane || index + 1 != relay->gives.micro_batches)
        return 0;
    return bulk_transfer_send(transfer_of(relay, &relay->gives, unit), relay->engine->mesh,
                              relay->gives.rank, sum_tag(relay, unit),
                              sum_of(relay, &relay->gives, unit), unit_bytes(relay, unit));
}

/* Wait for the loss of the head, and put it into the record of the step. */
static int take_head_loss(struct lane_relay *relay)
{
    struct engine *engine = relay->engine;
    struct mesh_request *request = relay->loss_request;

    if (!request)
        return 0;
    uint64_t began_ns = clock_monotonic_ns();
    relay->loss_request = NULL;
    int status = mesh_wait(request, UINT64_MAX);
    recorder_add_kind(engine->timing.recorder, began_ns, TRACE_WAIT_HEAD, engine->state->hold.step);
    if (status)
        return status;
    engine->state->hold.lane_losses[relay->gets.lane] = relay->loss;
    engine->share.loss_counts[relay->gets.lane] = relay->gets.micro_batches;
    return 0;
}

int lane_relay_await_loss(struct lane_relay *relay, unsigned lane, unsigned index)
{
    bool is_next = relay && lane == relay->gets.lane && index == relay->gets.micro_batches;

    return is_next ? take_head_loss(relay) : 0;
}

int lane_relay_added_loss(struct lane_relay *relay, unsigned lane, unsigned index)
{
    if (!relay || lane != relay->gives.lane || index + 1 != relay->gives.micro_batches)
        return 0;
    const struct engine *engine = relay->engine;
    return mesh_send(engine->mesh, relay->gives.rank, loss_tag(relay),
                     &engine->state->hold.lane_losses[lane], sizeof(double), NULL);
}

static int finish_head(struct lane_relay *relay, const struct head *head)
{
    unsigned end = head->micro_batches ? end_unit(relay->engine) : 0;
    int status = 0;

    for (unsigned unit = lowest_trained(relay->engine); !status && unit < end; unit++)
        status = bulk_transfer_settle(transfer_of(relay, head, unit), true);
    return status;
}

int lane_relay_finish(struct lane_relay *relay)
{
    if (!relay)
        return 0;
    int status = finish_head(relay, &relay->gives);

    return status ? status : finish_head(relay, &relay->gets);
}

void lane_relay_hide_loss(struct lane_relay *relay)
{
    if (relay && relay->gives.micro_batches)
        relay->engine->state->hold.lane_losses[relay->gives.lane] = step_record_unknown();
}

static bool is_under_way(const struct lane_relay *relay, const struct head *head)
{
    for (unsigned i = 0; head->units && i < relay->engine->part.unit_count; i++)
        if (head->units[i].begun && !bulk_transfer_is_done(&head->units[i]))
            return true;
    return false;
}

static void close_head(struct lane_relay *relay, struct head *head, bool arrives)
{
    const struct engine *engine = relay->engine;

    for (unsigned i = 0; head->units && i < engine->part.unit_count; i++) {
        bulk_transfer_close(&head->units[i]);
        if (arrives && engine->gradients && !bulk_transfer_is_done(&head->units[i]))
            gradients_missed(engine->gradients, engine->part.first_unit + i,
                             (struct lane_tree_span){head->lane, 1});
    }
    free(head->units);
}

void lane_relay_close(struct lane_relay *relay)
{
    if (!relay)
        return;
    if (relay->loss_request || is_under_way(relay, &relay->gives) ||
        is_under_way(relay, &relay->gets))
        mesh_abort(relay->engine->mesh, "a step was given up"); /* nothing, if it has failed */
    if (take_head_loss(relay))                                  /* it may be kept with its sums */
        relay->loss = step_record_unknown();
    close_head(relay, &relay->gives, false);
    close_head(relay, &relay->gets, true);
    free(relay);
}
