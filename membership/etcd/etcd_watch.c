/*
 * Watch all keys below a prefix, across failures of connections and members.
 *
 *   READING --- range of the prefix: the snapshot, at revision R
 *      |
 *   OPENING --- a Watch call from R + 1 on, until etcd says "created"
 *      |
 *   STREAMING - events; R follows them
 *      |  (broken, silent, refused)
 *   PAUSED ---- backs off
 *      |
 *   PROBING --- a small linearizable read: finds a member that serves, renews the token, and shows
 *               whether the store still is the one we knew; then OPENING at R + 1
 *
 * No event is lost or repeated: a stream starts at the revision after the last one delivered. When
 * that revision is compacted, or the store is behind the last seen revision (restored from a
 * backup, or emptied), events are missing, and READING starts over with a new snapshot.
 *
 * A connection may die silently. So the watch sends progress requests on the stream's connection at
 * intervals, and at once when another request to its member has failed. A stream that then stays
 * silent for a request timeout is dead. (A thousand requests a second, one from each of a thousand
 * nodes, take etcd a whole core.) The answer carries the store's revision, but it may overtake
 * events (etcd issue 15220), so R follows only events and the notifications that etcd sends in
 * order with them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "membership/etcd/etcd_internal.h"

#define BACKOFF_MIN_NS (50 * NS_PER_MS)
#define BACKOFF_MAX_NS (2 * NS_PER_SECOND)
#define ASK_TIMEOUTS   10 /* request timeouts between two progress requests */

enum watch_phase { WATCH_READING, WATCH_OPENING, WATCH_STREAMING, WATCH_PAUSED, WATCH_PROBING };

struct kv_watch {
    struct etcd *etcd;
    struct kv_watch *next, **back;
    char prefix[KV_KEY_MAX], before[KV_KEY_MAX]; /* before: "" for no such bound */
    struct kv_watch_callbacks callbacks;
    void *user;
    enum watch_phase phase;
    struct kv_request *request; /* READING, PROBING */
    struct grpc_call *stream;   /* OPENING, STREAMING */
    unsigned endpoint;          /* of the stream */
    uint64_t token_number;      /* of the stream */
    bool asked;                 /* the timer limits an answer: "created", or a progress answer */
    bool heard;                 /* a message has arrived since then */
    uint64_t waits_ns;          /* how long the answer may take */
    struct timer timer;         /* PAUSED: retry; streams: send a progress request, or check its
                                 * answer */
    uint64_t backoff_ns;
    int64_t revision; /* delivered up to this revision; 0: a snapshot is needed */
    int lost_status;  /* status of the last call of `state`; 0: no error */
    bool *gone;       /* set when a callback ends the watch */
};

static void pause_watch(struct kv_watch *watch, const struct error *error);

/* Run a callback of the user. Return false if it ended the watch, whose memory is then freed. */
#define CALL_USER(watch, call)                                                                     \
    ({                                                                                             \
        bool gone_ = false;                                                                        \
        (watch)->gone = &gone_;                                                                    \
        call;                                                                                      \
        if (!gone_)                                                                                \
            (watch)->gone = NULL;                                                                  \
        !gone_;                                                                                    \
    })

/* Both call the user's callback, which may end the watch: the caller must not touch the watch
 * afterwards. */
static void tell_lost(struct kv_watch *watch, const struct error *error)
{
    if (watch->lost_status == error->code || !watch->callbacks.state)
        return;
    watch->lost_status = error->code;
    watch->callbacks.state(watch->user, error);
}

static void tell_back(struct kv_watch *watch)
{
    if (watch->lost_status == 0 || !watch->callbacks.state)
        return;
    watch->lost_status = 0;
    watch->callbacks.state(watch->user, NULL);
}

static void stop_stream(struct kv_watch *watch)
{
    grpc_cancel(watch->stream);
    watch->stream = NULL;
}

/* Set the deadline of the next message: "created", a progress answer, or events. */
static void expect_something(struct kv_watch *watch)
{
    watch->asked = true;
    watch->heard = false;
    watch->waits_ns = watch->etcd->patience.limit_ns;
    timer_set_in(&watch->timer, watch->waits_ns);
}

static void ask_later(struct kv_watch *watch)
{
    watch->asked = false;
    timer_set_in(&watch->timer, ASK_TIMEOUTS * watch->etcd->timeout_ns);
}

void etcd_watch_doubt(struct etcd *etcd, unsigned endpoint)
{
    for (struct kv_watch *watch = etcd->watches; watch; watch = watch->next)
        if (watch->phase == WATCH_STREAMING && watch->endpoint == endpoint && !watch->asked)
            timer_set_in(&watch->timer, 0);
}

static void stream_broken(struct kv_watch *watch, int status, const char *text)
{
    struct error error;
    error_set(&error, status, "the watch on etcd at %s broke off: %s",
              watch->etcd->endpoints.urls[watch->endpoint], text);
    etcd_endpoint_failed(watch->etcd, watch->endpoint);
    pause_watch(watch, &error);
}

/* Handle the end of a stream: missing events need a snapshot, other reasons a retry. */
static void stream_canceled(struct kv_watch *watch, const struct etcd_watch_message *message)
{
    if (message->compact_revision > watch->revision) {
        log_info("etcd compacted its history up to %lld while the watch was away: reading all keys",
                 (long long)message->compact_revision);
        watch->revision = 0;
        stop_stream(watch);
        watch->phase = WATCH_PAUSED;
        timer_set_in(&watch->timer, 0);
        return;
    }
    struct etcd_failure failure;
    etcd_failure_judge(GRPC_UNAVAILABLE, message->cancel_reason, &failure);
    /* The error does not distinguish an expired token from a user without rights. */
    if (failure.status == -EACCES)
        etcd_auth_refused(watch->etcd, watch->token_number);
    stream_broken(watch, failure.status, failure.text);
}

static void deliver_events(struct kv_watch *watch, const struct etcd_watch_message *message)
{
    int64_t revision = watch->revision;
    for (size_t i = 0; i < message->event_count; i++)
        revision = MAX(revision, message->events[i].entry.mod_revision);
    if (message->event_count == 0) { /* a notification: no change below the prefix */
        watch->revision = MAX(revision, message->revision);
        return;
    }
    watch->revision = revision;
    watch->callbacks.events(watch->user, message->events, message->event_count, revision);
}

/* May end the stream, or the whole watch. */
static void message_came(struct kv_watch *watch, const struct etcd_watch_message *message)
{
    if (message->canceled) {
        stream_canceled(watch, message);
    } else if (message->created) {
        watch->phase = WATCH_STREAMING;
        watch->backoff_ns = BACKOFF_MIN_NS;
        tell_back(watch);
    } else if (message->answers_us) {
        deliver_events(watch, message);
    }
}

static void stream_message(void *context, const uint8_t *data, size_t size_bytes)
{
    struct kv_watch *watch = context;
    struct error error;
    struct etcd_watch_message message;
    watch->heard = true;
    int status = etcd_decode_watch(data, size_bytes, &message, &error);
    if (status < 0) {
        stream_broken(watch, status, error.text);
        return;
    }
    message_came(watch, &message);
    etcd_watch_message_done(&message);
}

static void stream_done(void *context, const struct grpc_answer *answer)
{
    struct kv_watch *watch = context;
    watch->stream = NULL;
    if (answer->status == 0 && answer->code != GRPC_OK) {
        struct etcd_failure failure;
        etcd_failure_judge(answer->code, answer->text, &failure);
        if (failure.error_class == ETCD_ERROR_TOKEN)
            etcd_auth_refused(watch->etcd, watch->token_number);
        stream_broken(watch, failure.status, failure.text);
    } else {
        bool closed = answer->status == 0;
        stream_broken(watch, closed ? -ECONNRESET : answer->status,
                      closed ? "the server closed it" : answer->text);
    }
}

static const char *bound(const struct kv_watch *watch)
{
    return watch->before[0] != '\0' ? watch->before : NULL;
}

static int open_stream(struct kv_watch *watch)
{
    struct etcd *etcd = watch->etcd;
    struct etcd_address address;
    struct grpc_order order;
    struct bytes message CLEANUP(bytes_done) = {0};
    int status = etcd_encode_watch(&message, watch->prefix, bound(watch), watch->revision + 1);
    if (status < 0)
        return status;
    watch->endpoint = etcd->current;
    watch->token_number = etcd->token_number;
    etcd_order_prepare(etcd, watch->endpoint, "/etcdserverpb.Watch/Watch", &address, &order);
    order.message = message.data;
    order.message_bytes = message.size_bytes;
    status = grpc_start(etcd->http, &order, stream_message, stream_done, watch, &watch->stream);
    if (status < 0)
        return status;
    watch->phase = WATCH_OPENING;
    expect_something(watch);
    return 0;
}

static void open_or_pause(struct kv_watch *watch)
{
    int status = open_stream(watch);
    struct error error;
    if (status < 0) {
        error_set(&error, status, "a watch on etcd cannot start: %s", strerror(-status));
        pause_watch(watch, &error);
    }
}

static void read_done(void *context, const struct kv_result *result)
{
    struct kv_watch *watch = context;
    watch->request = NULL;
    if (result->status < 0) {
        pause_watch(watch, &result->error);
        return;
    }
    watch->revision = result->revision;
    if (CALL_USER(watch, watch->callbacks.snapshot(watch->user, result->entries,
                                                   result->entry_count, result->revision)))
        open_or_pause(watch);
}

/* @probes: read one key without its value, for the store's revision; else read all keys */
static int start_request(struct kv_watch *watch, bool probes, kv_callback done)
{
    const struct etcd_range one = {
        .prefix = watch->prefix, .before = bound(watch), .limit = 1, .keys_only = true};
    int status = etcd_request_new(watch->etcd, ETCD_RANGE, true, done, watch, &watch->request);
    if (status == 0)
        status = probes ? etcd_encode_range_below(&watch->request->body, &one)
                        : etcd_request_range(watch->request, watch->prefix, bound(watch));
    if (status == 0)
        status = etcd_request_send(watch->request);
    if (status < 0) {
        etcd_request_free(watch->request);
        watch->request = NULL;
    }
    return status;
}

static int start_reading(struct kv_watch *watch)
{
    watch->phase = WATCH_READING;
    return start_request(watch, false, read_done);
}

static void probe_done(void *context, const struct kv_result *result)
{
    struct kv_watch *watch = context;
    watch->request = NULL;
    if (result->status < 0) {
        pause_watch(watch, &result->error);
    } else if (result->revision < watch->revision) {
        log_warning("etcd is at revision %lld but was at %lld: it was restored or emptied; reading "
                    "all keys",
                    (long long)result->revision, (long long)watch->revision);
        watch->revision = 0;
        int status = start_reading(watch);
        struct error error;
        if (status < 0) {
            error_set(&error, status, "the keys of etcd cannot be read: %s", strerror(-status));
            pause_watch(watch, &error);
        }
    } else {
        open_or_pause(watch);
    }
}

static int start_probing(struct kv_watch *watch)
{
    watch->phase = WATCH_PROBING;
    return start_request(watch, true, probe_done);
}

/* Return whether to report a failure: not if another member takes over at once. */
static bool is_news(const struct kv_watch *watch)
{
    return watch->etcd->endpoints.count == 1 || watch->backoff_ns > BACKOFF_MIN_NS;
}

/* Stop the request or stream, report the reason, and retry after a backoff. */
static void pause_watch(struct kv_watch *watch, const struct error *error)
{
    bool news = is_news(watch);
    stop_stream(watch);
    watch->phase = WATCH_PAUSED;
    timer_set_in(&watch->timer, watch->backoff_ns);
    watch->backoff_ns = MIN(2 * watch->backoff_ns, BACKOFF_MAX_NS);
    if (news)
        tell_lost(watch, error); /* last, since it may end the watch */
}

static void resume(struct kv_watch *watch)
{
    int status = watch->revision == 0 ? start_reading(watch) : start_probing(watch);
    struct error error;
    if (status < 0) {
        error_set(&error, status, "a watch on etcd cannot go on: %s", strerror(-status));
        pause_watch(watch, &error);
    }
}

static int ask(struct kv_watch *watch)
{
    struct bytes message CLEANUP(bytes_done) = {0};
    int status = etcd_encode_progress(&message);
    return status < 0 ? status : grpc_send(watch->stream, message.data, message.size_bytes);
}

/* Send a progress request, or end the stream if the last one is unanswered. */
static void timer_fired(void *user)
{
    struct kv_watch *watch = user;
    if (watch->phase == WATCH_PAUSED) {
        resume(watch);
    } else if (watch->phase == WATCH_OPENING || watch->phase == WATCH_STREAMING) {
        int status = 0;
        if (watch->asked && !watch->heard) {
            answer_timeout_lost(&watch->etcd->patience, watch->waits_ns);
            status = -ETIMEDOUT;
        } else if (!watch->asked) {
            status = ask(watch);
        }
        if (status < 0)
            stream_broken(watch, status, "no answer for too long");
        else if (watch->asked)
            ask_later(watch);
        else
            expect_something(watch);
    }
}

int etcd_watch_start(void *context, const char *prefix, const char *before,
                     const struct kv_watch_callbacks *callbacks, void *user,
                     struct kv_watch **ret_watch)
{
    struct etcd *etcd = context;
    size_t length = strlen(prefix);
    if (length == 0 || length >= KV_KEY_MAX || (before && strlen(before) >= KV_KEY_MAX))
        return -EINVAL;
    struct kv_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return -ENOMEM;
    watch->etcd = etcd;
    memcpy(watch->prefix, prefix, length + 1);
    if (before)
        stpcpy(watch->before, before);
    watch->callbacks = *callbacks;
    watch->user = user;
    watch->backoff_ns = BACKOFF_MIN_NS;
    int status = timer_init(&watch->timer, etcd->loop, timer_fired, watch);
    if (status == 0)
        status = start_reading(watch);
    if (status < 0) {
        timer_done(&watch->timer);
        free(watch);
        return status;
    }
    watch->next = etcd->watches;
    watch->back = &etcd->watches;
    if (watch->next)
        watch->next->back = &watch->next;
    etcd->watches = watch;
    *ret_watch = watch;
    return 0;
}

void etcd_watch_stop(void *context, struct kv_watch *watch)
{
    (void)context;
    if (!watch)
        return;
    if (watch->gone != NULL)
        *watch->gone = true;
    etcd_request_free(watch->request);
    stop_stream(watch);
    timer_done(&watch->timer);
    *watch->back = watch->next;
    if (watch->next)
        watch->next->back = watch->back;
    free(watch);
}

void etcd_watch_stop_all(struct etcd *etcd)
{
    while (etcd->watches)
        etcd_watch_stop(etcd, etcd->watches);
}
