#include "daemon/core/outbox.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "membership/transport/backoff.h"

#define RETRY_MIN_NS (NS_PER_SECOND / 5)
#define RETRY_MAX_NS (2 * NS_PER_SECOND)

#define KNOWN_MAX 64

/*
 * A put that has timed out may still take effect, even after a later put. So each put is
 * conditional on the key's last known revision. If the revision has changed, the key is read, and
 * the newest value is put again.
 */
struct known_key {
    char *key;
    int64_t revision;
};

struct letter {
    struct letter *next;
    char *key, *value;
};

struct outbox {
    const struct loop *loop;
    const struct kv *kv;
    struct letter *first; /* in flight while `request` is set */
    struct kv_request *request;
    struct loop_timer *retry;
    struct backoff backoff;
    bool waiting;                      /* for the retry timer to fire */
    bool refused;                      /* etcd answers but accepts no write */
    bool superseded;                   /* a newer value came while the letter was in flight */
    struct known_key known[KNOWN_MAX]; /* the oldest entry is replaced first */
    unsigned known_next;
};

static void send_first(struct outbox *outbox);

static void letter_free(struct letter *letter)
{
    free(letter->key);
    free(letter->value);
    free(letter);
}

static struct known_key *find_known(struct outbox *outbox, const char *key)
{
    for (unsigned i = 0; i < KNOWN_MAX; i++)
        if (outbox->known[i].key && !strcmp(outbox->known[i].key, key))
            return &outbox->known[i];
    return NULL;
}

/* If memory is short, the revision is read again before the next put. */
static void know(struct outbox *outbox, const char *key, int64_t revision)
{
    struct known_key *known = find_known(outbox, key);

    if (!known) {
        known = &outbox->known[outbox->known_next++ % KNOWN_MAX];
        free(known->key);
        known->key = strdup(key);
    }
    known->revision = revision;
}

static void on_retry(void *context)
{
    struct outbox *outbox = context;

    outbox->waiting = false;
    send_first(outbox);
}

static void try_later(struct outbox *outbox)
{
    outbox->waiting = true;
    if (outbox->loop->timer_set(outbox->loop->context, outbox->retry,
                                outbox->loop->now_ns(outbox->loop->context) +
                                    backoff_next(&outbox->backoff)))
        log_error("a retry timer failed: %s", outbox->first ? outbox->first->key : "");
}

static void note_answer(struct outbox *outbox, const struct kv_result *result)
{
    if (kv_refused(result->status) && !outbox->refused)
        log_error("etcd refuses writes: %s; training continues, checkpoints and changes wait",
                  result->error.text);
    else if (!result->status && outbox->refused)
        log_info("etcd accepts writes again");
    if (!result->status || kv_refused(result->status))
        outbox->refused = result->status;
}

bool outbox_refused(const struct outbox *outbox)
{
    return outbox && outbox->refused;
}

static void on_read(void *context, const struct kv_result *result)
{
    struct outbox *outbox = context;

    outbox->request = NULL;
    if (result->status) {
        try_later(outbox);
        return;
    }
    know(outbox, outbox->first->key, result->entry_count ? result->entries[0].mod_revision : 0);
    send_first(outbox);
}

static void read_first(struct outbox *outbox)
{
    if (outbox->kv->range(outbox->kv->context, outbox->first->key, false, on_read, outbox,
                          &outbox->request)) {
        outbox->request = NULL;
        try_later(outbox);
    }
}

/* Remove the first letter, unless a newer value has arrived meanwhile. */
static void put_away_first(struct outbox *outbox)
{
    struct letter *letter = outbox->first;

    if (outbox->superseded)
        return;
    outbox->first = letter->next;
    letter_free(letter);
}

/* Drop a letter that is too large for etcd for good: the others must not wait for it. */
static void leave_out_first(struct outbox *outbox)
{
    const struct letter *letter = outbox->first;

    log_error("%s (%zu bytes) exceeds etcd's request limit and is not written; raise etcd's "
              "--max-request-bytes",
              letter->key, strlen(letter->value));
    put_away_first(outbox);
    send_first(outbox);
}

static void on_written(void *context, const struct kv_result *result)
{
    struct outbox *outbox = context;
    const struct letter *letter = outbox->first;

    outbox->request = NULL;
    if (result->status == -EFBIG) {
        leave_out_first(outbox);
        return;
    }
    note_answer(outbox, result);
    if (result->status) {
        try_later(outbox);
        return;
    }
    if (!result->succeeded) {
        read_first(outbox);
        return;
    }
    backoff_reset(&outbox->backoff);
    know(outbox, letter->key, result->revision);
    put_away_first(outbox);
    send_first(outbox);
}

static void send_first(struct outbox *outbox)
{
    struct letter *letter = outbox->first;

    if (!letter || outbox->request || outbox->waiting)
        return;
    const struct known_key *known = find_known(outbox, letter->key);
    const struct kv_compare unchanged = {
        .key = letter->key, .target = KV_MOD_REVISION, .value = known ? known->revision : 0};
    const struct kv_operation put = {.type = KV_PUT, .key = letter->key, .value = letter->value};
    outbox->superseded = false;
    int status = outbox->kv->txn(outbox->kv->context, &unchanged, 1, &put, 1, on_written, outbox,
                                 &outbox->request);
    if (!status)
        return;
    outbox->request = NULL;
    if (status == -EFBIG) /* not even sent */
        leave_out_first(outbox);
    else
        try_later(outbox);
}

int outbox_new(const struct loop *loop, const struct kv *kv, const char *node,
               struct outbox **ret_outbox)
{
    struct outbox *outbox = calloc(1, sizeof(*outbox));
    int status;

    if (!outbox)
        return -ENOMEM;
    outbox->loop = loop;
    outbox->kv = kv;
    backoff_init(&outbox->backoff, RETRY_MIN_NS, RETRY_MAX_NS, node);
    status = loop->timer_add(loop->context, UINT64_MAX, on_retry, outbox, &outbox->retry);
    if (status)
        free(outbox);
    else
        *ret_outbox = outbox;
    return status;
}

void outbox_free(struct outbox *outbox)
{
    if (!outbox)
        return;
    outbox->kv->cancel(outbox->kv->context, outbox->request);
    outbox->loop->timer_remove(outbox->loop->context, outbox->retry);
    while (outbox->first) {
        struct letter *letter = outbox->first;
        outbox->first = letter->next;
        letter_free(letter);
    }
    for (unsigned i = 0; i < KNOWN_MAX; i++)
        free(outbox->known[i].key);
    free(outbox);
}

static int replace_value(struct outbox *outbox, struct letter *letter, const char *value)
{
    char *copy = strdup(value);

    if (!copy)
        return -ENOMEM;
    free(letter->value);
    letter->value = copy;
    if (letter == outbox->first && outbox->request)
        outbox->superseded = true;
    return 0;
}

int outbox_put(struct outbox *outbox, const char *key, const char *value)
{
    struct letter **end = &outbox->first, *letter;

    for (; *end; end = &(*end)->next)
        if (!strcmp((*end)->key, key))
            return replace_value(outbox, *end, value);
    letter = calloc(1, sizeof(*letter));
    if (!letter)
        return -ENOMEM;
    letter->key = strdup(key);
    letter->value = strdup(value);
    if (!letter->key || !letter->value) {
        letter_free(letter);
        return -ENOMEM;
    }
    *end = letter;
    send_first(outbox);
    return 0;
}
