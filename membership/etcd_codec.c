#include "membership/etcd_codec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/json.h"
#include "membership/base64.h"

const char ETCD_PROGRESS_REQUEST[] = "{\"progress_request\":{}}\n";

static int put(struct bytes *body, const char *text)
{
    return bytes_append(body, text, strlen(text));
}

/* "name":"<base64>" */
static int put_bytes(struct bytes *body, const char *name, const void *data, size_t size_bytes)
{
    int r = bytes_append_format(body, "\"%s\":\"", name);
    if (r == 0)
        r = base64_append(body, data, size_bytes);
    return r < 0 ? r : put(body, "\"");
}

/*
 * The end of the range of all keys that begin with @prefix: the prefix with its last byte raised.
 * Our prefixes end in '/', so there is no carry; a last byte of 0xff is not a firn key. Or @before,
 * when that is given.
 */
static int put_prefix_end(struct bytes *body, const char *prefix, const char *before)
{
    char end[KV_KEY_MAX];
    size_t length = strlen(prefix);
    int r = put(body, ",");
    if (r < 0)
        return r;
    if (before != NULL)
        return put_bytes(body, "range_end", before, strlen(before));
    assert(length > 0 && length < sizeof(end) && (unsigned char)prefix[length - 1] != 0xff);
    memcpy(end, prefix, length);
    end[length - 1] = (char)(end[length - 1] + 1);
    return put_bytes(body, "range_end", end, length);
}

int etcd_encode_range(struct bytes *body, const char *key)
{
    int r = put(body, "{");
    if (r == 0)
        r = put_bytes(body, "key", key, strlen(key));
    return r < 0 ? r : put(body, "}");
}

int etcd_encode_range_below(struct bytes *body, const char *prefix, const char *before,
                            unsigned limit)
{
    int r = put(body, "{");
    if (r == 0)
        r = put_bytes(body, "key", prefix, strlen(prefix));
    if (r == 0)
        r = put_prefix_end(body, prefix, before);
    if (r == 0 && limit > 0)
        r = bytes_append_format(body, ",\"limit\":\"%u\",\"keys_only\":true", limit);
    return r < 0 ? r : put(body, "}");
}

static int put_compare(struct bytes *body, const struct kv_compare *compare)
{
    static const char *const targets[][2] = {
        [KV_CREATE_REVISION] = {"CREATE", "create_revision"},
        [KV_MOD_REVISION] = {"MOD", "mod_revision"},
        [KV_VERSION] = {"VERSION", "version"},
        [KV_NOT_AFTER] = {"MOD", "mod_revision"},
    };
    bool range = compare->target == KV_NOT_AFTER; /* of an empty one the revision is 0 */
    int r = put(body, "{");
    if (r == 0)
        r = put_bytes(body, "key", compare->key, strlen(compare->key));
    if (r == 0 && range)
        r = put(body, ",");
    if (r == 0 && range)
        r = put_bytes(body, "range_end", compare->before, strlen(compare->before));
    return r < 0
               ? r
               : bytes_append_format(body,
                                     ",\"result\":\"%s\",\"target\":\"%s\",\"%s\":\"%" PRId64 "\"}",
                                     range ? "LESS" : "EQUAL", targets[compare->target][0],
                                     targets[compare->target][1], compare->value + (range ? 1 : 0));
}

static int put_operation(struct bytes *body, const struct kv_operation *operation)
{
    bool is_put = operation->type == KV_PUT;
    int r = put(body, is_put ? "{\"request_put\":{" : "{\"request_delete_range\":{");
    if (r == 0)
        r = put_bytes(body, "key", operation->key, strlen(operation->key));
    if (r == 0 && is_put)
        r = put(body, ",");
    if (r == 0 && is_put)
        r = put_bytes(body, "value", operation->value, strlen(operation->value));
    if (r == 0 && is_put && operation->lease != 0)
        r = bytes_append_format(body, ",\"lease\":\"%" PRId64 "\"", operation->lease);
    return r < 0 ? r : put(body, "}}");
}

int etcd_encode_txn(struct bytes *body, const struct kv_compare *compares, size_t compare_count,
                    const struct kv_operation *operations, size_t operation_count)
{
    int r = put(body, "{\"compare\":[");
    for (size_t i = 0; r == 0 && i < compare_count; i++) {
        if (i > 0)
            r = put(body, ",");
        if (r == 0)
            r = put_compare(body, &compares[i]);
    }
    if (r == 0)
        r = put(body, "],\"success\":[");
    for (size_t i = 0; r == 0 && i < operation_count; i++) {
        if (i > 0)
            r = put(body, ",");
        if (r == 0)
            r = put_operation(body, &operations[i]);
    }
    return r < 0 ? r : put(body, "]}");
}

int etcd_encode_lease_grant(struct bytes *body, int64_t ttl_seconds)
{
    return bytes_append_format(body, "{\"TTL\":\"%" PRId64 "\"}", ttl_seconds);
}

int etcd_encode_lease(struct bytes *body, int64_t lease)
{
    return bytes_append_format(body, "{\"ID\":\"%" PRId64 "\"}", lease);
}

int etcd_encode_authenticate(struct bytes *body, const char *user, const char *password)
{
    json_t *object = json_pack("{s:s, s:s}", "name", user, "password", password);
    char *text = object != NULL ? json_text(object) : NULL;
    json_decref(object);
    if (text == NULL)
        return -ENOMEM;
    int r = put(body, text);
    explicit_bzero(text, strlen(text));
    free(text);
    return r;
}

int etcd_encode_watch(struct bytes *body, const char *prefix, const char *before,
                      int64_t start_revision)
{
    int r = put(body, "{\"create_request\":{");
    if (r == 0)
        r = put_bytes(body, "key", prefix, strlen(prefix));
    if (r == 0)
        r = put_prefix_end(body, prefix, before);
    return r < 0 ? r
                 : bytes_append_format(
                       body, ",\"start_revision\":\"%" PRId64 "\",\"progress_notify\":true}}\n",
                       start_revision);
}

/* An int64 that is a text, a number, or left out because it is zero. */
static int get_int64(const json_t *object, const char *name, int64_t *ret_value,
                     struct error *error)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL || json_is_integer(value)) {
        *ret_value = json_integer_value(value);
        return 0;
    }
    const char *text = json_string_value(value);
    char *end = NULL;
    errno = 0;
    long long number = text != NULL ? strtoll(text, &end, 10) : 0;
    if (end == NULL || end == text || *end != '\0' || errno != 0)
        return error_set(error, -EPROTO, "\"%s\" is not a 64-bit number", name);
    *ret_value = number;
    return 0;
}

/* A revision, a version or a time to live: never negative. */
static int get_count(const json_t *object, const char *name, int64_t *ret_value,
                     struct error *error)
{
    int64_t value;
    int r = get_int64(object, name, &value, error);
    if (r == 0 && value < 0)
        return error_set(error, -EPROTO, "\"%s\" is negative", name);
    if (r == 0)
        *ret_value = value;
    return r;
}

static int get_array(const json_t *object, const char *name, const json_t **ret_array,
                     struct error *error)
{
    const json_t *array = json_object_get(object, name);
    if (array != NULL && !json_is_array(array))
        return error_set(error, -EPROTO, "\"%s\" is not an array", name);
    if (json_array_size(array) > ETCD_ENTRIES_MAX)
        return error_set(error, -EPROTO, "\"%s\" has more than %u entries", name, ETCD_ENTRIES_MAX);
    *ret_array = array;
    return 0;
}

/* Bytes in base64, put at *@at with a zero behind them; *@at moves past that. */
static int get_bytes(const json_t *object, const char *name, size_t size_max, char **at,
                     const char **ret_data, size_t *ret_size_bytes, struct error *error)
{
    const json_t *value = json_object_get(object, name);
    if (value != NULL && !json_is_string(value))
        return error_set(error, -EPROTO, "\"%s\" is not a text", name);
    size_t size_bytes = 0, length = json_string_length(value);
    if (length > 0 && !base64_decode(json_string_value(value), length, *at, &size_bytes))
        return error_set(error, -EPROTO, "\"%s\" is not base64", name);
    if (size_bytes > size_max)
        return error_set(error, -EPROTO, "\"%s\" has %zu bytes, more than %zu", name, size_bytes,
                         size_max);
    (*at)[size_bytes] = '\0';
    *ret_data = *at;
    *ret_size_bytes = size_bytes;
    *at += size_bytes + 1;
    return 0;
}

/* Room for key and value of @kv, with their zeros, once they are decoded. */
static size_t entry_bytes(const json_t *kv)
{
    return base64_decoded_bytes(json_string_length(json_object_get(kv, "key"))) +
           base64_decoded_bytes(json_string_length(json_object_get(kv, "value"))) + 2;
}

static int decode_entry(const json_t *kv, char **at, struct kv_entry *entry, struct error *error)
{
    size_t key_bytes = 0;
    if (!json_is_object(kv))
        return error_set(error, -EPROTO, "a key is not an object");
    int r = get_bytes(kv, "key", KV_KEY_MAX - 1, at, &entry->key, &key_bytes, error);
    if (r < 0)
        return r;
    if (key_bytes == 0 || strlen(entry->key) != key_bytes)
        return error_set(error, -EPROTO, "a key is empty or has a zero byte");
    r = get_bytes(kv, "value", KV_VALUE_MAX, at, &entry->value, &entry->value_bytes, error);
    if (r == 0)
        r = get_count(kv, "create_revision", &entry->create_revision, error);
    if (r == 0)
        r = get_count(kv, "mod_revision", &entry->mod_revision, error);
    if (r == 0)
        r = get_count(kv, "version", &entry->version, error);
    if (r == 0)
        r = get_int64(kv, "lease", &entry->lease, error);
    if (r < 0)
        error_prefix(error, "key %s: ", entry->key);
    return r;
}

void etcd_reply_done(struct etcd_reply *reply)
{
    free(reply->entries);
    free(reply->texts);
    if (reply->token != NULL)
        explicit_bzero(reply->token, strlen(reply->token));
    free(reply->token);
    *reply = (struct etcd_reply){0};
}

static int decode_range(const json_t *answer, struct etcd_reply *reply, struct error *error)
{
    const json_t *kvs = NULL;
    int r = get_array(answer, "kvs", &kvs, error);
    size_t count = json_array_size(kvs), texts_bytes = 0;
    if (r < 0 || count == 0)
        return r;
    for (size_t i = 0; i < count; i++)
        texts_bytes += entry_bytes(json_array_get(kvs, i));
    reply->entries = calloc(count, sizeof(*reply->entries));
    reply->texts = malloc(texts_bytes);
    if (reply->entries == NULL || reply->texts == NULL)
        return error_set(error, -ENOMEM, "no memory for %zu keys", count);
    char *at = reply->texts;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = decode_entry(json_array_get(kvs, i), &at, &reply->entries[i], error);
    reply->result.entries = reply->entries;
    reply->result.entry_count = count;
    return r;
}

static int decode_lease(const json_t *answer, struct etcd_reply *reply, struct error *error)
{
    int r = get_int64(answer, "ID", &reply->result.lease, error);
    if (r == 0)
        r = get_count(answer, "TTL", &reply->result.ttl_seconds, error);
    return r;
}

static int decode_lease_grant(const json_t *answer, struct etcd_reply *reply, struct error *error)
{
    int r = decode_lease(answer, reply, error);
    if (r == 0 && (reply->result.lease == 0 || reply->result.ttl_seconds == 0))
        return error_set(error, -EPROTO, "a lease without number or time to live was granted");
    return r;
}

static int decode_token(const json_t *answer, struct etcd_reply *reply, struct error *error)
{
    const char *token = json_string_value(json_object_get(answer, "token"));
    if (token == NULL || *token == '\0' || strpbrk(token, "\r\n") != NULL)
        return error_set(error, -EPROTO, "no usable token came");
    reply->token = strdup(token);
    return reply->token != NULL ? 0 : error_set(error, -ENOMEM, "no memory for the token");
}

/* The revision of the store: it is in every answer but authenticate's. */
static int decode_header(const json_t *answer, int64_t *ret_revision, struct error *error)
{
    const json_t *header = json_object_get(answer, "header");
    if (!json_is_object(header))
        return error_set(error, -EPROTO, "an answer without a header");
    return get_count(header, "revision", ret_revision, error);
}

int etcd_decode_reply(enum etcd_operation operation, const json_t *answer,
                      struct etcd_reply *ret_reply, struct error *error)
{
    struct etcd_reply reply = {0};
    const json_t *result = json_object_get(answer, "result"); /* keep-alive is a stream of one */
    if (result != NULL)
        answer = result;
    int r = decode_header(answer, &reply.result.revision, error);
    if (r == 0 && operation == ETCD_RANGE)
        r = decode_range(answer, &reply, error);
    else if (r == 0 && operation == ETCD_TXN)
        reply.result.succeeded = json_is_true(json_object_get(answer, "succeeded"));
    else if (r == 0 && operation == ETCD_LEASE_GRANT)
        r = decode_lease_grant(answer, &reply, error);
    else if (r == 0 && operation == ETCD_LEASE_KEEP_ALIVE)
        r = decode_lease(answer, &reply, error);
    else if (r == 0 && operation == ETCD_AUTHENTICATE)
        r = decode_token(answer, &reply, error);
    if (r < 0) {
        etcd_reply_done(&reply);
        return r;
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

static int decode_event(const json_t *event, char **at, struct kv_event *ret_event,
                        struct error *error)
{
    const json_t *type = json_object_get(event, "type"); /* PUT is zero, so it is left out */
    const char *name = type != NULL ? json_string_value(type) : "PUT";
    if (name == NULL || (strcmp(name, "PUT") != 0 && strcmp(name, "DELETE") != 0))
        return error_set(error, -EPROTO, "an event is neither PUT nor DELETE");
    ret_event->deleted = name[0] == 'D';
    return decode_entry(json_object_get(event, "kv"), at, &ret_event->entry, error);
}

static int decode_events(const json_t *result, struct etcd_watch_message *message,
                         struct error *error)
{
    const json_t *events = NULL;
    int r = get_array(result, "events", &events, error);
    size_t count = json_array_size(events), texts_bytes = 0;
    if (r < 0 || count == 0)
        return r;
    for (size_t i = 0; i < count; i++)
        texts_bytes += entry_bytes(json_object_get(json_array_get(events, i), "kv"));
    message->events = calloc(count, sizeof(*message->events));
    message->texts = malloc(texts_bytes);
    if (message->events == NULL || message->texts == NULL)
        return error_set(error, -ENOMEM, "no memory for %zu events", count);
    char *at = message->texts;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = decode_event(json_array_get(events, i), &at, &message->events[i], error);
    message->event_count = count;
    return r;
}

int etcd_decode_watch(const json_t *result, struct etcd_watch_message *ret_message,
                      struct error *error)
{
    int64_t watch_id = 0;
    struct etcd_watch_message message = {
        .created = json_is_true(json_object_get(result, "created")),
        .canceled = json_is_true(json_object_get(result, "canceled")),
        .cancel_reason = json_string_value(json_object_get(result, "cancel_reason")),
    };
    int r = decode_header(result, &message.revision, error);
    if (r == 0)
        r = get_int64(result, "watch_id", &watch_id, error);
    if (r == 0)
        r = get_count(result, "compact_revision", &message.compact_revision, error);
    if (r == 0)
        r = decode_events(result, &message, error);
    if (r < 0) {
        etcd_watch_message_done(&message);
        return r;
    }
    message.answers_us = watch_id == 0;
    *ret_message = message;
    return 0;
}

/* gRPC's codes, as the gateway passes them on. */
enum grpc_code {
    GRPC_CANCELED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
};

/* Where the code is too coarse, etcd's own words decide (api/v3rpc/rpctypes names them all). */
static const struct {
    const char *text;
    enum etcd_verdict verdict;
    int status;
} known[] = {
    {"etcdserver: no leader", ETCD_VERDICT_ELSEWHERE, -EHOSTUNREACH},
    {"raft proposal dropped", ETCD_VERDICT_ELSEWHERE, -EHOSTUNREACH},
    {"etcdserver: not capable", ETCD_VERDICT_ELSEWHERE, -EHOSTUNREACH},
    {"etcdserver: invalid auth token", ETCD_VERDICT_TOKEN, -EACCES},
    {"etcdserver: user name is empty", ETCD_VERDICT_TOKEN, -EACCES},
    {"etcdserver: revision of auth store is old", ETCD_VERDICT_TOKEN, -EACCES},
    {"etcdserver: authentication failed", ETCD_VERDICT_FINAL, -EACCES},
    {"etcdserver: permission denied", ETCD_VERDICT_FINAL, -EACCES},
    {"etcdserver: authentication is not enabled", ETCD_VERDICT_FINAL, -EOPNOTSUPP},
    {"etcdserver: request is too large", ETCD_VERDICT_FINAL, -EFBIG},
    {"etcdserver: mvcc: database space exceeded", ETCD_VERDICT_FINAL, -ENOSPC},
};

static void judge_code(int64_t code, long http_code, struct etcd_failure *failure)
{
    struct etcd_failure verdict = {.verdict = ETCD_VERDICT_FINAL, .status = -EPROTO};
    switch (code) {
    case GRPC_INVALID_ARGUMENT:
    case GRPC_FAILED_PRECONDITION:
        verdict.status = -EINVAL;
        break;
    case GRPC_NOT_FOUND:
        verdict.status = -ENOENT;
        break;
    case GRPC_PERMISSION_DENIED:
        verdict.status = -EACCES;
        break;
    case GRPC_RESOURCE_EXHAUSTED:
        verdict.status = -EAGAIN;
        break;
    case GRPC_UNAUTHENTICATED:
        verdict = (struct etcd_failure){.verdict = ETCD_VERDICT_TOKEN, .status = -EACCES};
        break;
    case GRPC_DEADLINE_EXCEEDED:
        verdict = (struct etcd_failure){.verdict = ETCD_VERDICT_UNKNOWN, .status = -ETIMEDOUT};
        break;
    case GRPC_CANCELED:
    case GRPC_UNKNOWN:
    case GRPC_INTERNAL:
    case GRPC_UNAVAILABLE:
        verdict = (struct etcd_failure){.verdict = ETCD_VERDICT_UNKNOWN, .status = -EHOSTUNREACH};
        break;
    default: /* not etcd's own words: a proxy, or something that is no etcd at all */
        if (http_code >= 500)
            verdict =
                (struct etcd_failure){.verdict = ETCD_VERDICT_UNKNOWN, .status = -EHOSTUNREACH};
        break;
    }
    *failure = verdict;
}

/* Printable ASCII only: the text goes to terminals and logs. */
static void copy_printable(const char *text, char *ret_copy, size_t size)
{
    size_t i = 0;
    for (; text[i] != '\0' && i + 1 < size; i++)
        ret_copy[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    ret_copy[i] = '\0';
}

void etcd_decode_failure(const json_t *answer, long http_code, struct etcd_failure *ret_failure)
{
    /* {"error": text, "code": n} for one answer, {"error": {"message": text, "grpc_code": n}} in
     * streams */
    const json_t *inner = json_object_get(answer, "error");
    bool in_stream = json_is_object(inner);
    const char *text = json_string_value(in_stream ? json_object_get(inner, "message") : inner);
    int64_t code = json_integer_value(in_stream ? json_object_get(inner, "grpc_code")
                                                : json_object_get(answer, "code"));
    judge_code(code, http_code, ret_failure);
    copy_printable(text != NULL ? text : "an answer without a reason", ret_failure->text,
                   sizeof(ret_failure->text));
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (strncmp(ret_failure->text, known[i].text, strlen(known[i].text)) == 0) {
            ret_failure->verdict = known[i].verdict;
            ret_failure->status = known[i].status;
        }
    }
}
