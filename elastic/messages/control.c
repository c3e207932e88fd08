/*
 * A message is {"type": word} and one section for each thing that the type carries. Doubles that
 * must arrive exactly travel as bits; losses can be NaN, which JSON lacks.
 */
#include "elastic/messages/control.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "elastic/plan/versions.h"
#include "elastic/plan/wire_text.h"

#define LENGTH_SIZE    4
#define TYPE_WORD_SIZE 16

enum carries {
    CARRIES_PLAN = 1 << 0,
    CARRIES_STATUS = 1 << 1,
    CARRIES_PROGRESS = 1 << 2,
    CARRIES_CHECKPOINT = 1 << 3,
    CARRIES_TEXT = 1 << 4,
};

static const struct {
    const char *word;
    unsigned carries;
} types[] = {
    [CONTROL_PREPARE] = {"prepare", CARRIES_PLAN},
    [CONTROL_SWITCH] = {"switch", CARRIES_PLAN},
    [CONTROL_STOP] = {"stop", 0},
    [CONTROL_HOLD] = {"hold", CARRIES_PROGRESS},
    [CONTROL_GO_ON] = {"go-on", CARRIES_PROGRESS},
    [CONTROL_STATUS] = {"status", CARRIES_STATUS},
    [CONTROL_PROGRESS] = {"progress", CARRIES_PROGRESS},
    [CONTROL_EVENT] = {"event", CARRIES_TEXT | CARRIES_PROGRESS},
    [CONTROL_CHECKPOINT] = {"checkpoint", CARRIES_CHECKPOINT | CARRIES_TEXT},
    [CONTROL_ALARM] = {"alarm", CARRIES_TEXT},
};

/* The doubles of a section by name, so that both directions read the same list. */
struct double_field {
    const char *key;
    size_t offset;
};

static const struct double_field progress_doubles[] = {
    {"loss", offsetof(struct control_progress, loss)},
    {"grad_norm", offsetof(struct control_progress, grad_norm)},
    {"validation_loss", offsetof(struct control_progress, validation_loss)},
    {"step_seconds", offsetof(struct control_progress, step_seconds)},
    {"tokens_per_second", offsetof(struct control_progress, tokens_per_second)},
    {"compute_seconds", offsetof(struct control_progress, compute_seconds)},
    {"wait_seconds", offsetof(struct control_progress, wait_seconds)},
    {"pause_seconds", offsetof(struct control_progress, pause_seconds)},
};

static const struct double_field checkpoint_doubles[] = {
    {"stall_seconds", offsetof(struct control_checkpoint, stall_seconds)},
    {"write_seconds", offsetof(struct control_checkpoint, write_seconds)},
};

static int put_doubles(json_t *tree, const struct double_field *fields, size_t count,
                       const void *section)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < count; i++) {
        double value;
        memcpy(&value, (const char *)section + fields[i].offset, sizeof(value));
        status = json_put_bits64(tree, fields[i].key, value);
    }
    return status;
}

static int get_doubles(const json_t *tree, const struct double_field *fields, size_t count,
                       void *section, struct error *error)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < count; i++) {
        double value;
        status = json_get_bits64(tree, fields[i].key, &value, error);
        if (status == 0)
            memcpy((char *)section + fields[i].offset, &value, sizeof(value));
    }
    return status;
}

/* Rows of [rank, speed]. */
static json_t *encode_judgements(const struct control_progress *progress)
{
    AUTO_JSON json_t *array = json_array();
    for (unsigned i = 0; i < progress->judgement_count; i++)
        if (json_array_append_new(array, json_pack("[If]", (json_int_t)progress->judgements[i].rank,
                                                   progress->judgements[i].speed)) < 0)
            return NULL;
    return json_incref(array);
}

static int decode_judgements(const json_t *tree, struct control_progress *progress,
                             struct error *error)
{
    json_t *array;
    if (!json_has(tree, "verdicts"))
        return 0;
    int status = json_get_array(tree, "verdicts", STRAGGLER_JUDGEMENTS_MAX, &array, error);
    if (status < 0)
        return status;
    progress->judgement_count = (unsigned)json_array_size(array);
    for (unsigned i = 0; i < progress->judgement_count; i++) {
        const json_t *row = json_array_get(array, i), *rank = json_array_get(row, 0);
        double speed = json_number_value(json_array_get(row, 1));
        if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
            json_integer_value(rank) >= JOB_DEVICES_MAX || !(speed > 0 && speed <= 1))
            return error_set(error, -EINVAL, "\"verdicts\"[%u] must be [rank, speed]", i);
        progress->judgements[i] =
            (struct straggler_judgement){(unsigned)json_integer_value(rank), speed};
    }
    return 0;
}

static int decode_kept(const json_t *tree, struct planner_kept *kept, struct error *error)
{
    const json_t *row = json_object_get(tree, "kept");
    json_int_t units = json_integer_value(json_array_get(row, 0));
    double share = json_number_value(json_array_get(row, 1));

    *kept = (struct planner_kept){0};
    if (!row)
        return 0;
    if (units <= 0 || units > STEP_RECORD_UNITS_MAX || !(share >= 0 && share <= 1))
        return error_set(error, -EINVAL, "\"kept\" must be [units, share]");
    *kept = (struct planner_kept){(unsigned)units, share};
    return 0;
}

static json_t *encode_progress(const struct control_progress *progress)
{
    AUTO_JSON json_t *tree =
        json_pack("{sI sI sI}", "generation", (json_int_t)progress->generation, "step",
                  (json_int_t)progress->step, "frozen_layers", (json_int_t)progress->frozen_layers);
    if (!tree || put_doubles(tree, progress_doubles, ARRAY_COUNT(progress_doubles), progress) < 0)
        return NULL;
    if (progress->memory_bytes > 0 &&
        json_object_set_new(tree, "memory_bytes",
                            json_integer((json_int_t)progress->memory_bytes)) < 0)
        return NULL;
    if (progress->kept.unit_count > 0 &&
        json_object_set_new(
            tree, "kept",
            json_pack("[I, f]", (json_int_t)progress->kept.unit_count, progress->kept.share)) < 0)
        return NULL;
    if (progress->judgement_count > 0 &&
        json_object_set_new(tree, "verdicts", encode_judgements(progress)) < 0)
        return NULL;
    return json_incref(tree);
}

static int decode_progress(const json_t *tree, struct control_progress *progress,
                           struct error *error)
{
    int status = json_get_u64(tree, "generation", INT64_MAX, &progress->generation, error);
    if (status == 0)
        status = json_get_u64(tree, "step", INT64_MAX, &progress->step, error);
    if (status == 0)
        status = json_get_unsigned(tree, "frozen_layers", STEP_RECORD_UNITS_MAX,
                                   &progress->frozen_layers, error);
    if (status == 0)
        status =
            get_doubles(tree, progress_doubles, ARRAY_COUNT(progress_doubles), progress, error);
    if (status == 0 && json_has(tree, "memory_bytes")) /* older workers omit it */
        status = json_get_u64(tree, "memory_bytes", INT64_MAX, &progress->memory_bytes, error);
    if (status == 0)
        status = decode_kept(tree, &progress->kept, error);
    if (status == 0)
        status = decode_judgements(tree, progress, error);
    return status;
}

static json_t *encode_checkpoint(const struct control_checkpoint *checkpoint, bool committed)
{
    AUTO_JSON json_t *tree = json_pack(
        "{sI sI sI ss ss sI sb sb sI sI}", "generation", (json_int_t)checkpoint->generation, "step",
        (json_int_t)checkpoint->step, "frozen_layers", (json_int_t)checkpoint->frozen_layers,
        "path", checkpoint->path, "manifest_sha256", checkpoint->manifest_sha256, "size_bytes",
        (json_int_t)checkpoint->size_bytes, "committed", (int)committed, "unproven",
        (int)checkpoint->is_unproven, "kept_from", (json_int_t)checkpoint->kept_from, "spared_step",
        (json_int_t)checkpoint->spared_step);
    if (!tree ||
        put_doubles(tree, checkpoint_doubles, ARRAY_COUNT(checkpoint_doubles), checkpoint) < 0 ||
        (checkpoint->shares &&
         json_object_set_new(tree, "shares", json_string(checkpoint->shares)) < 0))
        return NULL;
    return json_incref(tree);
}

int control_checkpoint_copy(const struct control_checkpoint *checkpoint,
                            struct control_checkpoint *ret_copy)
{
    char *shares = checkpoint->shares ? strdup(checkpoint->shares) : NULL;
    if (checkpoint->shares && !shares)
        return -ENOMEM;
    *ret_copy = *checkpoint;
    ret_copy->shares = shares;
    return 0;
}

void control_checkpoint_done(struct control_checkpoint *checkpoint)
{
    free(checkpoint->shares);
    *checkpoint = (struct control_checkpoint){0};
}

static int decode_shares(const json_t *tree, char **ret_shares, struct error *error)
{
    const char *text = json_string_value(json_object_get(tree, "shares"));
    size_t length = text ? strlen(text) : 0;
    if (length == 0 || length >= COPIES_SHARES_SIZE)
        return error_set(error, -EINVAL, "\"shares\" must be a text of 1 to %u bytes",
                         COPIES_SHARES_SIZE - 1);
    *ret_shares = strdup(text);
    return *ret_shares ? 0 : error_set(error, -ENOMEM, "no memory for the places of copies");
}

static int decode_checkpoint(const json_t *tree, struct control_message *message,
                             struct error *error)
{
    struct control_checkpoint *checkpoint = &message->checkpoint;
    int status = json_get_u64(tree, "generation", INT64_MAX, &checkpoint->generation, error);
    if (status == 0)
        status = json_get_u64(tree, "step", INT64_MAX, &checkpoint->step, error);
    if (status == 0)
        status = json_get_text(tree, "path", checkpoint->path, sizeof(checkpoint->path), error);
    if (status == 0)
        status = json_get_text(tree, "manifest_sha256", checkpoint->manifest_sha256,
                               sizeof(checkpoint->manifest_sha256), error);
    if (status == 0)
        status = json_get_u64(tree, "size_bytes", INT64_MAX, &checkpoint->size_bytes, error);
    if (status == 0)
        status = json_get_bool(tree, "committed", &message->committed, error);
    if (status == 0 && json_has(tree, "frozen_layers")) /* older workers omit it */
        status = json_get_unsigned(tree, "frozen_layers", STEP_RECORD_UNITS_MAX,
                                   &checkpoint->frozen_layers, error);
    if (status == 0 && json_has(tree, "unproven")) /* older workers report later */
        status = json_get_bool(tree, "unproven", &checkpoint->is_unproven, error);
    if (status == 0 && json_has(tree, "kept_from"))
        status = json_get_u64(tree, "kept_from", INT64_MAX, &checkpoint->kept_from, error);
    if (status == 0 && json_has(tree, "spared_step"))
        status = json_get_u64(tree, "spared_step", INT64_MAX, &checkpoint->spared_step, error);
    if (status == 0)
        status = get_doubles(tree, checkpoint_doubles, ARRAY_COUNT(checkpoint_doubles), checkpoint,
                             error);
    if (status == 0 && json_has(tree, "shares"))
        status = decode_shares(tree, &checkpoint->shares, error);
    return status;
}

static json_t *encode(const struct control_message *message)
{
    unsigned carries = types[message->type].carries;
    AUTO_JSON json_t *tree = json_pack("{ss}", "type", types[message->type].word);
    if (!tree)
        return NULL;
    int status = 0;
    if (carries & CARRIES_PLAN)
        status |= json_object_set_new(tree, "plan", plan_encode(message->plan));
    if (carries & CARRIES_STATUS) {
        status |= json_object_set_new(tree, "status", worker_report_encode(&message->status));
        status |= json_object_set_new(tree, "protocol",
                                      json_pack("[ii]", VERSIONS_CONTROL_OLDEST, VERSIONS_CONTROL));
    }
    if (carries & CARRIES_PROGRESS)
        status |= json_object_set_new(tree, "progress", encode_progress(&message->progress));
    if (carries & CARRIES_CHECKPOINT)
        status |= json_object_set_new(tree, "checkpoint",
                                      encode_checkpoint(&message->checkpoint, message->committed));
    if (carries & CARRIES_TEXT)
        status |= json_object_set_new(tree, "text", wire_sentence(message->text));
    return status == 0 ? json_incref(tree) : NULL;
}

int control_pack(const struct control_message *message, struct bytes *into)
{
    assert(message->type < ARRAY_COUNT(types));
    AUTO_JSON json_t *tree = encode(message);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    if (!text)
        return -ENOMEM;
    size_t length = strlen(text);
    if (length > CONTROL_MESSAGE_MAX)
        return -EMSGSIZE;
    uint8_t header[LENGTH_SIZE];
    bytes_put_u32(header, (uint32_t)length);
    size_t size_before = into->size_bytes;
    int status = bytes_append(into, header, sizeof(header));
    if (status == 0)
        status = bytes_append(into, text, length);
    if (status < 0)
        into->size_bytes = size_before;
    return status;
}

static int decode_type(const json_t *tree, enum control_type *ret_type, struct error *error)
{
    char word[TYPE_WORD_SIZE];
    int status = json_get_text(tree, "type", word, sizeof(word), error);
    if (status < 0)
        return status;
    for (unsigned i = 0; i < ARRAY_COUNT(types); i++)
        if (strcmp(types[i].word, word) == 0) {
            *ret_type = (enum control_type)i;
            return 0;
        }
    return error_set(error, -EINVAL, "\"type\" cannot be \"%s\"", word);
}

/* Read the worker's control protocols; a worker without the key is older and speaks protocol 1. */
static int decode_protocol(const json_t *tree, struct control_message *message, struct error *error)
{
    unsigned *const places[] = {&message->protocol_oldest, &message->protocol};
    json_t *list = json_object_get(tree, "protocol");
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        json_int_t value = list ? json_integer_value(json_array_get(list, i)) : 1;
        if (value < 1 || value > VERSIONS_MAX)
            return error_set(error, -EINVAL, "\"protocol\" must be [oldest, newest]");
        *places[i] = (unsigned)value;
    }
    return 0;
}

static int decode_sections(const json_t *tree, struct control_message *message, struct error *error)
{
    unsigned carries = types[message->type].carries;
    json_t *section;
    int status = 0;
    if (carries & CARRIES_STATUS) {
        status = json_get_object(tree, "status", &section, error);
        if (status == 0)
            status = worker_report_decode(section, &message->status, error);
        if (status == 0)
            status = decode_protocol(tree, message, error);
    }
    if (status == 0 && carries & CARRIES_PROGRESS) {
        status = json_get_object(tree, "progress", &section, error);
        if (status == 0)
            status = decode_progress(section, &message->progress, error);
    }
    if (status == 0 && carries & CARRIES_CHECKPOINT) {
        status = json_get_object(tree, "checkpoint", &section, error);
        if (status == 0)
            status = decode_checkpoint(section, message, error);
    }
    if (status == 0 && carries & CARRIES_TEXT)
        status = json_get_text(tree, "text", message->text, sizeof(message->text), error);
    if (status == 0 && carries & CARRIES_PLAN) {
        status = json_get_object(tree, "plan", &section, error);
        if (status == 0)
            status = plan_decode(section, &message->plan, error);
    }
    return status;
}

static int decode(const uint8_t *text, size_t length, struct control_message *ret_message,
                  struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    int status = json_parse((const char *)text, length, "control message", &tree, error);
    if (status == 0)
        status = decode_type(tree, &ret_message->type, error);
    if (status == 0)
        status = decode_sections(tree, ret_message, error);
    return status == 0 || status == -ENOMEM ? status : -EBADMSG;
}

void control_message_done(struct control_message *message)
{
    plan_free(message->plan);
    message->plan = NULL;
    control_checkpoint_done(&message->checkpoint);
}

int control_unpack(struct bytes *from, struct control_message *ret_message, struct error *error)
{
    if (from->size_bytes < LENGTH_SIZE)
        return 0;
    uint32_t length = bytes_get_u32(from->data);
    if (length == 0 || length > CONTROL_MESSAGE_MAX)
        return error_set(error, -EBADMSG, "a control message of %u bytes; 1 to %u are allowed",
                         length, CONTROL_MESSAGE_MAX);
    if (from->size_bytes - LENGTH_SIZE < length)
        return 0;
    /* On the heap: a status carries a whole step record. */
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
    if (!message)
        return error_set(error, -ENOMEM, "no memory for a control message");
    int status = decode(from->data + LENGTH_SIZE, length, message, error);
    if (status == -EBADMSG && error)
        error->code = status;
    if (status < 0) {
        control_message_done(message);
        return status;
    }
    bytes_consume(from, LENGTH_SIZE + length);
    *ret_message = *message;
    return 1;
}
