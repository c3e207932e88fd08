#include "membership/transport/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/http_url.h"
#include "membership/transport/curl_loop.h"
#include "membership/transport/tls_words.h"

struct http_client {
    const struct loop *loop;
    struct curl_loop *curl; /* NULL until the first request: most nodes never send one */
    struct http_request *requests;
    char token[HTTP_TOKEN_SIZE]; /* "": none */
};

struct http_request {
    struct curl_transfer transfer; /* first member: libcurl's callbacks get it */
    struct http_client *client;
    struct http_request *next, **back; /* of the client's list */
    struct curl_slist *headers;
    struct bytes body; /* bytes to be sent, from `sent_bytes` on */
    size_t sent_bytes;
    struct bytes answer; /* received bytes that are not delivered */
    size_t answer_bytes_max;
    bool too_large;
    http_data_callback data;
    http_done_callback done;
    void *context;
    char text[CURL_ERROR_SIZE];
};

int http_client_new(const struct loop *loop, struct http_client **ret_client)
{
    struct http_client *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->loop = loop;
    *ret_client = client;
    return 0;
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    while (client->requests)
        http_cancel(client->requests);
    curl_loop_free(client->curl);
    explicit_bzero(client->token, sizeof(client->token));
    free(client);
}

void http_client_set_token(struct http_client *client, const char *token)
{
    assert(strlen(token) < sizeof(client->token));
    strcpy(client->token, token);
}

static void request_free(struct http_request *request)
{
    if (request->back) {
        *request->back = request->next;
        if (request->next)
            request->next->back = request->back;
    }
    curl_easy_cleanup(request->transfer.easy);
    curl_slist_free_all(request->headers);
    bytes_forget(&request->body);
    bytes_done(&request->answer);
    free(request);
}

void http_cancel(struct http_request *request)
{
    if (!request)
        return;
    curl_loop_remove(request->client->curl, &request->transfer);
    request_free(request);
}

/* libcurl wants up to @size bytes of the body. */
static size_t body_wanted(char *buffer, size_t size, size_t count, void *user)
{
    struct http_request *request = user;
    size_t left = request->body.size_bytes - request->sent_bytes;
    size_t given = MIN(left, size * count);
    if (given > 0)
        memcpy(buffer, request->body.data + request->sent_bytes, given);
    request->sent_bytes += given;
    return given;
}

static size_t answer_came(char *data, size_t size, size_t count, void *user)
{
    struct http_request *request = user;
    size_t size_bytes = size * count;
    if (size_bytes > request->answer_bytes_max - request->answer.size_bytes) {
        request->too_large = true;
        return CURL_WRITEFUNC_ERROR;
    }
    if (bytes_append(&request->answer, data, size_bytes) < 0)
        return CURL_WRITEFUNC_ERROR;
    if (request->data)
        curl_loop_touch(request->client->curl, &request->transfer);
    return size_bytes;
}

static long answer_code(const struct http_request *request)
{
    long code = 0;
    curl_easy_getinfo(request->transfer.easy, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

/* Deliver the received bytes of a stream. Remove them from the request first, because the callback
 * may cancel it. */
static void deliver(struct curl_transfer *transfer)
{
    struct http_request *request = (struct http_request *)transfer;
    if (!request->data || request->answer.size_bytes == 0 || answer_code(request) / 100 != 2)
        return; /* the text of a failure waits for the end */
    struct bytes data = request->answer;
    request->answer = (struct bytes){0};
    request->data(request->context, data.data, data.size_bytes);
    bytes_done(&data);
}

static bool is_untrusted(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
}

static void transfer_finished(struct curl_transfer *transfer, CURLcode code)
{
    struct http_request *request = (struct http_request *)transfer;
    char words[TLS_WORDS_SIZE];
    struct http_answer answer = {
        .status = request->too_large   ? -EFBIG
                  : is_untrusted(code) ? -EKEYREJECTED
                                       : curl_transfer_status(transfer, code),
        .code = answer_code(request),
        .text = request->too_large         ? "the answer is too large"
                : request->text[0] != '\0' ? tls_words_connect(code, request->text, words)
                                           : curl_easy_strerror(code),
        .body_bytes = request->answer.size_bytes,
    };
    if (bytes_append(&request->answer, "", 1) < 0) {
        answer.status = -ENOMEM;
        answer.body_bytes = 0;
    }
    answer.body = answer.body_bytes > 0 ? request->answer.data : (const uint8_t *)"";
    request->done(request->context, &answer);
    request_free(request);
}

static int add_header(struct http_request *request, const char *header)
{
    struct curl_slist *headers = curl_slist_append(request->headers, header);
    if (!headers)
        return -ENOMEM;
    request->headers = headers;
    return 0;
}

static int add_token(struct http_request *request)
{
    char header[HTTP_TOKEN_SIZE + 32];
    if (request->client->token[0] == '\0')
        return 0;
    snprintf(header, sizeof(header), "Authorization: " HTTP_TOKEN_SCHEME "%s",
             request->client->token);
    int status = add_header(request, header);
    explicit_bzero(header, sizeof(header));
    return status;
}

static int set_headers(struct http_request *request, const struct http_order *order)
{
    int status = add_header(request, "Expect:"); /* no round trip before a large body */
    for (size_t i = 0; status == 0 && order->headers && order->headers[i]; i++)
        status = add_header(request, order->headers[i]);
    return status == 0 ? add_token(request) : status;
}

static void set_body(struct http_request *request, const struct http_order *order)
{
    CURL *easy = request->transfer.easy;
    if (!order->body) {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        return;
    }
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (!order->once) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)order->body_bytes);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                         request->body.data ? (const char *)request->body.data : "");
        return;
    }
    /* A body that is read through a function, and that cannot be rewound, is never sent twice. */
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, body_wanted);
    curl_easy_setopt(easy, CURLOPT_READDATA, request);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)order->body_bytes);
}

static long to_ms(uint64_t ns)
{
    return ns == 0 ? 0 : (long)MAX(ns / NS_PER_MS, (uint64_t)1);
}

static void set_options(struct http_request *request, const struct http_order *order)
{
    CURL *easy = request->transfer.easy;
    curl_easy_setopt(easy, CURLOPT_URL, order->url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (http_url_authorities())
        curl_easy_setopt(easy, CURLOPT_CAINFO, http_url_authorities());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->text);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, answer_came);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, to_ms(order->timeout_ns));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, to_ms(order->timeout_ns));
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, CURL_LOOP_KEEP_ALIVE_IDLE_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, CURL_LOOP_KEEP_ALIVE_INTERVAL_S);
    set_body(request, order);
}

int http_start(struct http_client *client, const struct http_order *order, http_data_callback data,
               http_done_callback done, void *context, struct http_request **ret_request)
{
    struct http_request *request = calloc(1, sizeof(*request));
    if (!request)
        return -ENOMEM;
    request->transfer = (struct curl_transfer){
        .easy = curl_easy_init(), .received = deliver, .finished = transfer_finished};
    request->client = client;
    request->answer_bytes_max = order->answer_bytes_max;
    request->data = data;
    request->done = done;
    request->context = context;
    int status = !request->transfer.easy ? -ENOMEM : set_headers(request, order);
    if (status == 0 && !client->curl)
        status = curl_loop_new(client->loop, &client->curl);
    if (status == 0 && order->body)
        status = bytes_append(&request->body, order->body, order->body_bytes);
    if (status == 0) {
        set_options(request, order);
        status = curl_loop_add(request->client->curl, &request->transfer);
    }
    if (status < 0) {
        request_free(request);
        return status;
    }
    request->next = client->requests;
    request->back = &client->requests;
    if (request->next)
        request->next->back = &request->next;
    client->requests = request;
    *ret_request = request;
    return 0;
}

int http_get(struct http_client *client, const char *url, uint64_t timeout_ns,
             http_data_callback data, http_done_callback done, void *context,
             struct http_request **ret_request)
{
    struct http_order order = {
        .url = url, .timeout_ns = timeout_ns, .answer_bytes_max = HTTP_GET_BYTES_MAX};
    return http_start(client, &order, data, done, context, ret_request);
}
