#include "membership/transport/curl_loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "membership/transport/timer.h"

struct curl_loop {
    const struct loop *loop;
    CURLM *multi;
    struct timer timer;
    struct curl_transfer *touched;
    bool dispatching;
};

/* Deliver data before ends: the last bytes of a transfer arrive together with its end. */
static void dispatch(struct curl_loop *curl)
{
    curl->dispatching = true;
    while (curl->touched) {
        struct curl_transfer *transfer = curl->touched;
        curl->touched = transfer->touched_next;
        transfer->touched = false;
        transfer->received(transfer);
    }
    CURLMsg *message;
    for (int left; (message = curl_multi_info_read(curl->multi, &left));) {
        struct curl_transfer *transfer = NULL;
        CURLcode code = message->data.result; /* the message dies with the handle's removal */
        if (message->msg != CURLMSG_DONE ||
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer) != CURLE_OK)
            continue;
        if (!transfer->stays)
            curl_loop_remove(curl, transfer);
        transfer->finished(transfer, code);
    }
    curl->dispatching = false;
}

static void act(struct curl_loop *curl, curl_socket_t descriptor, int events)
{
    int running;
    CURLMcode code = curl_multi_socket_action(curl->multi, descriptor, events, &running);
    if (code != CURLM_OK)
        log_error("libcurl: %s", curl_multi_strerror(code));
    dispatch(curl);
}

static void descriptor_ready(void *user, int descriptor, unsigned events)
{
    act(user, descriptor,
        (events & LOOP_READ ? CURL_CSELECT_IN : 0) | (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0));
}

static void timer_fired(void *user)
{
    act(user, CURL_SOCKET_TIMEOUT, 0);
}

/* Called by libcurl: watch this descriptor for these events. @known: the pointer set by
 * curl_multi_assign(). */
static int descriptor_wanted(CURL *easy, curl_socket_t descriptor, int what, void *user,
                             void *known)
{
    struct curl_loop *curl = user;
    const struct loop *loop = curl->loop;
    struct loop_io *io = known;
    int status = 0;
    unsigned events =
        (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
    (void)easy;
    if (what == CURL_POLL_REMOVE && io) {
        loop->io_remove(loop->context, io);
        curl_multi_assign(curl->multi, descriptor, NULL);
    } else if (what != CURL_POLL_REMOVE && io) {
        status = loop->io_set(loop->context, io, events);
    } else if (what != CURL_POLL_REMOVE) {
        status = loop->io_add(loop->context, descriptor, events, descriptor_ready, curl, &io);
        if (status == 0)
            curl_multi_assign(curl->multi, descriptor, io);
    }
    if (status < 0)
        log_error("a connection cannot be watched: %s", strerror(-status));
    return 0;
}

static int timer_wanted(CURLM *multi, long timeout_ms, void *user)
{
    (void)multi;
    struct curl_loop *curl = user;
    if (timeout_ms < 0)
        timer_clear(&curl->timer);
    else
        timer_set_in(&curl->timer, (uint64_t)timeout_ms * NS_PER_MS);
    return 0;
}

int curl_loop_new(const struct loop *loop, struct curl_loop **ret_curl)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ENOMEM;
    struct curl_loop *curl = calloc(1, sizeof(*curl));
    int status = !curl ? -ENOMEM : timer_init(&curl->timer, loop, timer_fired, curl);
    if (status == 0 && !(curl->multi = curl_multi_init()))
        status = -ENOMEM;
    if (status < 0) {
        if (curl)
            timer_done(&curl->timer);
        free(curl);
        curl_global_cleanup();
        return status;
    }
    curl->loop = loop;
    curl_multi_setopt(curl->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, descriptor_wanted);
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, timer_wanted);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERDATA, curl);
    *ret_curl = curl;
    return 0;
}

void curl_loop_free(struct curl_loop *curl)
{
    if (!curl)
        return;
    assert(!curl->touched && !curl->dispatching);
    curl_multi_cleanup(curl->multi);
    timer_done(&curl->timer);
    free(curl);
    curl_global_cleanup();
}

const struct loop *curl_loop_of(const struct curl_loop *curl)
{
    return curl->loop;
}

int curl_loop_add(struct curl_loop *curl, struct curl_transfer *transfer)
{
    curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
    CURLMcode code = curl_multi_add_handle(curl->multi, transfer->easy);
    return code == CURLM_OK ? 0 : code == CURLM_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

void curl_loop_remove(struct curl_loop *curl, struct curl_transfer *transfer)
{
    curl_multi_remove_handle(curl->multi, transfer->easy);
    for (struct curl_transfer **at = &curl->touched; *at; at = &(*at)->touched_next) {
        if (*at == transfer) {
            *at = transfer->touched_next;
            break;
        }
    }
    transfer->touched = false;
}

static int connect_status(CURL *easy)
{
    long number = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    bool route = number == EHOSTUNREACH || number == ENETUNREACH || number == EHOSTDOWN;
    return route ? -EHOSTUNREACH : number == ETIMEDOUT ? -ETIMEDOUT : -ECONNREFUSED;
}

int curl_transfer_status(const struct curl_transfer *transfer, CURLcode code)
{
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_COULDNT_RESOLVE_HOST:
        return -EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT:
        return connect_status(transfer->easy);
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_FAIL_REWIND: /* a kept connection died, and nothing may be sent twice */
        return -ECONNRESET;
    case CURLE_OUT_OF_MEMORY:
    case CURLE_WRITE_ERROR: /* the owner's callback has refused the data */
        return -ENOMEM;
    case CURLE_URL_MALFORMAT:
        return -EINVAL;
    default:
        return -EPROTO;
    }
}

void curl_loop_touch(struct curl_loop *curl, struct curl_transfer *transfer)
{
    if (transfer->touched)
        return;
    transfer->touched = true;
    transfer->touched_next = curl->touched;
    curl->touched = transfer;
}
