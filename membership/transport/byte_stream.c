#include "membership/transport/byte_stream.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "membership/transport/timer.h"
#include "membership/transport/tls_words.h"

#define PROTOCOL_BYTES_MAX 15

struct byte_stream {
    struct curl_transfer transfer; /* first member: the curl_loop's callbacks get it */
    struct curl_loop *curl;
    const struct loop *loop;
    struct loop_io *io; /* NULL: not connected */
    const char *protocol;
    struct timer timer; /* no TCP connection until now */
    bool late;          /* the timer has fired once */
    bool encrypted;
    struct byte_stream_callbacks callbacks;
    void *context;
    char text[CURL_ERROR_SIZE];
    char words[TLS_WORDS_SIZE]; /* explanation of the error */
    const char *refusal;
};

static void descriptor_ready(void *user, int descriptor, unsigned events)
{
    struct byte_stream *wire = user;
    (void)descriptor, (void)events;
    wire->callbacks.ready(wire->context);
}

static void transfer_finished(struct curl_transfer *transfer, CURLcode code)
{
    struct byte_stream *wire = (struct byte_stream *)transfer;
    const struct loop *loop = wire->loop;
    curl_socket_t descriptor = CURL_SOCKET_BAD;
    int status = curl_transfer_status(transfer, code);
    const char *text = wire->text[0] != '\0' ? wire->text : curl_easy_strerror(code);
    text = tls_words_connect(code, text, wire->words);
    timer_clear(&wire->timer);
    if (status == 0)
        curl_easy_getinfo(transfer->easy, CURLINFO_ACTIVESOCKET, &descriptor);
    if (status == 0 && descriptor == CURL_SOCKET_BAD) {
        status = -ECONNRESET;
        text = "the connection has gone";
    }
    if (status == 0) {
        status =
            loop->io_add(loop->context, descriptor, LOOP_READ, descriptor_ready, wire, &wire->io);
        text = "the connection cannot be watched";
    }
    wire->callbacks.connected(wire->context, status, text);
}

/* Poll the descriptors once more before reporting a timeout, in case the loop was late. */
static void timer_fired(void *user)
{
    struct byte_stream *wire = user;
    curl_off_t connected_us = 0;
    curl_easy_getinfo(wire->transfer.easy, CURLINFO_CONNECT_TIME_T, &connected_us);
    if (connected_us > 0)
        return;
    if (wire->late) {
        curl_loop_remove(wire->curl, &wire->transfer);
        wire->callbacks.connected(wire->context, -ETIMEDOUT, "no connection within the timeout");
    } else {
        wire->late = true;
        timer_set_in(&wire->timer, 0);
    }
}

/* ALPN protocols have a length byte first. Partial writes may move their buffer between calls. */
static CURLcode set_up_tls(CURL *easy, void *tls, void *user)
{
    const struct byte_stream *wire = user;
    size_t length = strlen(wire->protocol);
    unsigned char wanted[1 + PROTOCOL_BYTES_MAX] = {(unsigned char)length};
    (void)easy;
    assert(length <= PROTOCOL_BYTES_MAX);
    memcpy(wanted + 1, wire->protocol, length);
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return SSL_CTX_set_alpn_protos(tls, wanted, (unsigned)length + 1) == 0 ? CURLE_OK
                                                                           : CURLE_OUT_OF_MEMORY;
}

static void set_security(struct byte_stream *wire, const struct byte_stream_security *security)
{
    CURL *easy = wire->transfer.easy;
    if (security->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, security->ca_file);
    if (security->certificate_file)
        curl_easy_setopt(easy, CURLOPT_SSLCERT, security->certificate_file);
    if (security->key_file)
        curl_easy_setopt(easy, CURLOPT_SSLKEY, security->key_file);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_SSL_ENABLE_ALPN, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, wire);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, set_up_tls);
}

/* Check that libcurl uses OpenSSL: another TLS library's context must not pass for OpenSSL's. */
static bool can_encrypt(void)
{
    const char *library = curl_version_info(CURLVERSION_NOW)->ssl_version;
    return library && strncmp(library, "OpenSSL/", 8) == 0;
}

static int set_options(struct byte_stream *wire, const struct byte_stream_order *order)
{
    CURL *easy = wire->transfer.easy;
    wire->encrypted = strncmp(order->origin, "https:", 6) == 0;
    if (wire->encrypted) {
        if (!can_encrypt())
            return -EOPNOTSUPP;
        set_security(wire, order->security);
    }
    curl_easy_setopt(easy, CURLOPT_URL, order->origin);
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, wire->text);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, CURL_LOOP_KEEP_ALIVE_IDLE_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, CURL_LOOP_KEEP_ALIVE_INTERVAL_S);
    return 0;
}

int byte_stream_open(struct curl_loop *curl, const struct byte_stream_order *order,
                     const struct byte_stream_callbacks *callbacks, void *context,
                     struct byte_stream **ret_wire)
{
    struct byte_stream *wire = calloc(1, sizeof(*wire));
    if (!wire)
        return -ENOMEM;
    wire->transfer = (struct curl_transfer){
        .easy = curl_easy_init(), .finished = transfer_finished, .stays = true};
    wire->curl = curl;
    wire->loop = curl_loop_of(curl);
    wire->protocol = order->protocol;
    wire->callbacks = *callbacks;
    wire->context = context;
    int status = !wire->transfer.easy ? -ENOMEM : set_options(wire, order);
    if (status == 0)
        status = timer_init(&wire->timer, wire->loop, timer_fired, wire);
    if (status == 0)
        status = curl_loop_add(curl, &wire->transfer);
    if (status < 0) {
        timer_done(&wire->timer);
        curl_easy_cleanup(wire->transfer.easy);
        free(wire);
        return status;
    }
    if (order->connect_timeout_ns > 0)
        timer_set_in(&wire->timer, order->connect_timeout_ns);
    *ret_wire = wire;
    return 0;
}

void byte_stream_close(struct byte_stream *wire)
{
    if (!wire)
        return;
    if (wire->io)
        wire->loop->io_remove(wire->loop->context, wire->io);
    timer_done(&wire->timer);
    curl_loop_remove(wire->curl, &wire->transfer);
    curl_easy_cleanup(wire->transfer.easy);
    free(wire);
}

int byte_stream_watch(struct byte_stream *wire, bool write)
{
    return wire->loop->io_set(wire->loop->context, wire->io, LOOP_READ | (write ? LOOP_WRITE : 0));
}

ssize_t byte_stream_read(struct byte_stream *wire, void *room, size_t size_bytes, bool *ret_more)
{
    size_t got = 0;
    CURLcode code = curl_easy_recv(wire->transfer.easy, room, size_bytes, &got);
    if (code == CURLE_AGAIN)
        return -EAGAIN;
    *ret_more = wire->encrypted || got == size_bytes; /* TLS keeps decrypted bytes in its own
                                                       * buffer */
    if (code != CURLE_OK && wire->encrypted)
        wire->refusal = tls_words_refused(wire->text, wire->words);
    return code == CURLE_OK ? (ssize_t)got : -ECONNRESET;
}

const char *byte_stream_refusal(const struct byte_stream *wire)
{
    return wire->refusal;
}

ssize_t byte_stream_write(struct byte_stream *wire, const void *data, size_t size_bytes)
{
    size_t taken = 0;
    CURLcode code = curl_easy_send(wire->transfer.easy, data, size_bytes, &taken);
    if (code == CURLE_AGAIN || (code == CURLE_OK && taken == 0))
        return -EAGAIN;
    return code == CURLE_OK ? (ssize_t)taken : -ECONNRESET;
}
