/* Encoding of a plan as JSON for etcd and for the socket between firnd and its workers. */
#include "elastic/plan/plan.h"

#include "base/json.h"
#include "elastic/plan/plan_workers.h"
#include "elastic/plan/wire_text.h"

static int append_new(json_t *array, json_t *value)
{
    return json_array_append_new(array, value); /* takes @value in every case; NULL is a failure */
}

static json_t *pack_workers(const struct plan_layout *layout)
{
    struct bytes text CLEANUP(bytes_done) = {0};
    if (plan_workers_pack(layout->workers, layout->worker_count + layout->donor_count, &text) < 0)
        return NULL;
    return json_stringn(text.data ? (const char *)text.data : "", text.size_bytes);
}

static json_t *describe_worker(const struct plan_worker *worker)
{
    return json_pack("{sssIssso}", "node", worker->node, "slot", (json_int_t)worker->slot,
                     "address", worker->address, "instance", wire_instance(worker->instance));
}

static json_t *describe_workers(const struct plan_layout *layout)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < layout->worker_count + layout->donor_count; i++)
        if (append_new(array, describe_worker(&layout->workers[i])) < 0)
            return NULL;
    return json_incref(array);
}

/* Encode the bounds of @range_count ranges; an empty array for an empty plan. */
static json_t *encode_bounds(const unsigned *bounds, unsigned range_count)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; range_count > 0 && i <= range_count; i++)
        if (append_new(array, json_integer((json_int_t)bounds[i])) < 0)
            return NULL;
    return json_incref(array);
}

static json_t *encode_shadows(const struct plan_layout *layout)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < layout->shadow_count; i++)
        if (append_new(array, json_pack("[II]", (json_int_t)layout->shadows[i].stage,
                                        (json_int_t)layout->shadows[i].rank)) < 0)
            return NULL;
    return json_incref(array);
}

/* Encode moves as short rows, [unit, from, to] or [from, to], because there can be many. */
static json_t *encode_moves(const struct plan_move *moves, unsigned count, bool with_unit)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < count; i++) {
        json_int_t from = moves[i].from_rank, to = moves[i].to_rank;
        json_t *row = with_unit ? json_pack("[III]", (json_int_t)moves[i].unit, from, to)
                                : json_pack("[II]", from, to);
        if (append_new(array, row) < 0)
            return NULL;
    }
    return json_incref(array);
}

static json_t *encode_head(const struct plan *plan)
{
    return json_pack("{sssIsIsssosbss}", "job", plan->job, "generation",
                     (json_int_t)plan->generation, "follows", (json_int_t)plan->follows, "reason",
                     plan_reason_word(plan->change.reason), "reason_text",
                     wire_sentence(plan->change.text), "planned", (int)plan->change.planned, "key",
                     plan->links.key);
}

static int put(json_t *tree, const char *key, json_t *value)
{
    return json_object_set_new(tree, key, value);
}

static int put_layout(json_t *tree, const struct plan *plan)
{
    int status =
        plan->numerics[0] != '\0' ? put(tree, "arithmetic", json_string(plan->numerics)) : 0;
    if (plan->links.protocol != 0)
        status |= put(tree, "links", json_integer((json_int_t)plan->links.protocol));
    status |= put(tree, "stages", json_integer((json_int_t)plan->layout.stage_count));
    status |= put(tree, "replicas", json_integer((json_int_t)plan->layout.replica_count));
    status |= put(tree, "donors", json_integer((json_int_t)plan->layout.donor_count));
    status |= put(tree, "workers", pack_workers(&plan->layout));
    status |= put(tree, "stage_first_unit",
                  encode_bounds(plan->layout.stage_first_unit, plan->layout.stage_count));
    status |= put(tree, "replica_first_lane",
                  encode_bounds(plan->layout.replica_first_lane, plan->layout.replica_count));
    if (plan->layout.lane_micro_batches)
        status |= put(tree, "lane_micro_batches",
                      json_integer((json_int_t)plan->layout.lane_micro_batches));
    if (plan->layout.head_seconds > 0)
        status |= put(tree, "head_seconds", json_real(plan->layout.head_seconds));
    if (plan->layout.copy_seconds > 0)
        status |= put(tree, "copy_seconds", json_real(plan->layout.copy_seconds));
    if (plan->layout.replica_head)
        status |= put(tree, "replica_head",
                      encode_bounds(plan->layout.replica_head, plan->layout.replica_count));
    if (plan->layout.shadow_count > 0)
        status |= put(tree, "shadows", encode_shadows(&plan->layout));
    if (plan->layout.recompute != PLAN_RECOMPUTE_NONE)
        status |= put(tree, "recompute", json_string(plan_recompute_word(plan->layout.recompute)));
    if (plan->layout.deferred > 0)
        status |= put(tree, "deferred", json_integer((json_int_t)plan->layout.deferred));
    if (plan->change.is_limited)
        status |= put(tree, "limit_ns", json_integer((json_int_t)plan->change.limit_ns)) |
                  put(tree, "spare_ns", json_integer((json_int_t)plan->change.spare_ns));
    if (plan->change.breaks_off)
        status |= put(tree, "breaks_off", json_true());
    if (plan->change.revokes_last)
        status |= put(tree, "revokes",
                      json_pack("[II]", (json_int_t)plan->change.revokes_first,
                                (json_int_t)plan->change.revokes_last));
    if (plan->start.disputed)
        status |= put(tree, "disputed", json_true());
    if (plan->start.last_dispute)
        status |= put(tree, "last_dispute", json_integer((json_int_t)plan->start.last_dispute));
    if (plan->checkpoints.recorded_step)
        status |=
            put(tree, "recorded_step", json_integer((json_int_t)plan->checkpoints.recorded_step));
    if (plan->links.patient)
        status |= put(tree, "patient", json_true());
    if (plan->layout.prediction_factor > 0)
        status |= put(tree, "prediction_factor", json_real(plan->layout.prediction_factor));
    if (plan->change.busy_ns > 0)
        status |= put(tree, "busy_ns", json_integer((json_int_t)plan->change.busy_ns));
    if (plan->change.asked_devices > 0)
        status |= put(tree, "asked_devices", json_integer(plan->change.asked_devices));
    if (plan->change.before_seconds > 0)
        status |= put(tree, "predicted_before_seconds", json_real(plan->change.before_seconds));
    if (plan->change.switch_seconds > 0)
        status |= put(tree, "switch_seconds", json_real(plan->change.switch_seconds));
    status |= put(tree, "frozen_layers", json_integer((json_int_t)plan->layout.frozen_layers));
    return status |
           put(tree, "predicted_step_seconds", json_real(plan->layout.predicted_step_seconds));
}

static int put_state(json_t *tree, const struct plan_start *start)
{
    int status = put(tree, "source", json_string(plan_source_word(start->source)));
    status |= put(tree, "resume_step", json_integer((json_int_t)start->resume_step));
    status |= put(tree, "restore_path", json_string(start->restore_path));
    if (start->has_commit)
        status |= put(tree, "commit", step_record_encode(&start->commit));
    status |= put(tree, "moves", encode_moves(start->moves, start->move_count, true));
    if (start->sums_count > 0)
        status |= put(tree, "sums", encode_moves(start->sums, start->sums_count, false));
    return status |
           put(tree, "histories", encode_moves(start->histories, start->history_count, false));
}

static json_t *encode_copy_nodes(const struct plan_checkpoints *checkpoints)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < checkpoints->copy_node_count; i++) {
        const struct plan_copy_node *copy_node = &checkpoints->copy_nodes[i];
        if (append_new(array, json_pack("{ssssss}", "node", copy_node->node, "http",
                                        copy_node->http, "domain", copy_node->domain)) < 0)
            return NULL;
    }
    return json_incref(array);
}

static int put_copies(json_t *tree, const struct plan *plan)
{
    if (!plan_keeps_copies(plan))
        return 0;
    int status = put(tree, "copies", json_integer((json_int_t)plan->checkpoints.copies));
    status |= put(tree, "stores", encode_copy_nodes(&plan->checkpoints));
    return status | put(tree, "restore_sha256", json_string(plan->start.restore_sha256));
}

static int put_hosts(json_t *tree, const struct plan_hosts *hosts)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < hosts->count; i++)
        if (append_new(array, json_pack("[ss]", hosts->list[i].node, hosts->list[i].http)) < 0)
            return -1;
    return hosts->count > 0 ? json_object_set(tree, "hosts", array) : 0;
}

static int put_slow(json_t *tree, const struct plan *plan)
{
    AUTO_JSON json_t *array = json_array();
    if (plan->slow_count == 0)
        return 0;
    for (unsigned i = 0; i < plan->slow_count; i++) {
        const struct plan_slow *slow = &plan->slow[i];
        if (append_new(array,
                       json_pack("{sssIsosfsI}", "node", slow->node, "slot", (json_int_t)slow->slot,
                                 "incarnation", wire_instance(slow->incarnation), "speed",
                                 slow->speed, "times", (json_int_t)slow->times)) < 0)
            return -1;
    }
    return json_object_set(tree, "slow", array);
}

static int put_trial(json_t *tree, const struct plan_trial *trial)
{
    int status = 0;
    if (trial->before.stages > 0)
        status |= put(tree, "before",
                      json_pack("{sIsIsf}", "stages", (json_int_t)trial->before.stages, "replicas",
                                (json_int_t)trial->before.replicas, "step_seconds",
                                trial->before_seconds));
    if (trial->slower.stages > 0)
        status |= put(tree, "slower",
                      json_pack("{sIsIsI}", "stages", (json_int_t)trial->slower.stages, "replicas",
                                (json_int_t)trial->slower.replicas, "frozen_layers",
                                (json_int_t)trial->slower_frozen));
    return status;
}

json_t *plan_encode(const struct plan *plan)
{
    AUTO_JSON json_t *tree = encode_head(plan);
    if (!tree || put_layout(tree, plan) != 0 || put_state(tree, &plan->start) != 0 ||
        put_copies(tree, plan) != 0 || put_slow(tree, plan) != 0 ||
        put_hosts(tree, &plan->hosts) != 0 || put_trial(tree, &plan->trial) != 0)
        return NULL;
    return json_incref(tree);
}

json_t *plan_describe(const struct plan *plan)
{
    AUTO_JSON json_t *tree = plan_encode(plan);
    if (!tree || put(tree, "workers", describe_workers(&plan->layout)) < 0 ||
        json_object_del(tree, "key") < 0)
        return NULL;
    return json_incref(tree);
}
