#include "membership/etcd/etcd_codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "membership/etcd/protobuf.h"

/* Field numbers of rpc.proto and kv.proto. */
enum { RANGE_KEY = 1, RANGE_END = 2, RANGE_LIMIT = 3, RANGE_REVISION = 4, RANGE_KEYS_ONLY = 8 };
enum { TXN_COMPARE = 1, TXN_SUCCESS = 2 };
enum { COMPARE_EQUAL = 0, COMPARE_LESS = 2 };
enum {
    COMPARE_RESULT = 1,
    COMPARE_TARGET = 2,
    COMPARE_KEY = 3,
    COMPARE_VERSION = 4,
    COMPARE_CREATE_REVISION = 5,
    COMPARE_MOD_REVISION = 6,
    COMPARE_RANGE_END = 64
};
enum { OPERATION_PUT = 2, OPERATION_DELETE = 3 };
enum { PUT_KEY = 1, PUT_VALUE = 2, PUT_LEASE = 3 };
enum { DELETE_KEY = 1, DELETE_RANGE_END = 2 };
enum { LEASE_GRANT_TTL = 1, LEASE_ID = 1 };
enum { AUTHENTICATE_NAME = 1, AUTHENTICATE_PASSWORD = 2 };
enum { WATCH_CREATE = 1, WATCH_PROGRESS = 3 };
enum {
    WATCH_CREATE_KEY = 1,
    WATCH_CREATE_END = 2,
    WATCH_CREATE_REVISION = 3,
    WATCH_CREATE_PROGRESS_NOTIFY = 4
};
enum { ANSWER_HEADER = 1, HEADER_REVISION = 3 };
enum {
    RANGE_ANSWER_KVS = 2,
    RANGE_ANSWER_MORE = 3,
    TXN_ANSWER_SUCCEEDED = 2,
    AUTHENTICATE_ANSWER_TOKEN = 2
};
enum { LEASE_ANSWER_ID = 2, LEASE_ANSWER_TTL = 3 };
enum {
    KV_FIELD_KEY = 1,
    KV_FIELD_CREATE_REVISION = 2,
    KV_FIELD_MOD_REVISION = 3,
    KV_FIELD_VERSION = 4,
    KV_FIELD_VALUE = 5,
    KV_FIELD_LEASE = 6
};
enum {
    WATCH_ANSWER_ID = 2,
    WATCH_ANSWER_CREATED = 3,
    WATCH_ANSWER_CANCELED = 4,
    WATCH_ANSWER_COMPACT_REVISION = 5,
    WATCH_ANSWER_CANCEL_REASON = 6,
    WATCH_ANSWER_EVENTS = 11
};
enum { EVENT_TYPE = 1, EVENT_KV = 2 };
enum { EVENT_TYPE_PUT = 0, EVENT_TYPE_DELETE = 1 };

/*
 * Put the end of a range: @before if given, else the end of all keys that begin with @prefix, which
 * is the prefix with its last byte incremented. firn's prefixes end in '/', so there is no carry; a
 * last byte of 0xff is not a firn key.
 */
static int put_prefix_end(struct bytes *body, unsigned field, const char *prefix,
                          const char *before)
{
    char end[KV_KEY_MAX];
    size_t length = strlen(prefix);
    if (before)
        return protobuf_put_text(body, field, before);
    assert(length > 0 && length < sizeof(end) && (unsigned char)prefix[length - 1] != 0xff);
    memcpy(end, prefix, length);
    end[length - 1] = (char)(end[length - 1] + 1);
    return protobuf_put_bytes(body, field, end, length);
}

int etcd_encode_range(struct bytes *body, const char *key)
{
    return protobuf_put_text(body, RANGE_KEY, key);
}

int etcd_encode_range_below(struct bytes *body, const struct etcd_range *range)
{
    const char *after = range->after; /* plus a zero byte: the next possible key */
    int status = after ? protobuf_put_bytes(body, RANGE_KEY, after, strlen(after) + 1)
                       : protobuf_put_text(body, RANGE_KEY, range->prefix);
    if (status == 0)
        status = put_prefix_end(body, RANGE_END, range->prefix, range->before);
    if (status == 0)
        status = protobuf_put_int(body, RANGE_LIMIT, range->limit);
    if (status == 0)
        status = protobuf_put_int(body, RANGE_REVISION, range->revision);
    return status < 0 ? status : protobuf_put_int(body, RANGE_KEYS_ONLY, range->keys_only);
}

static int put_compare(struct bytes *body, const struct kv_compare *compare)
{
    static const struct {
        int target;
        unsigned field;
    } targets[] = {
        [KV_VERSION] = {0, COMPARE_VERSION},
        [KV_CREATE_REVISION] = {1, COMPARE_CREATE_REVISION},
        [KV_MOD_REVISION] = {2, COMPARE_MOD_REVISION},
        [KV_NOT_AFTER] = {2, COMPARE_MOD_REVISION},
    };
    bool range = compare->target == KV_NOT_AFTER; /* an empty range has revision 0 */
    size_t mark;
    int status = protobuf_begin(body, TXN_COMPARE, &mark);
    if (status == 0)
        status = protobuf_put_int(body, COMPARE_RESULT, range ? COMPARE_LESS : COMPARE_EQUAL);
    if (status == 0)
        status = protobuf_put_int(body, COMPARE_TARGET, targets[compare->target].target);
    if (status == 0)
        status = protobuf_put_text(body, COMPARE_KEY, compare->key);
    if (status == 0)
        status = protobuf_put_int(body, targets[compare->target].field,
                                  compare->value + (range ? 1 : 0));
    if (status == 0 && range)
        status = protobuf_put_text(body, COMPARE_RANGE_END, compare->before);
    return status < 0 ? status : protobuf_end(body, mark);
}

static int put_put(struct bytes *body, const struct kv_operation *operation)
{
    size_t mark;
    int status = protobuf_begin(body, OPERATION_PUT, &mark);
    if (status == 0)
        status = protobuf_put_text(body, PUT_KEY, operation->key);
    if (status == 0)
        status = protobuf_put_text(body, PUT_VALUE, operation->value);
    if (status == 0)
        status = protobuf_put_int(body, PUT_LEASE, operation->lease);
    return status < 0 ? status : protobuf_end(body, mark);
}

static int put_delete(struct bytes *body, const struct kv_operation *operation)
{
    size_t mark;
    int status = protobuf_begin(body, OPERATION_DELETE, &mark);
    if (status == 0)
        status = protobuf_put_text(body, DELETE_KEY, operation->key);
    if (status == 0 && operation->type == KV_DELETE_PREFIX)
        status = put_prefix_end(body, DELETE_RANGE_END, operation->key, NULL);
    return status < 0 ? status : protobuf_end(body, mark);
}

static int put_operation(struct bytes *body, const struct kv_operation *operation)
{
    size_t mark;
    int status = protobuf_begin(body, TXN_SUCCESS, &mark);
    if (status == 0)
        status = operation->type == KV_PUT ? put_put(body, operation) : put_delete(body, operation);
    return status < 0 ? status : protobuf_end(body, mark);
}

int etcd_encode_txn(struct bytes *body, const struct kv_compare *compares, size_t compare_count,
                    const struct kv_operation *operations, size_t operation_count)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < compare_count; i++)
        status = put_compare(body, &compares[i]);
    for (size_t i = 0; status == 0 && i < operation_count; i++)
        status = put_operation(body, &operations[i]);
    return status;
}

int etcd_encode_lease_grant(struct bytes *body, int64_t ttl_seconds)
{
    return protobuf_put_int(body, LEASE_GRANT_TTL, ttl_seconds);
}

int etcd_encode_lease(struct bytes *body, int64_t lease)
{
    return protobuf_put_int(body, LEASE_ID, lease);
}

int etcd_encode_authenticate(struct bytes *body, const char *user, const char *password)
{
    int status = protobuf_put_text(body, AUTHENTICATE_NAME, user);
    return status < 0 ? status : protobuf_put_text(body, AUTHENTICATE_PASSWORD, password);
}

int etcd_encode_watch(struct bytes *body, const char *prefix, const char *before,
                      int64_t start_revision)
{
    size_t mark;
    int status = protobuf_begin(body, WATCH_CREATE, &mark);
    if (status == 0)
        status = protobuf_put_text(body, WATCH_CREATE_KEY, prefix);
    if (status == 0)
        status = put_prefix_end(body, WATCH_CREATE_END, prefix, before);
    if (status == 0)
        status = protobuf_put_int(body, WATCH_CREATE_REVISION, start_revision);
    if (status == 0)
        status = protobuf_put_int(body, WATCH_CREATE_PROGRESS_NOTIFY, true);
    return status < 0 ? status : protobuf_end(body, mark);
}

int etcd_encode_progress(struct bytes *body)
{
    size_t mark;
    int status = protobuf_begin(body, WATCH_PROGRESS, &mark);
    return status < 0 ? status : protobuf_end(body, mark);
}

static int malformed(struct error *error, const char *what)
{
    return error_set(error, -EPROTO, "%s is not what etcd's protocol says", what);
}

static int get_int(const struct protobuf_field *field, const char *name, int64_t *ret_value,
                   struct error *error)
{
    if (field->type != PROTOBUF_INT)
        return error_set(error, -EPROTO, "\"%s\" is not a number", name);
    *ret_value = field->value;
    return 0;
}

/* Decode a revision, a version or a time to live: never negative. */
static int get_count(const struct protobuf_field *field, const char *name, int64_t *ret_value,
                     struct error *error)
{
    int64_t value = 0;
    int status = get_int(field, name, &value, error);
    if (status == 0 && value < 0)
        return error_set(error, -EPROTO, "\"%s\" is negative", name);
    if (status == 0)
        *ret_value = value;
    return status;
}

static int get_bool(const struct protobuf_field *field, const char *name, bool *ret_value,
                    struct error *error)
{
    int64_t value = 0;
    int status = get_int(field, name, &value, error);
    if (status == 0)
        *ret_value = value != 0;
    return status;
}

static int check_bytes(const struct protobuf_field *field, const char *name, size_t size_max,
                       struct error *error)
{
    if (field->type != PROTOBUF_BYTES)
        return error_set(error, -EPROTO, "\"%s\" has no bytes", name);
    if (field->size_bytes > size_max)
        return error_set(error, -EPROTO, "\"%s\" has %zu bytes, more than %zu", name,
                         field->size_bytes, size_max);
    return 0;
}

/* Copy bytes and a terminating zero to *@at; advance *@at past them. */
static const char *copy_bytes(char **at, const struct protobuf_field *field)
{
    char *copy = *at;
    if (field->size_bytes > 0)
        memcpy(copy, field->data, field->size_bytes);
    copy[field->size_bytes] = '\0';
    *at += field->size_bytes + 1;
    return copy;
}

static int decode_entry_field(const struct protobuf_field *field, struct kv_entry *entry,
                              struct protobuf_field *key, struct protobuf_field *value,
                              struct error *error)
{
    int status = 0;
    switch (field->number) {
    case KV_FIELD_KEY:
        status = check_bytes(field, "key", KV_KEY_MAX - 1, error);
        *key = *field;
        break;
    case KV_FIELD_VALUE:
        status = check_bytes(field, "value", KV_VALUE_MAX, error);
        *value = *field;
        break;
    case KV_FIELD_CREATE_REVISION:
        return get_count(field, "create_revision", &entry->create_revision, error);
    case KV_FIELD_MOD_REVISION:
        return get_count(field, "mod_revision", &entry->mod_revision, error);
    case KV_FIELD_VERSION:
        return get_count(field, "version", &entry->version, error);
    case KV_FIELD_LEASE:
        return get_int(field, "lease", &entry->lease, error);
    default:
        break;
    }
    return status;
}

/* Copy key and value to *@at, which has room for the whole message and two zeros. */
static int decode_entry(const struct protobuf_field *message, char **at, struct kv_entry *entry,
                        struct error *error)
{
    struct protobuf_field field, key = {0}, value = {0};
    struct protobuf_reader reader = protobuf_reader_of(message);
    int status;
    while ((status = protobuf_next(&reader, &field)) > 0) {
        status = decode_entry_field(&field, entry, &key, &value, error);
        if (status < 0)
            break;
    }
    if (status == -EPROTO && error->text[0] == '\0')
        status = malformed(error, "a key with its value");
    if (status == 0 && (key.size_bytes == 0 || memchr(key.data, '\0', key.size_bytes)))
        return error_set(error, -EPROTO, "a key is empty or has a zero byte");
    if (status < 0) {
        if (key.size_bytes > 0 && key.size_bytes < KV_KEY_MAX)
            error_prefix(error, "key %.*s: ", (int)key.size_bytes, (const char *)key.data);
        return status;
    }
    entry->key = copy_bytes(at, &key);
    entry->value = copy_bytes(at, &value);
    entry->value_bytes = value.size_bytes;
    return 0;
}

/* Position, number and total size of the messages of a repeated field. */
struct repeated {
    size_t count, size_bytes;
};

static int note_repeated(struct repeated *repeated, const struct protobuf_field *field,
                         const char *name, struct error *error)
{
    if (field->type != PROTOBUF_BYTES)
        return error_set(error, -EPROTO, "\"%s\" is not an array of messages", name);
    if (++repeated->count > ETCD_ENTRIES_MAX)
        return error_set(error, -EPROTO, "\"%s\" has more than %u entries", name, ETCD_ENTRIES_MAX);
    repeated->size_bytes += field->size_bytes;
    return 0;
}

/* Allocate room for keys and values of all entries with their zeros; never 0 bytes. */
static char *room_for_texts(const struct repeated *repeated)
{
    return malloc(repeated->size_bytes + 2 * repeated->count);
}

void etcd_reply_done(struct etcd_reply *reply)
{
    free(reply->entries);
    free(reply->texts);
    if (reply->token)
        explicit_bzero(reply->token, strlen(reply->token));
    free(reply->token);
    *reply = (struct etcd_reply){0};
}

static int decode_kvs(struct protobuf_reader reader, const struct repeated *kvs,
                      struct etcd_reply *reply, struct error *error)
{
    if (kvs->count == 0)
        return 0;
    reply->entries = calloc(kvs->count, sizeof(*reply->entries));
    reply->texts = room_for_texts(kvs);
    if (!reply->entries || !reply->texts)
        return error_set(error, -ENOMEM, "no memory for %zu keys", kvs->count);
    char *at = reply->texts;
    struct protobuf_field field;
    size_t count = 0;
    int status;
    while ((status = protobuf_next(&reader, &field)) > 0) {
        if (field.number == RANGE_ANSWER_KVS)
            status = decode_entry(&field, &at, &reply->entries[count++], error);
        if (status < 0)
            return status;
    }
    reply->result.entries = reply->entries;
    reply->result.entry_count = count;
    return status;
}

/* Decode the store's revision, which is in every answer. */
static int decode_header(const struct protobuf_field *header, int64_t *ret_revision,
                         struct error *error)
{
    struct protobuf_field field;
    if (header->type != PROTOBUF_BYTES)
        return malformed(error, "the header");
    struct protobuf_reader reader = protobuf_reader_of(header);
    int status;
    while ((status = protobuf_next(&reader, &field)) > 0) {
        if (field.number == HEADER_REVISION)
            status = get_count(&field, "revision", ret_revision, error);
        if (status < 0)
            return status;
    }
    return status < 0 ? malformed(error, "the header") : 0;
}

static int decode_token(const struct protobuf_field *field, struct etcd_reply *reply,
                        struct error *error)
{
    if (field->type != PROTOBUF_BYTES || field->size_bytes == 0 ||
        memchr(field->data, '\0', field->size_bytes) ||
        memchr(field->data, '\r', field->size_bytes) ||
        memchr(field->data, '\n', field->size_bytes) || reply->token)
        return error_set(error, -EPROTO, "no usable token came");
    reply->token = strndup((const char *)field->data, field->size_bytes);
    return reply->token ? 0 : error_set(error, -ENOMEM, "no memory for the token");
}

static int decode_lease_field(const struct protobuf_field *field, struct etcd_reply *reply,
                              struct error *error)
{
    if (field->number == LEASE_ANSWER_ID)
        return get_int(field, "ID", &reply->result.lease, error);
    if (field->number == LEASE_ANSWER_TTL)
        return get_count(field, "TTL", &reply->result.ttl_seconds, error);
    return 0;
}

static int decode_answer_field(enum etcd_operation operation, const struct protobuf_field *field,
                               struct etcd_reply *reply, struct repeated *kvs, struct error *error)
{
    if (operation == ETCD_RANGE && field->number == RANGE_ANSWER_KVS)
        return note_repeated(kvs, field, "kvs", error);
    if (operation == ETCD_RANGE && field->number == RANGE_ANSWER_MORE)
        return get_bool(field, "more", &reply->has_more, error);
    if (operation == ETCD_TXN && field->number == TXN_ANSWER_SUCCEEDED)
        return get_bool(field, "succeeded", &reply->result.succeeded, error);
    if (operation == ETCD_LEASE_GRANT || operation == ETCD_LEASE_KEEP_ALIVE)
        return decode_lease_field(field, reply, error);
    if (operation == ETCD_AUTHENTICATE && field->number == AUTHENTICATE_ANSWER_TOKEN)
        return decode_token(field, reply, error);
    return 0;
}

static int decode_answer(enum etcd_operation operation, struct protobuf_reader reader,
                         struct etcd_reply *reply, struct error *error)
{
    const struct protobuf_reader all = reader;
    struct protobuf_field field;
    struct repeated kvs = {0};
    bool header = false;
    int status;
    while ((status = protobuf_next(&reader, &field)) > 0) {
        header = header || field.number == ANSWER_HEADER;
        status = field.number == ANSWER_HEADER
                     ? decode_header(&field, &reply->result.revision, error)
                     : decode_answer_field(operation, &field, reply, &kvs, error);
        if (status < 0)
            return status;
    }
    if (status < 0)
        return malformed(error, "an answer");
    if (!header)
        return error_set(error, -EPROTO, "an answer without a header");
    if (operation == ETCD_LEASE_GRANT &&
        (reply->result.lease == 0 || reply->result.ttl_seconds == 0))
        return error_set(error, -EPROTO, "a lease without number or time to live was granted");
    if (operation == ETCD_AUTHENTICATE && !reply->token)
        return error_set(error, -EPROTO, "no usable token came");
    return decode_kvs(all, &kvs, reply, error);
}

int etcd_decode_reply(enum etcd_operation operation, const uint8_t *message, size_t message_bytes,
                      struct etcd_reply *ret_reply, struct error *error)
{
    struct etcd_reply reply = {0};
    error_clear(error);
    int status =
        decode_answer(operation, (struct protobuf_reader){message, message_bytes}, &reply, error);
    if (status < 0) {
        etcd_reply_done(&reply);
        return status;
    }
    *ret_reply = reply;
    return 0;
}

void etcd_watch_message_done(struct etcd_watch_message *message)
{
    free(message->events);
    free(message->texts);
    *message = (struct etcd_watch_message){0};
}

static int decode_event(const struct protobuf_field *message, char **at, struct kv_event *ret_event,
                        struct error *error)
{
    struct protobuf_field field, kv = {0};
    struct protobuf_reader reader = protobuf_reader_of(message);
    int64_t type = EVENT_TYPE_PUT;
    int status;
    while ((status = protobuf_next(&reader, &field)) > 0) {
        if (field.number == EVENT_TYPE)
            status = get_int(&field, "type", &type, error);
        else if (field.number == EVENT_KV && field.type == PROTOBUF_BYTES)
            kv = field;
        if (status < 0)
            return status;
    }
    if (status < 0)
        return malformed(error, "an event");
    if (type != EVENT_TYPE_PUT && type != EVENT_TYPE_DELETE)
        return error_set(error, -EPROTO, "an event is neither PUT nor DELETE");
    ret_event->deleted = type == EVENT_TYPE_DELETE;
    return decode_entry(&kv, at, &ret_event->entry, error);
}

static int decode_events(struct protobuf_reader reader, const struct repeated *events,
                         struct etcd_watch_message *message, struct error *error)
{
    if (events->count == 0)
        return 0;
    message->events = calloc(events->count, sizeof(*message->events));
    message->texts = room_for_texts(events);
    if (!message->events || !message->texts)
        return error_set(error, -ENOMEM, "no memory for %zu events", events->count);
    char *at = message->texts;
    struct protobuf_field field;
    int status;
    while ((status = protobuf_next(&reader, &field)) > 0) {
        if (field.number == WATCH_ANSWER_EVENTS)
            status = decode_event(&field, &at, &message->events[message->event_count++], error);
        if (status < 0)
            return status;
    }
    return status;
}

static int decode_watch_field(const struct protobuf_field *field,
                              struct etcd_watch_message *message, struct repeated *events,
                              struct error *error)
{
    int64_t watch_id = 0;
    int status = 0;
    switch (field->number) {
    case ANSWER_HEADER:
        return decode_header(field, &message->revision, error);
    case WATCH_ANSWER_ID:
        status = get_int(field, "watch_id", &watch_id, error);
        message->answers_us = watch_id == 0;
        return status;
    case WATCH_ANSWER_CREATED:
        return get_bool(field, "created", &message->created, error);
    case WATCH_ANSWER_CANCELED:
        return get_bool(field, "canceled", &message->canceled, error);
    case WATCH_ANSWER_COMPACT_REVISION:
        return get_count(field, "compact_revision", &message->compact_revision, error);
    case WATCH_ANSWER_CANCEL_REASON:
        status = check_bytes(field, "cancel_reason", KV_VALUE_MAX, error);
        if (status == 0)
            snprintf(message->cancel_reason, sizeof(message->cancel_reason), "%.*s",
                     (int)field->size_bytes, (const char *)field->data);
        return status;
    case WATCH_ANSWER_EVENTS:
        return note_repeated(events, field, "events", error);
    default:
        return 0;
    }
}

static int decode_watch_answer(struct protobuf_reader reader, struct etcd_watch_message *message,
                               struct error *error)
{
    const struct protobuf_reader all = reader;
    struct protobuf_field field;
    struct repeated events = {0};
    bool header = false;
    int status;
    while ((status = protobuf_next(&reader, &field)) > 0) {
        header = header || field.number == ANSWER_HEADER;
        status = decode_watch_field(&field, message, &events, error);
        if (status < 0)
            return status;
    }
    if (status < 0)
        return malformed(error, "a watch's answer");
    if (!header)
        return error_set(error, -EPROTO, "an answer without a header");
    return decode_events(all, &events, message, error);
}

int etcd_decode_watch(const uint8_t *message, size_t message_bytes,
                      struct etcd_watch_message *ret_message, struct error *error)
{
    struct etcd_watch_message decoded = {.answers_us = true};
    error_clear(error);
    int status =
        decode_watch_answer((struct protobuf_reader){message, message_bytes}, &decoded, error);
    if (status < 0) {
        etcd_watch_message_done(&decoded);
        return status;
    }
    *ret_message = decoded;
    return 0;
}
