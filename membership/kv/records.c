#include "membership/kv/records.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"

#define SECONDS_MAX 1e9
#define RATE_MAX    1e18

#define PROTOCOL_NUMBERS_MAX 8 /* a newer firnd may report more */
#define VERSIONS_MAX         65535

static const char *const wishes[] = {
    [RECORD_RUNNING] = "running",
    [RECORD_PAUSED] = "paused",
    [RECORD_CANCELLED] = "cancelled",
};

/* JSON has no NaN: unknown numbers are left out. */
static int put_known(json_t *object, const char *key, double value)
{
    return isfinite(value) ? json_object_set_new(object, key, json_real(value)) : 0;
}

static int get_known(const json_t *object, const char *key, double *ret_value, struct error *error)
{
    *ret_value = NAN;
    return json_has(object, key) ? json_get_double(object, key, ret_value, error) : 0;
}

/* Omit a number that is 0. */
static int add_number(json_t *object, const char *key, uint64_t value)
{
    return value ? json_object_set_new(object, key, json_integer((json_int_t)value)) : 0;
}

static json_t *encode_slots(const struct node_record *record)
{
    json_t *slots = json_array();

    for (unsigned i = 0; slots && i < record->slot_count; i++) {
        json_t *slot =
            json_pack("{s:s, s:s, s:i, s:I, s:f, s:s}", "kind", record->slots[i].kind, "device",
                      record->slots[i].device, "threads", (int)record->slots[i].thread_count,
                      "memory_bytes", (json_int_t)record->slots[i].memory_bytes, "speed",
                      record->slots[i].speed, "bad", record->slots[i].bad);
        if (slot && (add_number(slot, "computes", record->slots[i].computes) ||
                     add_number(slot, "retry_unix_ns", record->slots[i].retry_unix_ns))) {
            json_decref(slot);
            slot = NULL;
        }
        if (json_array_append_new(slots, slot)) {
            json_decref(slots);
            return NULL;
        }
    }
    return slots;
}

/* Return NULL if all slots are of one kind, as on nearly every node. */
static json_t *encode_others(const struct node_record *record)
{
    json_t *others = record->other_numerics_identities[0][0] ? json_array() : NULL;

    for (unsigned i = 0; others && i < RECORD_OTHERS_MAX && record->other_numerics_identities[i][0];
         i++)
        if (json_array_append_new(others, json_string(record->other_numerics_identities[i]))) {
            json_decref(others);
            return NULL;
        }
    return others;
}

static int decode_others(const json_t *tree, struct node_record *record, struct error *error)
{
    json_t *others;

    if (!json_has(tree, "other_arithmetic"))
        return 0;
    int status = json_get_array(tree, "other_arithmetic", RECORD_OTHERS_MAX, &others, error);
    for (size_t i = 0; !status && i < json_array_size(others); i++) {
        const char *text = json_string_value(json_array_get(others, i));
        if (!text || strlen(text) >= RECORD_NUMERICS_SIZE)
            return error_set(error, -EINVAL, "other_arithmetic: must be short texts");
        snprintf(record->other_numerics_identities[i], RECORD_NUMERICS_SIZE, "%s", text);
    }
    return status;
}

static const struct {
    const char *name;
    size_t offset;
} rates[] = {
    {"bf16_flops", offsetof(struct record_rates, bf16_flops)},
    {"tf32_flops", offsetof(struct record_rates, tf32_flops)},
    {"f32_flops", offsetof(struct record_rates, f32_flops)},
    {"memory_bytes", offsetof(struct record_rates, memory_bytes)},
    {"link_bytes", offsetof(struct record_rates, link_bytes)},
};

/* Return NULL if there are no measurements. */
static json_t *encode_rates(const struct record_rates *record)
{
    json_t *tree = NULL;

    for (size_t i = 0; i < ARRAY_COUNT(rates); i++) {
        double value;
        memcpy(&value, (const char *)record + rates[i].offset, sizeof(value));
        if (value > 0 && !tree)
            tree = json_object();
        if (value > 0 && json_object_set_new(tree, rates[i].name, json_real(value))) {
            json_decref(tree);
            return NULL;
        }
    }
    return tree;
}

static int decode_rates(const json_t *tree, struct record_rates *ret_rates, struct error *error)
{
    const json_t *object = json_object_get(tree, "rates");
    struct record_rates record = {0};

    for (size_t i = 0; object && i < ARRAY_COUNT(rates); i++) {
        double value = 0;
        if (!json_has(object, rates[i].name))
            continue;
        int status = json_get_double(object, rates[i].name, &value, error);
        if (!status && !(value > 0 && value < RATE_MAX))
            status = error_set(error, -EINVAL, "%s: must be above 0", rates[i].name);
        if (status)
            return status;
        memcpy((char *)&record + rates[i].offset, &value, sizeof(value));
    }
    *ret_rates = record;
    return 0;
}

json_t *node_record_encode(const struct node_record *record)
{
    return json_pack(
        "{s:s, s:i, s:s, s:s, s:I, s:s, s:I, s:s, s:s, s:o*, s:[iii], s:o*, s:o}", "address",
        record->host, "link_port", (int)record->link_port, "http", record->http, "domain",
        record->domain, "incarnation", (json_int_t)record->incarnation, "state",
        record->draining ? "draining" : "ready", "drain_deadline_unix_ns",
        (json_int_t)record->drain_deadline_unix_ns, "version", record->version, "arithmetic",
        record->numerics_identity, "other_arithmetic", encode_others(record), "protocol",
        (int)record->links, (int)record->control_oldest, (int)record->control, "rates",
        encode_rates(&record->rates), "slots", encode_slots(record));
}

static int decode_slot(const json_t *tree, struct node_record *record, unsigned index,
                       struct error *error)
{
    int status = json_get_text(tree, "kind", record->slots[index].kind,
                               sizeof(record->slots[index].kind), error);
    if (!status && json_has(tree, "device"))
        status = json_get_text(tree, "device", record->slots[index].device,
                               sizeof(record->slots[index].device), error);
    if (!status)
        status =
            json_get_unsigned(tree, "threads", 4096, &record->slots[index].thread_count, error);
    if (!status)
        status = json_get_u64(tree, "memory_bytes", INT64_MAX, &record->slots[index].memory_bytes,
                              error);
    if (!status)
        status = json_get_double(tree, "speed", &record->slots[index].speed, error);
    if (!status && json_has(tree, "computes"))
        status = json_get_unsigned(tree, "computes", RECORD_OTHERS_MAX + 1,
                                   &record->slots[index].computes, error);
    if (!status)
        status = json_get_text(tree, "bad", record->slots[index].bad,
                               sizeof(record->slots[index].bad), error);
    if (!status && json_has(tree, "retry_unix_ns"))
        status = json_get_u64(tree, "retry_unix_ns", INT64_MAX, &record->slots[index].retry_unix_ns,
                              error);
    if (!status && !(record->slots[index].speed > 0 && record->slots[index].speed < SECONDS_MAX))
        status = error_set(error, -EINVAL, "speed: must be above 0");
    return status;
}

/* Decode [links, oldest control, control]; an older firnd does not report it. */
static int decode_protocol(const json_t *tree, struct node_record *record, struct error *error)
{
    json_t *list;
    unsigned *const places[] = {&record->links, &record->control_oldest, &record->control};

    if (!json_has(tree, "protocol"))
        return 0;
    int status = json_get_array(tree, "protocol", PROTOCOL_NUMBERS_MAX, &list, error);
    if (status)
        return status;
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        json_int_t value = json_integer_value(json_array_get(list, i));
        if (!json_is_integer(json_array_get(list, i)) || value < 0 || value > VERSIONS_MAX)
            return error_set(error, -EINVAL, "protocol: must be [links, oldest, newest]");
        *places[i] = (unsigned)value;
    }
    return 0;
}

int node_record_decode(const json_t *tree, struct node_record *ret_record, struct error *error)
{
    struct node_record record = {0};
    char state[16];
    json_t *slots;
    int status = json_get_text(tree, "address", record.host, sizeof(record.host), error);

    if (!status)
        status = json_get_unsigned(tree, "link_port", 65535, &record.link_port, error);
    if (!status)
        status = json_get_text(tree, "http", record.http, sizeof(record.http), error);
    if (!status && json_has(tree, "domain")) /* older daemons have none */
        status = json_get_text(tree, "domain", record.domain, sizeof(record.domain), error);
    if (!status)
        status = json_get_u64(tree, "incarnation", INT64_MAX, &record.incarnation, error);
    if (!status)
        status = json_get_text(tree, "state", state, sizeof(state), error);
    if (!status && json_has(tree, "drain_deadline_unix_ns"))
        status = json_get_u64(tree, "drain_deadline_unix_ns", INT64_MAX,
                              &record.drain_deadline_unix_ns, error);
    if (!status)
        status = json_get_text(tree, "version", record.version, sizeof(record.version), error);
    if (!status && json_has(tree, "arithmetic")) /* an older firnd does not report it */
        status = json_get_text(tree, "arithmetic", record.numerics_identity,
                               sizeof(record.numerics_identity), error);
    if (!status)
        status = decode_others(tree, &record, error);
    if (!status)
        status = decode_protocol(tree, &record, error);
    if (!status) /* most nodes have none */
        status = decode_rates(tree, &record.rates, error);
    if (!status)
        status = json_get_array(tree, "slots", RECORD_SLOTS_MAX, &slots, error);
    if (status)
        return status;
    record.draining = !strcmp(state, "draining");
    record.slot_count = (unsigned)json_array_size(slots);
    for (unsigned i = 0; !status && i < record.slot_count; i++)
        status = decode_slot(json_array_get(slots, i), &record, i, error);
    if (!status)
        *ret_record = record;
    return status;
}

json_t *desired_record_encode(const struct desired_record *record)
{
    return json_pack("{s:s, s:i, s:i, s:i}", "state", wishes[record->wish], "devices",
                     (int)record->devices, "stages", (int)record->stages, "replicas",
                     (int)record->replicas);
}

int desired_record_decode(const json_t *tree, struct desired_record *ret_record,
                          struct error *error)
{
    struct desired_record record = {0};
    char word[16];
    size_t wish = 0;
    int status = json_get_text(tree, "state", word, sizeof(word), error);

    if (!status)
        status = json_get_unsigned(tree, "devices", 65536, &record.devices, error);
    if (!status)
        status = json_get_unsigned(tree, "stages", 65536, &record.stages, error);
    if (!status)
        status = json_get_unsigned(tree, "replicas", 65536, &record.replicas, error);
    if (status)
        return status;
    while (wish < ARRAY_COUNT(wishes) && strcmp(word, wishes[wish]))
        wish++;
    if (wish == ARRAY_COUNT(wishes))
        return error_set(error, -EINVAL, "state: \"%s\" is not running, paused or cancelled", word);
    record.wish = (enum record_wish)wish;
    *ret_record = record;
    return 0;
}

json_t *submission_record_encode(const struct submission_record *record)
{
    return json_pack("{s:s}", "id", record->id);
}

int submission_record_decode(const json_t *tree, struct submission_record *ret_record,
                             struct error *error)
{
    struct submission_record record = {0};
    int status = json_get_text(tree, "id", record.id, sizeof(record.id), error);

    if (status)
        return status;
    if (!record.id[0] || record.id[strspn(record.id, "0123456789abcdef")])
        return error_set(error, -EINVAL, "id: \"%s\" is not of hexadecimal digits", record.id);
    *ret_record = record;
    return 0;
}

json_t *state_record_encode(const struct state_record *record)
{
    json_t *tree = json_pack("{s:s, s:s, s:I}", "state", record->state, "text", record->text,
                             "unix_ns", (json_int_t)record->unix_ns);

    if (tree && add_number(tree, "kept_until_unix_ns", record->kept_until_unix_ns)) {
        json_decref(tree);
        return NULL;
    }
    return tree;
}

int state_record_decode(const json_t *tree, struct state_record *ret_record, struct error *error)
{
    struct state_record record = {0};
    int status = json_get_text(tree, "state", record.state, sizeof(record.state), error);

    if (!status)
        status = json_get_text(tree, "text", record.text, sizeof(record.text), error);
    if (!status)
        status = json_get_u64(tree, "unix_ns", INT64_MAX, &record.unix_ns, error);
    if (!status && json_has(tree, "kept_until_unix_ns"))
        status =
            json_get_u64(tree, "kept_until_unix_ns", INT64_MAX, &record.kept_until_unix_ns, error);
    if (!status)
        *ret_record = record;
    return status;
}

/* Write rows of [rank, speed]; omit the key if there are none. */
static int put_stragglers(json_t *tree, const struct progress_record *record)
{
    AUTO_JSON json_t *array = json_array();

    if (!record->straggler_count)
        return 0;
    for (unsigned i = 0; i < record->straggler_count; i++)
        if (json_array_append_new(array, json_pack("[I, f]", (json_int_t)record->stragglers[i].rank,
                                                   record->stragglers[i].speed)))
            return -1;
    return json_object_set(tree, "stragglers", array);
}

static int get_stragglers(const json_t *tree, struct progress_record *record, struct error *error)
{
    json_t *array;
    int status;

    if (!json_has(tree, "stragglers"))
        return 0;
    status = json_get_array(tree, "stragglers", RECORD_STRAGGLERS_MAX, &array, error);
    if (status)
        return status;
    record->straggler_count = (unsigned)json_array_size(array);
    for (unsigned i = 0; i < record->straggler_count; i++) {
        const json_t *row = json_array_get(array, i), *rank = json_array_get(row, 0);
        double speed = json_number_value(json_array_get(row, 1));
        if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
            json_integer_value(rank) > INT32_MAX || !(speed > 0 && speed <= 1))
            return error_set(error, -EINVAL, "\"stragglers\"[%u] must be [rank, speed]", i);
        record->stragglers[i].rank = (unsigned)json_integer_value(rank);
        record->stragglers[i].speed = speed;
    }
    return 0;
}

static int put_kept(json_t *tree, const struct progress_record *record)
{
    if (record->kept_units == 0)
        return 0;
    return json_object_set_new(
        tree, "kept", json_pack("[I, f]", (json_int_t)record->kept_units, record->kept_share));
}

static int get_kept(const json_t *tree, struct progress_record *record, struct error *error)
{
    json_int_t units = 0;
    double share = 0;

    if (!json_has(tree, "kept"))
        return 0;
    if (json_unpack(json_object_get(tree, "kept"), "[I, F!]", &units, &share) || units <= 0 ||
        units > UINT16_MAX || !(share >= 0 && share <= 1))
        return error_set(error, -EINVAL, "\"kept\" must be [units, share]");
    record->kept_units = (unsigned)units;
    record->kept_share = share;
    return 0;
}

json_t *progress_record_encode(const struct progress_record *record)
{
    json_t *tree =
        json_pack("{s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:I, s:s, s:I}", "generation",
                  (json_int_t)record->generation, "step", (json_int_t)record->step, "steps",
                  (json_int_t)record->steps, "frozen_layers", (int)record->frozen_layers, "stages",
                  (int)record->stages, "replicas", (int)record->replicas, "workers",
                  (int)record->workers, "checkpoint_step", (json_int_t)record->checkpoint_step,
                  "alarm", record->alarm, "unix_ns", (json_int_t)record->unix_ns);

    if (tree &&
        (put_known(tree, "loss", record->loss) || put_known(tree, "grad_norm", record->grad_norm) ||
         put_known(tree, "val_loss", record->validation_loss) ||
         put_known(tree, "step_seconds", record->step_seconds) ||
         put_known(tree, "tokens_per_second", record->tokens_per_second) ||
         put_known(tree, "pause_seconds", record->pause_seconds) || put_kept(tree, record) ||
         put_stragglers(tree, record))) {
        json_decref(tree);
        return NULL;
    }
    return tree;
}

int progress_record_decode(const json_t *tree, struct progress_record *ret_record,
                           struct error *error)
{
    struct progress_record record = {0};
    const struct {
        const char *key;
        uint64_t *value;
    } counts[] = {{"generation", &record.generation},
                  {"step", &record.step},
                  {"steps", &record.steps},
                  {"checkpoint_step", &record.checkpoint_step},
                  {"unix_ns", &record.unix_ns}};
    const struct {
        const char *key;
        unsigned *value;
    } sizes[] = {{"frozen_layers", &record.frozen_layers},
                 {"stages", &record.stages},
                 {"replicas", &record.replicas},
                 {"workers", &record.workers}};
    const struct {
        const char *key;
        double *value;
    } numbers[] = {{"loss", &record.loss},
                   {"grad_norm", &record.grad_norm},
                   {"val_loss", &record.validation_loss},
                   {"step_seconds", &record.step_seconds},
                   {"tokens_per_second", &record.tokens_per_second},
                   {"pause_seconds", &record.pause_seconds}};
    int status = json_get_text(tree, "alarm", record.alarm, sizeof(record.alarm), error);

    for (size_t i = 0; !status && i < ARRAY_COUNT(counts); i++)
        status = json_get_u64(tree, counts[i].key, INT64_MAX, counts[i].value, error);
    for (size_t i = 0; !status && i < ARRAY_COUNT(sizes); i++)
        status = json_get_unsigned(tree, sizes[i].key, UINT32_MAX, sizes[i].value, error);
    for (size_t i = 0; !status && i < ARRAY_COUNT(numbers); i++)
        status = get_known(tree, numbers[i].key, numbers[i].value, error);
    if (!status)
        status = get_kept(tree, &record, error);
    if (!status)
        status = get_stragglers(tree, &record, error);
    if (!status)
        *ret_record = record;
    return status;
}

/* Encode the places as arrays of nodes: [["a", "b"], ["b", "c"]]. */
static json_t *encode_shares(const char *text)
{
    AUTO_JSON json_t *shares = json_array();
    json_t *group = NULL;

    while (*text) {
        size_t length = strcspn(text, "+ ");
        if (!group && json_array_append_new(shares, group = json_array()))
            return NULL;
        if (json_array_append_new(group, json_stringn(text, length)))
            return NULL;
        group = text[length] == '+' ? group : NULL;
        text += length + (text[length] != '\0');
    }
    return json_incref(shares);
}

static int decode_group(const json_t *group, struct bytes *text, struct error *error)
{
    int status = 0;

    for (size_t i = 0; !status && i < json_array_size(group); i++) {
        const char *node = json_string_value(json_array_get(group, i));
        if (!node || !name_valid(node))
            return error_set(error, -EINVAL, "shares: not a node's name");
        status = bytes_append_format(text, "%s%s", i ? "+" : text->size_bytes ? " " : "", node);
    }
    if (status)
        return error_set(error, -ENOMEM, "shares: no memory");
    if (text->size_bytes >= RECORD_SHARES_SIZE)
        return error_set(error, -EINVAL, "shares: longer than %u bytes", RECORD_SHARES_SIZE - 1);
    return json_array_size(group) ? 0 : error_set(error, -EINVAL, "shares: nobody has one of them");
}

/* Refuse an empty list: it would pass for a checkpoint in a folder that all nodes share. */
static int decode_shares(const json_t *shares, char **ret_text, struct error *error)
{
    struct bytes text = {0};
    int status = json_array_size(shares) ? 0 : error_set(error, -EINVAL, "shares: there are none");

    for (size_t i = 0; !status && i < json_array_size(shares); i++)
        status = decode_group(json_array_get(shares, i), &text, error);
    if (!status && bytes_append(&text, "", 1))
        status = error_set(error, -ENOMEM, "shares: no memory");
    if (!status)
        *ret_text = (char *)text.data;
    else
        bytes_done(&text);
    return status;
}

static int decode_copies(const json_t *tree, struct checkpoint_record *record, struct error *error)
{
    json_t *shares;
    int status = 0;

    if (!json_has(tree, "shares"))
        return 0;
    status = json_get_array(tree, "shares", RECORD_SHARES_SIZE, &shares, error);
    if (!status)
        status = json_get_bool(tree, "pinned", &record->pinned, error);
    return status ? status : decode_shares(shares, &record->shares, error);
}

json_t *checkpoint_record_encode(const struct checkpoint_record *record)
{
    AUTO_JSON json_t *tree = json_pack(
        "{s:I, s:I, s:I, s:s, s:s, s:f, s:f, s:s, s:I}", "step", (json_int_t)record->step,
        "generation", (json_int_t)record->generation, "size_bytes", (json_int_t)record->size_bytes,
        "path", record->path, "manifest_sha256", record->manifest_sha256, "stall_seconds",
        record->stall_seconds, "write_seconds", record->write_seconds, "node", record->node,
        "unix_ns", (json_int_t)record->unix_ns);

    if (!tree ||
        (record->shares && (json_object_set_new(tree, "shares", encode_shares(record->shares)) ||
                            json_object_set_new(tree, "pinned", json_boolean(record->pinned)))) ||
        (record->damaged[0] &&
         json_object_set_new(tree, "damaged", json_string(record->damaged))) ||
        (record->frozen_layers > 0 &&
         json_object_set_new(tree, "frozen_layers", json_integer(record->frozen_layers))))
        return NULL;
    return json_incref(tree);
}

int checkpoint_record_decode(const json_t *tree, struct checkpoint_record *ret_record,
                             struct error *error)
{
    struct checkpoint_record record = {0};
    int status = json_get_u64(tree, "step", INT64_MAX, &record.step, error);

    if (!status)
        status = json_get_u64(tree, "generation", INT64_MAX, &record.generation, error);
    if (!status)
        status = json_get_u64(tree, "size_bytes", INT64_MAX, &record.size_bytes, error);
    if (!status)
        status = json_get_text(tree, "path", record.path, sizeof(record.path), error);
    if (!status)
        status = json_get_text(tree, "manifest_sha256", record.manifest_sha256, RECORD_DIGEST_SIZE,
                               error);
    if (!status)
        status = json_get_double(tree, "stall_seconds", &record.stall_seconds, error);
    if (!status)
        status = json_get_double(tree, "write_seconds", &record.write_seconds, error);
    if (!status)
        status = json_get_text(tree, "node", record.node, sizeof(record.node), error);
    if (!status)
        status = json_get_u64(tree, "unix_ns", INT64_MAX, &record.unix_ns, error);
    if (!status && json_has(tree, "frozen_layers"))
        status = json_get_unsigned(tree, "frozen_layers", UINT16_MAX, &record.frozen_layers, error);
    if (!status && json_has(tree, "damaged"))
        status = json_get_text(tree, "damaged", record.damaged, sizeof(record.damaged), error);
    if (!status)
        status = decode_copies(tree, &record, error);
    if (!status)
        *ret_record = record;
    return status;
}

void checkpoint_record_done(struct checkpoint_record *record)
{
    free(record->shares);
    record->shares = NULL;
}

/* ---- objects ---- */

static const char *const object_words[] = {"uploading", "complete", "failed"};

json_t *object_record_encode(const struct object_record *record)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:I}", "state",
                     object_words[record->state], "step", (json_int_t)record->step, "size_bytes",
                     (json_int_t)record->size_bytes, "done_bytes", (json_int_t)record->done_bytes,
                     "manifest_sha256", record->manifest_sha256, "place", record->place, "node",
                     record->node, "text", record->text, "unix_ns", (json_int_t)record->unix_ns);
}

static int take_object_state(const char *word, enum record_object *ret_state, struct error *error)
{
    for (size_t i = 0; i < ARRAY_COUNT(object_words); i++)
        if (!strcmp(word, object_words[i])) {
            *ret_state = (enum record_object)i;
            return 0;
        }
    return error_set(error, -EINVAL, "state: \"%s\" is not uploading, complete or failed", word);
}

int object_record_decode(const json_t *tree, struct object_record *ret_record, struct error *error)
{
    struct object_record record = {0};
    char word[16];
    int status = json_get_text(tree, "state", word, sizeof(word), error);

    if (!status)
        status = take_object_state(word, &record.state, error);
    if (!status)
        status = json_get_u64(tree, "step", INT64_MAX, &record.step, error);
    if (!status)
        status = json_get_u64(tree, "size_bytes", INT64_MAX, &record.size_bytes, error);
    if (!status)
        status = json_get_u64(tree, "done_bytes", INT64_MAX, &record.done_bytes, error);
    if (!status)
        status = json_get_text(tree, "manifest_sha256", record.manifest_sha256, RECORD_DIGEST_SIZE,
                               error);
    if (!status)
        status = json_get_text(tree, "place", record.place, sizeof(record.place), error);
    if (!status)
        status = json_get_text(tree, "node", record.node, sizeof(record.node), error);
    if (!status)
        status = json_get_text(tree, "text", record.text, sizeof(record.text), error);
    if (!status)
        status = json_get_u64(tree, "unix_ns", INT64_MAX, &record.unix_ns, error);
    if (!status)
        *ret_record = record;
    return status;
}
