/*
 * What etcd's JSON gateway (/v3/) is sent and what it answers, as bytes and structures: no I/O.
 *
 * The gateway is protobuf in JSON: 64-bit integers are texts, bytes are base64, and fields that are
 * zero, false or empty are left out. Everything that comes in is checked: types, ranges, key and
 * value sizes; a key with a zero byte is refused, since ours are C strings. All decoders return 0,
 * -EPROTO (not what etcd says; @error tells why) or -ENOMEM.
 */
#pragma once

#include <jansson.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "membership/kv.h"

#define ETCD_ENTRIES_MAX (1u << 20) /* of one answer */

enum etcd_operation {
    ETCD_RANGE,
    ETCD_TXN,
    ETCD_LEASE_GRANT,
    ETCD_LEASE_KEEP_ALIVE,
    ETCD_LEASE_REVOKE,
    ETCD_AUTHENTICATE,
    ETCD_OPERATION_COUNT,
};

/* Each appends one JSON object to @body. Return: 0 or -ENOMEM. */
/** etcd_encode_range() - one key */
int etcd_encode_range(struct bytes *body, const char *key) CHECK_RESULT;
/** etcd_encode_range_below() - what begins with @prefix and, unless NULL, sorts before @before
 * @limit: so many, without their values; 0: all */
int etcd_encode_range_below(struct bytes *body, const char *prefix, const char *before,
                            unsigned limit) CHECK_RESULT;
int etcd_encode_txn(struct bytes *body, const struct kv_compare *compares, size_t compare_count,
                    const struct kv_operation *operations, size_t operation_count) CHECK_RESULT;
int etcd_encode_lease_grant(struct bytes *body, int64_t ttl_seconds) CHECK_RESULT;
int etcd_encode_lease(struct bytes *body, int64_t lease) CHECK_RESULT;
int etcd_encode_authenticate(struct bytes *body, const char *user,
                             const char *password) CHECK_RESULT;
int etcd_encode_watch(struct bytes *body, const char *prefix, const char *before,
                      int64_t start_revision) CHECK_RESULT;
extern const char
    ETCD_PROGRESS_REQUEST[]; /* what a watch stream is asked, to see whether it lives */

struct etcd_reply {
    struct kv_result result; /* its entries point into this reply */
    char *token;             /* ETCD_AUTHENTICATE */
    struct kv_entry *entries;
    char *texts; /* keys and values of all entries */
};
void etcd_reply_done(struct etcd_reply *reply); /* also of a zeroed one */
int etcd_decode_reply(enum etcd_operation operation, const json_t *answer,
                      struct etcd_reply *ret_reply, struct error *error) CHECK_RESULT;

/* One message of a watch stream. */
struct etcd_watch_message {
    int64_t revision; /* of the store */
    bool created, canceled;
    bool answers_us; /* false: the answer to ETCD_PROGRESS_REQUEST, which may run ahead of events */
    int64_t compact_revision;  /* canceled: below it history is gone; 0: another reason */
    const char *cancel_reason; /* borrowed from the message */
    struct kv_event *events;
    size_t event_count;
    char *texts;
};
void etcd_watch_message_done(struct etcd_watch_message *message);
int etcd_decode_watch(const json_t *result, struct etcd_watch_message *ret_message,
                      struct error *error) CHECK_RESULT;

/* What etcd says when it refuses: an HTTP error's body, or an object in a stream. */
enum etcd_verdict {
    ETCD_VERDICT_FINAL,     /* asking again or elsewhere changes nothing */
    ETCD_VERDICT_ELSEWHERE, /* this member cannot serve now, and has done nothing */
    ETCD_VERDICT_UNKNOWN,   /* it may have been done, or may still be */
    ETCD_VERDICT_TOKEN,     /* authenticate (again), then ask again */
};
struct etcd_failure {
    enum etcd_verdict verdict;
    int status;     /* negative errno */
    char text[256]; /* etcd's own */
};
/** etcd_decode_failure() - @answer: NULL or anything; @http_code: of the answer */
void etcd_decode_failure(const json_t *answer, long http_code, struct etcd_failure *ret_failure);
