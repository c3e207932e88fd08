/*
 * Encode etcd's requests and decode its answers: Protocol Buffers (etcd's
 * api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto) to and from structures. No I/O.
 *
 * All input is checked: the encoding, ranges, key and value sizes; a key with a zero byte is
 * refused, because firn's keys are C strings. Unknown fields are skipped. All decoders return 0,
 * -EPROTO (not an answer of etcd; @error says why) or -ENOMEM.
 */
#pragma once

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "membership/kv/kv.h"

#define ETCD_ENTRIES_MAX (1u << 20) /* per answer */

enum etcd_operation {
    ETCD_RANGE,
    ETCD_TXN,
    ETCD_LEASE_GRANT,
    ETCD_LEASE_KEEP_ALIVE,
    ETCD_LEASE_REVOKE,
    ETCD_AUTHENTICATE,
    ETCD_OPERATION_COUNT,
};

/* Each function appends one message to @body. Return: 0 or -ENOMEM. */
/** etcd_encode_range() - one key */
int etcd_encode_range(struct bytes *body, const char *key) CHECK_RESULT;
struct etcd_range {
    const char *prefix; /* of the keys */
    const char *before; /* only keys that sort before this one; NULL: all */
    const char *after;  /* only keys that sort behind this one; NULL: all */
    unsigned limit;     /* maximum number of keys; 0: no limit */
    int64_t revision;   /* the store's revision to read; 0: the newest */
    bool keys_only;     /* without values */
};
/** etcd_encode_range_below() - the keys of @range */
int etcd_encode_range_below(struct bytes *body, const struct etcd_range *range) CHECK_RESULT;
int etcd_encode_txn(struct bytes *body, const struct kv_compare *compares, size_t compare_count,
                    const struct kv_operation *operations, size_t operation_count) CHECK_RESULT;
int etcd_encode_lease_grant(struct bytes *body, int64_t ttl_seconds) CHECK_RESULT;
int etcd_encode_lease(struct bytes *body, int64_t lease) CHECK_RESULT;
int etcd_encode_authenticate(struct bytes *body, const char *user,
                             const char *password) CHECK_RESULT;
int etcd_encode_watch(struct bytes *body, const char *prefix, const char *before,
                      int64_t start_revision) CHECK_RESULT;
/** etcd_encode_progress() - a progress request for a watch stream, to check that the stream is
 * alive */
int etcd_encode_progress(struct bytes *body) CHECK_RESULT;

struct etcd_reply {
    struct kv_result result; /* its entries point into this reply */
    bool has_more;           /* ETCD_RANGE: the limit cut the answer short */
    char *token;             /* ETCD_AUTHENTICATE */
    struct kv_entry *entries;
    char *texts; /* keys and values of all entries */
};
void etcd_reply_done(struct etcd_reply *reply); /* a zeroed reply is allowed */
int etcd_decode_reply(enum etcd_operation operation, const uint8_t *message, size_t message_bytes,
                      struct etcd_reply *ret_reply, struct error *error) CHECK_RESULT;

/* One message of a watch stream. */
struct etcd_watch_message {
    int64_t revision; /* of the store */
    bool created, canceled;
    bool answers_us; /* false: the answer to etcd_encode_progress(), which may be ahead of events */
    int64_t compact_revision; /* canceled: revisions below it are compacted; 0: another reason */
    char cancel_reason[256];  /* truncated */
    struct kv_event *events;
    size_t event_count;
    char *texts;
};
void etcd_watch_message_done(struct etcd_watch_message *message);
int etcd_decode_watch(const uint8_t *message, size_t message_bytes,
                      struct etcd_watch_message *ret_message, struct error *error) CHECK_RESULT;
