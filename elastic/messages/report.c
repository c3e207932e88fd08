/*
 * Reports as JSON. A report decides which state survives a failure, so its claims must be
 * consistent in themselves before the leader compares the report with others.
 */
#include "elastic/messages/report.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "elastic/plan/plan.h"
#include "elastic/plan/wire_text.h"

#define PHASE_WORD_SIZE 16
#define CAUSE_WORD_SIZE 32 /* leaves room for words of newer programs */

static const char *const phases[] = {
    [WORKER_STARTING] = "starting", [WORKER_PREPARED] = "prepared", [WORKER_RUNNING] = "running",
    [WORKER_STUCK] = "stuck",       [WORKER_FINISHED] = "finished", [WORKER_LEFT] = "left",
    [WORKER_DEAD] = "dead",         [WORKER_REFUSED] = "refused",   [WORKER_BAD] = "bad",
};

static const char *const causes[] = {
    [CAUSE_NONE] = "",
    [CAUSE_CHECKPOINT_LOST] = "checkpoint_lost",
    [CAUSE_CHECKPOINT_AWAY] = "checkpoint_away",
    [CAUSE_STATE_DISPUTED] = "state_disputed",
    [CAUSE_DIVERGED] = "diverged",
    [CAUSE_CRASHED] = "crashed",
    [CAUSE_STARTS] = "reading",
    [CAUSE_LEFT_OUT] = "left_out",
};

const char *worker_phase_word(enum worker_phase phase)
{
    assert(phase < ARRAY_COUNT(phases));
    return phases[phase];
}

static json_t *encode_lost(const struct worker_report *report)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < report->lost_count; i++)
        if (json_array_append_new(array, json_string(report->lost[i])) < 0)
            return NULL;
    return json_incref(array);
}

static json_t *encode_unreached(const struct worker_report *report)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < report->unreached_count; i++)
        if (json_array_append_new(array, json_integer(report->unreached[i])) < 0)
            return NULL;
    return json_incref(array);
}

/* Rows of [first unit, count, shadows]. */
static json_t *encode_extras(const struct worker_report *report)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < report->extra_count; i++) {
        const struct report_extra *extra = &report->extras[i];
        json_t *row = json_pack("[IIb]", (json_int_t)extra->first, (json_int_t)extra->count,
                                (int)extra->shadows);
        if (json_array_append_new(array, row) < 0)
            return NULL;
    }
    return json_incref(array);
}

/* Control protocol 1 has no "cause": there each cause is a key of its own, named by its word. */
static int encode_cause(json_t *tree, enum worker_cause cause)
{
    assert(cause < ARRAY_COUNT(causes));
    if (cause == CAUSE_NONE)
        return 0;
    const char *word = causes[cause];
    int status = json_object_set_new(tree, "cause", json_string(word));
    return status < 0 ? status : json_object_set_new(tree, word, json_true());
}

json_t *worker_report_encode(const struct worker_report *report)
{
    AUTO_JSON json_t *tree = json_pack(
        "{sI so ss sI sI s[II] s[II] sb sI so so}", "slot", (json_int_t)report->slot, "instance",
        wire_instance(report->instance), "phase", worker_phase_word(report->phase), "generation",
        (json_int_t)report->generation, "applied_step", (json_int_t)report->applied_step, "held",
        (json_int_t)report->held_first_unit, (json_int_t)report->held_unit_count, "old",
        (json_int_t)report->old_first_unit, (json_int_t)report->old_unit_count, "holds",
        (int)report->holds, "frozen_layers", (json_int_t)report->frozen_layers, "text",
        wire_sentence(report->text), "lost", encode_lost(report));
    if (!tree)
        return NULL;
    if (!step_record_is_empty(&report->record) &&
        json_object_set_new(tree, "record", step_record_encode(&report->record)) < 0)
        return NULL;
    if (report->extra_count > 0 && json_object_set_new(tree, "extras", encode_extras(report)) < 0)
        return NULL;
    if (report->root && json_object_set_new(tree, "root", json_true()) < 0)
        return NULL;
    if (report->links && json_object_set_new(tree, "links", json_integer(report->links)) < 0)
        return NULL;
    if (report->unreached_count > 0 &&
        json_object_set_new(tree, "unreached", encode_unreached(report)) < 0)
        return NULL;
    if (encode_cause(tree, report->cause) < 0)
        return NULL;
    return json_incref(tree);
}

static int decode_phase(const json_t *tree, enum worker_phase *ret_phase, struct error *error)
{
    char word[PHASE_WORD_SIZE];
    int status = json_get_text(tree, "phase", word, sizeof(word), error);
    if (status < 0)
        return status;
    for (unsigned i = 0; i < ARRAY_COUNT(phases); i++)
        if (strcmp(phases[i], word) == 0) {
            *ret_phase = (enum worker_phase)i;
            return 0;
        }
    return error_set(error, -EINVAL, "\"phase\" cannot be \"%s\"", word);
}

static int decode_identity(const json_t *tree, struct worker_report *report, struct error *error)
{
    int status = json_get_unsigned(tree, "slot", REPORT_WORKERS_MAX - 1, &report->slot, error);
    if (status == 0)
        status = wire_get_instance(tree, &report->instance, error);
    if (status == 0)
        status = decode_phase(tree, &report->phase, error);
    if (status == 0)
        status = json_get_u64(tree, "generation", INT64_MAX, &report->generation, error);
    if (status == 0)
        status = json_get_text(tree, "text", report->text, sizeof(report->text), error);
    return status;
}

/* Decode [first, count, ...]; the range must lie within STEP_RECORD_UNITS_MAX. */
static int decode_pair(const json_t *pair, const char *key, unsigned *ret_first,
                       unsigned *ret_count, struct error *error)
{
    const json_t *first = json_array_get(pair, 0), *count = json_array_get(pair, 1);
    if (!json_is_integer(first) || !json_is_integer(count))
        return error_set(error, -EINVAL, "\"%s\" must be [first unit, count]", key);
    json_int_t begin = json_integer_value(first), length = json_integer_value(count);
    if (begin < 0 || begin > STEP_RECORD_UNITS_MAX || length < 0 ||
        length > STEP_RECORD_UNITS_MAX - begin)
        return error_set(error, -EINVAL, "\"%s\" is outside of %d units", key,
                         STEP_RECORD_UNITS_MAX);
    *ret_first = (unsigned)begin;
    *ret_count = (unsigned)length;
    return 0;
}

static int decode_range(const json_t *tree, const char *key, unsigned *ret_first,
                        unsigned *ret_count, struct error *error)
{
    json_t *pair;
    int status = json_get_array(tree, key, 2, &pair, error);
    return status < 0 ? status : decode_pair(pair, key, ret_first, ret_count, error);
}

static int decode_extras(const json_t *tree, struct worker_report *report, struct error *error)
{
    json_t *array;
    if (!json_has(tree, "extras"))
        return 0;
    int status = json_get_array(tree, "extras", REPORT_EXTRAS_MAX, &array, error);
    if (status < 0)
        return status;
    report->extra_count = (unsigned)json_array_size(array);
    for (unsigned i = 0; status == 0 && i < report->extra_count; i++) {
        const json_t *row = json_array_get(array, i), *shadows = json_array_get(row, 2);
        struct report_extra *extra = &report->extras[i];
        if (!json_is_boolean(shadows))
            return error_set(error, -EINVAL, "\"extras\"[%u] must be [first unit, count, flag]", i);
        extra->shadows = json_is_true(shadows);
        status = decode_pair(row, "extras", &extra->first, &extra->count, error);
    }
    if (status == 0 && report->extra_count > 0 && report->held_unit_count == 0)
        status = error_set(error, -EINVAL, "\"extras\" without a held range");
    return status;
}

/* Check that the record fits the claimed step: the leader would commit a wrong record otherwise. */
static int check_record(const struct worker_report *report, struct error *error)
{
    uint64_t expected = report->applied_step + (report->holds ? 1 : 0);
    if (step_record_is_empty(&report->record))
        return 0;
    if (report->record.step != expected)
        return error_set(error, -EINVAL, "the record is of step %llu instead of %llu",
                         (unsigned long long)report->record.step, (unsigned long long)expected);
    if (!report->holds && !step_record_complete(&report->record))
        return error_set(error, -EINVAL, "the record of an applied step is not complete");
    return 0;
}

static int decode_record(const json_t *tree, struct worker_report *report, struct error *error)
{
    if (!json_has(tree, "record"))
        return 0;
    int status = step_record_decode(json_object_get(tree, "record"), &report->record, error);
    if (status == 0)
        status = check_record(report, error);
    if (status < 0)
        error_prefix(error, "record: ");
    return status;
}

/* Decode the cause in control protocol 1: one key for each cause. */
static int decode_cause_of_old(const json_t *tree, enum worker_cause *ret_cause,
                               struct error *error)
{
    bool is_it = false;
    int status = 0;
    for (unsigned i = CAUSE_NONE + 1; status == 0 && !is_it && i < ARRAY_COUNT(causes); i++) {
        if (!json_has(tree, causes[i]))
            continue;
        status = json_get_bool(tree, causes[i], &is_it, error);
        if (status == 0 && is_it)
            *ret_cause = (enum worker_cause)i;
    }
    return status;
}

static int decode_cause(const json_t *tree, enum worker_cause *ret_cause, struct error *error)
{
    char word[CAUSE_WORD_SIZE];
    if (!json_has(tree, "cause"))
        return decode_cause_of_old(tree, ret_cause, error);
    int status = json_get_text(tree, "cause", word, sizeof(word), error);
    for (unsigned i = 0; status == 0 && i < ARRAY_COUNT(causes); i++)
        if (strcmp(causes[i], word) == 0)
            *ret_cause = (enum worker_cause)i;
    return status;
}

static int decode_state(const json_t *tree, struct worker_report *report, struct error *error)
{
    int status = json_get_u64(tree, "applied_step", INT64_MAX - 1, &report->applied_step, error);
    if (status == 0)
        status =
            decode_range(tree, "held", &report->held_first_unit, &report->held_unit_count, error);
    if (status == 0)
        status = decode_range(tree, "old", &report->old_first_unit, &report->old_unit_count, error);
    if (status == 0)
        status = decode_extras(tree, report, error);
    if (status == 0)
        status = json_get_bool(tree, "holds", &report->holds, error);
    if (status == 0)
        status = json_get_unsigned(tree, "frozen_layers", STEP_RECORD_UNITS_MAX,
                                   &report->frozen_layers, error);
    if (status == 0 && json_has(tree, "root"))
        status = json_get_bool(tree, "root", &report->root, error);
    if (status == 0 && json_has(tree, "links"))
        status = json_get_unsigned(tree, "links", UINT32_MAX, &report->links, error);
    return status == 0 ? decode_cause(tree, &report->cause, error) : status;
}

static int decode_lost(const json_t *tree, struct worker_report *report, struct error *error)
{
    json_t *array;
    int status = json_get_array(tree, "lost", REPORT_LOST_MAX, &array, error);
    if (status < 0)
        return status;
    size_t count = json_array_size(array);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(array, i));
        if (!name || strlen(name) >= sizeof(report->lost[i]))
            return error_set(error, -EINVAL, "\"lost\"[%zu] must be \"node/slot\"", i);
        memcpy(report->lost[i], name, strlen(name) + 1);
    }
    report->lost_count = (unsigned)count;
    return 0;
}

static int decode_unreached(const json_t *tree, struct worker_report *report, struct error *error)
{
    json_t *array;
    if (!json_has(tree, "unreached"))
        return 0;
    int status = json_get_array(tree, "unreached", REPORT_UNREACHED_MAX, &array, error);
    if (status < 0)
        return status;
    report->unreached_count = (unsigned)json_array_size(array);
    for (unsigned i = 0; i < report->unreached_count; i++) {
        const json_t *rank = json_array_get(array, i);
        if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
            json_integer_value(rank) >= PLAN_RANKS_MAX)
            return error_set(error, -EINVAL, "\"unreached\"[%u] is not a rank", i);
        report->unreached[i] = (unsigned)json_integer_value(rank);
    }
    return 0;
}

/* Decode into @report in place: a report is large and a node has many. */
static int decode_worker(const json_t *tree, struct worker_report *report, struct error *error)
{
    memset(report, 0, sizeof(*report));
    int status = decode_identity(tree, report, error);
    if (status == 0)
        status = decode_state(tree, report, error);
    if (status == 0)
        status = decode_record(tree, report, error);
    if (status == 0)
        status = decode_lost(tree, report, error);
    if (status == 0)
        status = decode_unreached(tree, report, error);
    return status;
}

int worker_report_decode(const json_t *tree, struct worker_report *ret_report, struct error *error)
{
    struct worker_report report;
    int status = decode_worker(tree, &report, error);
    if (status == 0)
        *ret_report = report;
    return status;
}

json_t *node_report_encode(const struct node_report *report)
{
    AUTO_JSON json_t *workers = json_array();
    for (unsigned i = 0; i < report->worker_count; i++)
        if (json_array_append_new(workers, worker_report_encode(&report->workers[i])) < 0)
            return NULL;
    return json_pack("{ss sI sI sO}", "node", report->node, "generation",
                     (json_int_t)report->generation, "incarnation", (json_int_t)report->incarnation,
                     "workers", workers);
}

static int check_slots(const struct node_report *report, struct error *error)
{
    bool seen[REPORT_WORKERS_MAX] = {false};
    for (unsigned i = 0; i < report->worker_count; i++) {
        unsigned slot = report->workers[i].slot;
        if (seen[slot])
            return error_set(error, -EINVAL, "slot %u is reported twice", slot);
        seen[slot] = true;
    }
    return 0;
}

static int decode_node(const json_t *tree, struct node_report *report, struct error *error)
{
    json_t *workers = NULL;
    report->worker_count = 0;
    int status = json_get_text(tree, "node", report->node, sizeof(report->node), error);
    if (status == 0 && !name_valid(report->node))
        status = error_set(error, -EINVAL, "\"node\" is not a name");
    if (status == 0)
        status = json_get_u64(tree, "generation", INT64_MAX, &report->generation, error);
    report->incarnation = 0;
    if (status == 0 && json_object_get(tree, "incarnation"))
        status = json_get_u64(tree, "incarnation", INT64_MAX, &report->incarnation, error);
    if (status == 0)
        status = json_get_array(tree, "workers", REPORT_WORKERS_MAX, &workers, error);
    if (status < 0)
        return status;
    report->worker_count = (unsigned)json_array_size(workers);
    for (unsigned i = 0; status == 0 && i < report->worker_count; i++) {
        status = decode_worker(json_array_get(workers, i), &report->workers[i], error);
        if (status < 0)
            error_prefix(error, "workers[%u]: ", i);
    }
    return status == 0 ? check_slots(report, error) : status;
}

void worker_report_copy(const struct worker_report *from, struct worker_report *to)
{
    memcpy(to, from, offsetof(struct worker_report, record));
    if (!step_record_is_empty(&from->record))
        to->record = from->record;
    if (from->frozen_layers > 0)
        to->frozen_layers = from->frozen_layers;
    if (from->lost_count > 0) {
        to->lost_count = from->lost_count;
        memcpy(to->lost, from->lost, from->lost_count * sizeof(from->lost[0]));
    }
    if (from->unreached_count > 0) {
        to->unreached_count = from->unreached_count;
        memcpy(to->unreached, from->unreached, from->unreached_count * sizeof(from->unreached[0]));
    }
    if (from->text[0] != '\0')
        memcpy(to->text, from->text, sizeof(from->text));
}

int node_report_decode(const json_t *tree, struct node_report *ret_report, struct error *error)
{
    /* On the heap: a report of 64 workers takes megabytes, of which most nodes fill little. */
    AUTO_FREE struct node_report *report = malloc(sizeof(*report));
    if (!report)
        return error_set(error, -ENOMEM, "no memory for a node's report");
    int status = decode_node(tree, report, error);
    if (status < 0)
        return status;
    memcpy(ret_report, report, offsetof(struct node_report, workers));
    for (unsigned i = 0; i < report->worker_count; i++)
        worker_report_copy(&report->workers[i], &ret_report->workers[i]);
    return 0;
}
