/*
 * Decoding of a plan from JSON received from etcd or a socket. This file checks types and sizes, so
 * that no allocation or index uses an unbounded number. plan_check() checks the numbers against
 * each other.
 */
#include "elastic/job/job_training.h"
#include "elastic/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "elastic/plan/plan_words.h"
#include "elastic/plan/plan_workers.h"
#include "elastic/plan/wire_text.h"

static int decode_reason(const json_t *tree, struct plan_change *change, struct error *error)
{
    char word[PLAN_WORD_SIZE];
    int status = json_get_text(tree, "reason", word, sizeof(word), error);
    if (status == 0 && !plan_reason_parse(word, &change->reason))
        status = error_set(error, -EINVAL, "\"reason\" cannot be \"%s\"", word);
    return status;
}

static int decode_source(const json_t *tree, struct plan_start *start, struct error *error)
{
    char word[PLAN_WORD_SIZE];
    int status = json_get_text(tree, "source", word, sizeof(word), error);
    if (status == 0 && !plan_source_parse(word, &start->source))
        status = error_set(error, -EINVAL, "\"source\" cannot be \"%s\"", word);
    return status;
}

static int decode_head(const json_t *tree, struct plan *plan, struct error *error)
{
    int status = json_get_text(tree, "job", plan->job, sizeof(plan->job), error);
    if (status == 0)
        status = json_get_u64(tree, "generation", INT64_MAX, &plan->generation, error);
    if (status == 0)
        status = decode_reason(tree, &plan->change, error);
    if (status == 0)
        status =
            json_get_text(tree, "reason_text", plan->change.text, sizeof(plan->change.text), error);
    if (status == 0)
        status = json_get_bool(tree, "planned", &plan->change.planned, error);
    if (status == 0)
        status = json_get_u64(tree, "follows", INT64_MAX, &plan->follows, error);
    if (status == 0)
        status = json_get_text(tree, "key", plan->links.key, sizeof(plan->links.key), error);
    return status;
}

/* Get the array @key and allocate its elements, with room for at least one, so that NULL means only
 * -ENOMEM. */
static int new_array(const json_t *tree, const char *key, size_t count_max, size_t element_size,
                     json_t **ret_array, void *ret_elements, struct error *error)
{
    int status = json_get_array(tree, key, count_max, ret_array, error);
    if (status < 0)
        return status;
    void *elements = calloc(json_array_size(*ret_array) + 1, element_size);
    if (!elements)
        return error_set(error, -ENOMEM, "no memory for \"%s\" of a plan", key);
    memcpy(ret_elements, &elements, sizeof(elements));
    return 0;
}

static int decode_workers(const json_t *tree, struct plan_layout *layout, struct error *error)
{
    const json_t *text = json_object_get(tree, "workers");
    unsigned total = 0;
    if (!json_is_string(text))
        return error_set(error, -EINVAL,
                         "\"workers\" must be one packed text; another version of firnd wrote it "
                         "otherwise, and all nodes of a cluster need the same");
    int status = plan_workers_unpack(json_string_value(text), json_string_length(text),
                                     &layout->workers, &total, error);
    if (status == 0)
        status = json_get_unsigned(tree, "donors", total, &layout->donor_count, error);
    if (status == 0)
        layout->worker_count = total - layout->donor_count;
    return status;
}

static int element_unsigned(const json_t *array, size_t index, unsigned max, unsigned *ret_value)
{
    const json_t *value = json_array_get(array, index);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > (json_int_t)max)
        return -EINVAL;
    *ret_value = (unsigned)json_integer_value(value);
    return 0;
}

/* Decode @range_count + 1 bounds; no bounds when there are no ranges, as in an empty plan. */
static int decode_bounds(const json_t *tree, const char *key, unsigned range_count, unsigned max,
                         unsigned **ret_bounds, struct error *error)
{
    json_t *array;
    int status =
        new_array(tree, key, (size_t)range_count + 1, sizeof(unsigned), &array, ret_bounds, error);
    if (status < 0)
        return status;
    size_t count = json_array_size(array);
    size_t expected = range_count == 0 ? 0 : (size_t)range_count + 1;
    if (count != expected)
        return error_set(error, -EINVAL, "\"%s\" has %zu elements where %zu are needed", key, count,
                         expected);
    for (size_t i = 0; i < count; i++)
        if (element_unsigned(array, i, max, &(*ret_bounds)[i]) < 0)
            return error_set(error, -EINVAL, "\"%s\"[%zu] must be an integer from 0 to %u", key, i,
                             max);
    return 0;
}

/* Decode rows of [stage, rank]; the key is missing without shadows. */
static int decode_shadows(const json_t *tree, struct plan_layout *layout, struct error *error)
{
    json_t *array;
    if (!json_has(tree, "shadows"))
        return 0;
    int status = new_array(tree, "shadows", STEP_RECORD_UNITS_MAX, sizeof(*layout->shadows), &array,
                           &layout->shadows, error);
    if (status < 0)
        return status;
    size_t count = json_array_size(array);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(array, i);
        struct plan_shadow *shadow = &layout->shadows[i];
        if (json_array_size(row) != 2 ||
            element_unsigned(row, 0, STEP_RECORD_UNITS_MAX, &shadow->stage) < 0 ||
            element_unsigned(row, 1, PLAN_RANKS_MAX, &shadow->rank) < 0)
            return error_set(error, -EINVAL, "\"shadows\"[%zu] must be [stage, rank]", i);
    }
    layout->shadow_count = (unsigned)count;
    return 0;
}

static int decode_kind(const json_t *tree, struct plan *plan, struct error *error)
{
    int status = 0;
    if (json_has(tree, "arithmetic"))
        status = json_get_text(tree, "arithmetic", plan->numerics, sizeof(plan->numerics), error);
    if (status == 0 && json_has(tree, "links"))
        status = json_get_unsigned(tree, "links", PLAN_LINKS_MAX, &plan->links.protocol, error);
    return status;
}

static int decode_revoked(const json_t *tree, struct plan_change *change, struct error *error)
{
    json_int_t first, last;
    if (!json_has(tree, "revokes"))
        return 0;
    if (json_unpack((json_t *)(uintptr_t)tree, "{s:[II]}", "revokes", &first, &last) || first < 1 ||
        last < first)
        return error_set(error, -EINVAL, "\"revokes\" must be two generations");
    change->revokes_first = (uint64_t)first;
    change->revokes_last = (uint64_t)last;
    return 0;
}

static int decode_recompute(const json_t *tree, struct plan_layout *layout, struct error *error)
{
    char word[PLAN_WORD_SIZE];
    if (!json_has(tree, "recompute"))
        return 0;
    int status = json_get_text(tree, "recompute", word, sizeof(word), error);
    if (status == 0 && !plan_recompute_parse(word, &layout->recompute))
        status = error_set(error, -EINVAL, "\"recompute\" is \"%s\"", word);
    return status;
}

/* Decode how replicas share lanes and copy their sums; the keys are missing where they do not. */
static int decode_shared_lanes(const json_t *tree, struct plan_layout *layout, struct error *error)
{
    int status = 0;
    if (json_has(tree, "lane_micro_batches"))
        status = json_get_unsigned(tree, "lane_micro_batches", JOB_MICRO_BATCHES_MAX,
                                   &layout->lane_micro_batches, error);
    if (status == 0 && json_has(tree, "head_seconds"))
        status = json_get_double(tree, "head_seconds", &layout->head_seconds, error);
    if (status == 0 && json_has(tree, "copy_seconds"))
        status = json_get_double(tree, "copy_seconds", &layout->copy_seconds, error);
    if (status == 0 && json_has(tree, "replica_head"))
        status = decode_bounds(tree, "replica_head", layout->replica_count, JOB_MICRO_BATCHES_MAX,
                               &layout->replica_head, error);
    return status;
}

static int decode_layout(const json_t *tree, struct plan *plan, struct error *error)
{
    int status =
        json_get_unsigned(tree, "stages", STEP_RECORD_UNITS_MAX, &plan->layout.stage_count, error);
    if (status == 0)
        status =
            json_get_unsigned(tree, "replicas", JOB_LANES_MAX, &plan->layout.replica_count, error);
    if (status == 0)
        status = decode_workers(tree, &plan->layout, error);
    if (status == 0)
        status = decode_bounds(tree, "stage_first_unit", plan->layout.stage_count,
                               STEP_RECORD_UNITS_MAX, &plan->layout.stage_first_unit, error);
    if (status == 0)
        status = decode_bounds(tree, "replica_first_lane", plan->layout.replica_count,
                               JOB_LANES_MAX, &plan->layout.replica_first_lane, error);
    if (status == 0)
        status = decode_shared_lanes(tree, &plan->layout, error);
    if (status == 0)
        status = decode_shadows(tree, &plan->layout, error);
    if (status == 0)
        status = decode_recompute(tree, &plan->layout, error);
    if (status == 0 && json_has(tree, "deferred"))
        status = json_get_unsigned(tree, "deferred", STEP_RECORD_UNITS_MAX, &plan->layout.deferred,
                                   error);
    plan->change.is_limited = json_has(tree, "limit_ns");
    if (status == 0 && plan->change.is_limited)
        status = json_get_u64(tree, "limit_ns", INT64_MAX, &plan->change.limit_ns, error);
    plan->change.spare_ns = plan->change.limit_ns; /* the meaning of an older leader's plan */
    if (status == 0 && json_has(tree, "spare_ns"))
        status = json_get_u64(tree, "spare_ns", INT64_MAX, &plan->change.spare_ns, error);
    if (status == 0 && json_has(tree, "breaks_off"))
        status = json_get_bool(tree, "breaks_off", &plan->change.breaks_off, error);
    if (status == 0)
        status = decode_revoked(tree, &plan->change, error);
    if (status == 0 && json_has(tree, "disputed"))
        status = json_get_bool(tree, "disputed", &plan->start.disputed, error);
    if (status == 0 && json_has(tree, "last_dispute"))
        status = json_get_u64(tree, "last_dispute", INT64_MAX, &plan->start.last_dispute, error);
    if (status == 0 && json_has(tree, "recorded_step"))
        status =
            json_get_u64(tree, "recorded_step", INT64_MAX, &plan->checkpoints.recorded_step, error);
    if (status == 0 && json_has(tree, "patient"))
        status = json_get_bool(tree, "patient", &plan->links.patient, error);
    if (status == 0)
        status = json_get_unsigned(tree, "frozen_layers", STEP_RECORD_UNITS_MAX,
                                   &plan->layout.frozen_layers, error);
    if (status == 0)
        status = json_get_double(tree, "predicted_step_seconds",
                                 &plan->layout.predicted_step_seconds, error);
    if (status == 0 && json_has(tree, "prediction_factor"))
        status = json_get_double(tree, "prediction_factor", &plan->layout.prediction_factor, error);
    if (status == 0 && json_has(tree, "busy_ns"))
        status = json_get_u64(tree, "busy_ns", INT64_MAX, &plan->change.busy_ns, error);
    if (status == 0 && json_has(tree, "asked_devices"))
        status = json_get_unsigned(tree, "asked_devices", JOB_DEVICES_MAX,
                                   &plan->change.asked_devices, error);
    if (status == 0 && json_has(tree, "predicted_before_seconds"))
        status =
            json_get_double(tree, "predicted_before_seconds", &plan->change.before_seconds, error);
    if (status == 0 && json_has(tree, "switch_seconds"))
        status = json_get_double(tree, "switch_seconds", &plan->change.switch_seconds, error);
    return status;
}

/* Decode rows of [unit, from, to], or [from, to] when not @with_unit. */
static int decode_moves(const json_t *tree, const char *key, bool with_unit, unsigned count_max,
                        struct plan_move **ret_moves, unsigned *ret_count, struct error *error)
{
    json_t *array;
    int status = new_array(tree, key, count_max, sizeof(**ret_moves), &array, ret_moves, error);
    if (status < 0)
        return status;
    size_t count = json_array_size(array);
    size_t ends = with_unit ? 1 : 0; /* index of the two ranks in a row */
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(array, i);
        struct plan_move *move = &(*ret_moves)[i];
        if (json_array_size(row) != ends + 2 ||
            (with_unit && element_unsigned(row, 0, STEP_RECORD_UNITS_MAX, &move->unit) < 0) ||
            element_unsigned(row, ends, PLAN_RANKS_MAX, &move->from_rank) < 0 ||
            element_unsigned(row, ends + 1, PLAN_RANKS_MAX, &move->to_rank) < 0)
            return error_set(error, -EINVAL, "\"%s\"[%zu] must be [%sfrom, to]", key, i,
                             with_unit ? "unit, " : "");
    }
    *ret_count = (unsigned)count;
    return 0;
}

static int decode_commit(const json_t *tree, struct plan_start *start, struct error *error)
{
    start->has_commit = json_has(tree, "commit");
    if (!start->has_commit)
        return 0;
    int status = step_record_decode(json_object_get(tree, "commit"), &start->commit, error);
    if (status < 0)
        error_prefix(error, "commit: ");
    return status;
}

static int decode_state(const json_t *tree, struct plan_start *start, struct error *error)
{
    int status = decode_source(tree, start, error);
    if (status == 0)
        status = json_get_u64(tree, "resume_step", INT64_MAX, &start->resume_step, error);
    if (status == 0)
        status = json_get_text(tree, "restore_path", start->restore_path,
                               sizeof(start->restore_path), error);
    if (status == 0)
        status = decode_commit(tree, start, error);
    if (status == 0)
        status = decode_moves(tree, "moves", true, PLAN_MOVES_MAX, &start->moves,
                              &start->move_count, error);
    if (status == 0)
        status = decode_moves(tree, "histories", false, PLAN_RANKS_MAX, &start->histories,
                              &start->history_count, error);
    if (status == 0 && json_has(tree, "sums"))
        status = decode_moves(tree, "sums", false, PLAN_MOVES_MAX, &start->sums, &start->sums_count,
                              error);
    return status;
}

static int decode_copy_node(const json_t *tree, struct plan_copy_node *ret_copy_node,
                            struct error *error)
{
    int status =
        json_get_text(tree, "node", ret_copy_node->node, sizeof(ret_copy_node->node), error);
    if (status == 0)
        status =
            json_get_text(tree, "http", ret_copy_node->http, sizeof(ret_copy_node->http), error);
    if (status == 0)
        status = json_get_text(tree, "domain", ret_copy_node->domain, sizeof(ret_copy_node->domain),
                               error);
    return status;
}

static int decode_copies(const json_t *tree, struct plan *plan, struct error *error)
{
    json_t *array = NULL;
    if (!json_has(tree, "copies"))
        return 0;
    int status =
        json_get_unsigned(tree, "copies", PLAN_COPIES_MAX, &plan->checkpoints.copies, error);
    if (status == 0)
        status =
            new_array(tree, "stores", PLAN_COPY_NODES_MAX, sizeof(*plan->checkpoints.copy_nodes),
                      &array, &plan->checkpoints.copy_nodes, error);
    if (status < 0)
        return status;
    plan->checkpoints.copy_node_count = (unsigned)json_array_size(array);
    for (unsigned i = 0; status == 0 && i < plan->checkpoints.copy_node_count; i++) {
        status =
            decode_copy_node(json_array_get(array, i), &plan->checkpoints.copy_nodes[i], error);
        if (status < 0)
            error_prefix(error, "stores[%u]: ", i);
    }
    if (status == 0)
        status = json_get_text(tree, "restore_sha256", plan->start.restore_sha256,
                               sizeof(plan->start.restore_sha256), error);
    return status;
}

static int decode_hosts(const json_t *tree, struct plan_hosts *hosts, struct error *error)
{
    json_t *array = NULL;
    if (!json_has(tree, "hosts"))
        return 0;
    int status =
        new_array(tree, "hosts", PLAN_HOSTS_MAX, sizeof(*hosts->list), &array, &hosts->list, error);
    if (status < 0)
        return status;
    hosts->count = (unsigned)json_array_size(array);
    for (unsigned i = 0; i < hosts->count; i++) {
        const json_t *row = json_array_get(array, i);
        const char *node = json_string_value(json_array_get(row, 0));
        const char *http = json_string_value(json_array_get(row, 1));
        struct plan_host *host = &hosts->list[i];
        if (!node || !http || !name_valid(node) || strlen(http) >= sizeof(host->http))
            return error_set(error, -EINVAL, "hosts[%u] is not a node and its address", i);
        memcpy(host->node, node, strlen(node) + 1);
        memcpy(host->http, http, strlen(http) + 1);
    }
    return 0;
}

static int decode_slow_slot(const json_t *tree, struct plan_slow *ret_slow, struct error *error)
{
    int status = json_get_text(tree, "node", ret_slow->node, sizeof(ret_slow->node), error);
    if (status == 0)
        status = json_get_unsigned(tree, "slot", PLAN_SLOTS_MAX - 1, &ret_slow->slot, error);
    if (status == 0)
        status = wire_get_identity(tree, "incarnation", &ret_slow->incarnation, error);
    if (status == 0)
        status = json_get_double(tree, "speed", &ret_slow->speed, error);
    if (status == 0)
        status = json_get_unsigned(tree, "times", UINT16_MAX, &ret_slow->times, error);
    return status;
}

static int decode_slow(const json_t *tree, struct plan *plan, struct error *error)
{
    json_t *array = NULL;
    if (!json_has(tree, "slow"))
        return 0;
    int status = json_get_array(tree, "slow", PLAN_SLOW_MAX, &array, error);
    if (status < 0)
        return status;
    plan->slow_count = (unsigned)json_array_size(array);
    for (unsigned i = 0; status == 0 && i < plan->slow_count; i++) {
        status = decode_slow_slot(json_array_get(array, i), &plan->slow[i], error);
        if (status < 0)
            error_prefix(error, "slow[%u]: ", i);
    }
    return status;
}

/* Find @key and the shape in it. *ret_object is NULL when there is none. */
static int decode_shape(const json_t *tree, const char *key, struct plan_shape *ret_shape,
                        const json_t **ret_object, struct error *error)
{
    *ret_object = json_has(tree, key) ? json_object_get(tree, key) : NULL;
    if (!*ret_object)
        return 0;
    int status =
        json_get_unsigned(*ret_object, "stages", STEP_RECORD_UNITS_MAX, &ret_shape->stages, error);
    if (status == 0)
        status =
            json_get_unsigned(*ret_object, "replicas", JOB_LANES_MAX, &ret_shape->replicas, error);
    return status;
}

static int decode_trial(const json_t *tree, struct plan_trial *trial, struct error *error)
{
    const json_t *before, *slower = NULL;
    int status = decode_shape(tree, "before", &trial->before, &before, error);
    if (status == 0 && before)
        status = json_get_double(before, "step_seconds", &trial->before_seconds, error);
    if (status < 0)
        error_prefix(error, "before: ");
    else
        status = decode_shape(tree, "slower", &trial->slower, &slower, error);
    if (status == 0 && slower)
        status = json_get_unsigned(slower, "frozen_layers", STEP_RECORD_UNITS_MAX,
                                   &trial->slower_frozen, error);
    if (status < 0 && slower)
        error_prefix(error, "slower: ");
    return status;
}

int plan_decode(const json_t *tree, struct plan **ret_plan, struct error *error)
{
    struct plan *plan = plan_new();
    if (!plan)
        return error_set(error, -ENOMEM, "no memory for a plan");
    int status = decode_head(tree, plan, error);
    if (status == 0)
        status = decode_kind(tree, plan, error);
    if (status == 0)
        status = decode_layout(tree, plan, error);
    if (status == 0)
        status = decode_state(tree, &plan->start, error);
    if (status == 0)
        status = decode_copies(tree, plan, error);
    if (status == 0)
        status = decode_hosts(tree, &plan->hosts, error);
    if (status == 0)
        status = decode_slow(tree, plan, error);
    if (status == 0)
        status = decode_trial(tree, &plan->trial, error);
    if (status == 0)
        status = plan_check(plan, error);
    if (status < 0) {
        error_prefix(error, "plan: ");
        plan_free(plan);
        return status;
    }
    *ret_plan = plan;
    return 0;
}
