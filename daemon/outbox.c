#include "daemon/outbox.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define RETRY_NS (NS_PER_SECOND / 5)

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
    bool waiting;    /* for the retry timer */
    bool superseded; /* the letter in flight got a newer value meanwhile */
};

static void send_first(struct outbox *outbox);

static void letter_free(struct letter *letter)
{
    free(letter->key);
    free(letter->value);
    free(letter);
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
                                outbox->loop->now_ns(outbox->loop->context) + RETRY_NS))
        log_error("a retry timer failed: %s", outbox->first ? outbox->first->key : "");
}

static void on_written(void *context, const struct kv_result *result)
{
    struct outbox *outbox = context;
    struct letter *letter = outbox->first;

    outbox->request = NULL;
    if (result->status) {
        try_later(outbox);
        return;
    }
    if (!outbox->superseded) {
        outbox->first = letter->next;
        letter_free(letter);
    }
    send_first(outbox);
}

static void send_first(struct outbox *outbox)
{
    struct letter *letter = outbox->first;

    if (!letter || outbox->request || outbox->waiting)
        return;
    const struct kv_operation put = {.type = KV_PUT, .key = letter->key, .value = letter->value};
    outbox->superseded = false;
    if (outbox->kv->txn(outbox->kv->context, NULL, 0, &put, 1, on_written, outbox,
                        &outbox->request)) {
        outbox->request = NULL;
        try_later(outbox);
    }
}

int outbox_new(const struct loop *loop, const struct kv *kv, struct outbox **ret_outbox)
{
    struct outbox *outbox = calloc(1, sizeof(*outbox));
    int status;

    if (!outbox)
        return -ENOMEM;
    outbox->loop = loop;
    outbox->kv = kv;
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
