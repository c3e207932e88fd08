#include "checkpoint/object/object_request.h"

#include <curl/curl.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "checkpoint/object/object_xml.h"

#define CONNECT_TIMEOUT_S 10L
#define STALL_S           30L   /* timeout without a byte in either direction */
#define UNSIGNED_FROM     65536 /* smaller payloads are hashed also with TLS */
#define EMPTY_TEXT        ""

struct object_client {
    CURL *easy;
    struct object_settings settings;
    char where[OBJECT_KEY_SIZE];
    char bucket[64];
    const atomic_bool *stop;
    bool secure;
};

/* State of libcurl's callbacks during one request. */
struct exchange {
    struct object_client *client;
    const struct object_request *request;
    struct object_answer *answer;
    size_t sent;
    bool too_large;
    char text[CURL_ERROR_SIZE];
};

int object_client_new(const struct object_settings *settings, const char *bucket,
                      const atomic_bool *stop, struct object_client **ret_client,
                      struct error *error)
{
    struct object_client *client = calloc(1, sizeof(*client));
    if (!client || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(client);
        return error_set(error, -ENOMEM, "no memory for a connection to the object store");
    }
    client->easy = curl_easy_init();
    client->settings = *settings;
    client->stop = stop;
    client->secure = strncasecmp(settings->endpoint, "https:", 6) == 0;
    snprintf(client->bucket, sizeof(client->bucket), "%s", bucket);
    snprintf(client->where, sizeof(client->where), "s3://%s", client->bucket);
    if (!client->easy) {
        object_client_free(client);
        return error_set(error, -ENOMEM, "no memory for a connection to the object store");
    }
    *ret_client = client;
    return 0;
}

void object_client_free(struct object_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    object_settings_forget(&client->settings);
    free(client);
    curl_global_cleanup();
}

const char *object_client_where(const struct object_client *client)
{
    return client->where;
}

void object_answer_done(struct object_answer *answer)
{
    bytes_done(&answer->body);
}

int object_encode(struct bytes *to, const char *text, bool slashes)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    int status = 0;
    for (; status == 0 && *text != '\0'; text++) {
        if (strchr(plain, *text) || (slashes && *text == '/'))
            status = bytes_append(to, text, 1);
        else
            status = bytes_append_format(to, "%%%02X", (unsigned)(unsigned char)*text);
    }
    return status;
}

/* ---- callbacks of libcurl ---- */

static size_t body_wanted(char *buffer, size_t size, size_t count, void *user)
{
    struct exchange *exchange = user;
    size_t given = MIN(size * count, exchange->request->body_bytes - exchange->sent);
    if (given > 0)
        memcpy(buffer, (const char *)exchange->request->body + exchange->sent, given);
    exchange->sent += given;
    return given;
}

/* Rewind the body, because a persistent connection may fail after some of the body was sent. */
static int body_again(void *user, curl_off_t offset, int origin)
{
    struct exchange *exchange = user;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > exchange->request->body_bytes)
        return CURL_SEEKFUNC_CANTSEEK;
    exchange->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static long code_of(const struct object_client *client)
{
    long code = 0;
    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

static size_t answer_came(char *data, size_t size, size_t count, void *user)
{
    struct exchange *exchange = user;
    struct object_answer *answer = exchange->answer;
    size_t size_bytes = size * count;
    if (exchange->request->into && code_of(exchange->client) / 100 == 2) {
        if (size_bytes > exchange->request->range_bytes - answer->into_bytes) {
            exchange->too_large = true;
            return CURL_WRITEFUNC_ERROR;
        }
        memcpy((char *)exchange->request->into + answer->into_bytes, data, size_bytes);
        answer->into_bytes += size_bytes;
        return size_bytes;
    }
    exchange->too_large = size_bytes > OBJECT_XML_BYTES_MAX - answer->body.size_bytes;
    if (exchange->too_large || bytes_append(&answer->body, data, size_bytes) != 0)
        return CURL_WRITEFUNC_ERROR;
    return size_bytes;
}

static void take_header(const char *line, size_t length, const char *name, char *to, size_t to_size)
{
    size_t name_length = strlen(name);
    if (length <= name_length || line[name_length] != ':' ||
        strncasecmp(line, name, name_length) != 0)
        return;
    line += name_length + 1;
    length -= name_length + 1;
    while (length > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        length--;
    }
    while (length > 0 && strchr(" \t\r\n", line[length - 1]))
        length--;
    if (length < to_size)
        snprintf(to, to_size, "%.*s", (int)length, line);
}

static size_t header_came(char *data, size_t size, size_t count, void *user)
{
    struct exchange *exchange = user;
    struct object_answer *answer = exchange->answer;
    take_header(data, size * count, "ETag", answer->tag, sizeof(answer->tag));
    take_header(data, size * count, "x-amz-checksum-algorithm", answer->algorithm,
                sizeof(answer->algorithm));
    return size * count;
}

static int shall_stop(void *user, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                      curl_off_t up)
{
    const struct exchange *exchange = user;
    const atomic_bool *stop = exchange->client->stop;
    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    return stop && atomic_load(stop);
}

/* ---- making a request ---- */

static int make_url(const struct object_client *client, const struct object_request *request,
                    struct bytes *url)
{
    int status = bytes_append_format(url, "%s/%s", client->settings.endpoint, client->bucket);
    if (status == 0 && request->key)
        status = bytes_append(url, "/", 1);
    if (status == 0 && request->key)
        status = object_encode(url, request->key, true);
    if (status == 0 && request->query)
        status = bytes_append_format(url, "?%s", request->query);
    return status == 0 ? bytes_append(url, "", 1) : status;
}

static int add_header(struct curl_slist **headers, const char *header)
{
    struct curl_slist *longer = curl_slist_append(*headers, header);
    if (!longer)
        return -ENOMEM;
    *headers = longer;
    return 0;
}

static int make_headers(const struct object_client *client, const struct object_request *request,
                        struct curl_slist **headers)
{
    char hash[65] = "UNSIGNED-PAYLOAD", line[sizeof(client->settings.session_token) + 64];
    int status = 0;
    for (size_t i = 0; status == 0 && request->headers && request->headers[i]; i++)
        status = add_header(headers, request->headers[i]);
    if (!client->secure || request->body_bytes < UNSIGNED_FROM) {
        unsigned char digest[crypto_hash_sha256_BYTES];
        crypto_hash_sha256(digest, request->body ? request->body : (const void *)EMPTY_TEXT,
                           request->body_bytes);
        sodium_bin2hex(hash, sizeof(hash), digest, sizeof(digest));
    }
    snprintf(line, sizeof(line), "x-amz-content-sha256: %s", hash);
    if (status == 0)
        status = add_header(headers, line);
    if (status == 0 && client->settings.session_token[0] != '\0') {
        snprintf(line, sizeof(line), "x-amz-security-token: %s", client->settings.session_token);
        status = add_header(headers, line);
        explicit_bzero(line, sizeof(line));
    }
    /* libcurl would default to the content type of a form. */
    if (status == 0 && request->body)
        status = add_header(headers, "content-type: application/octet-stream");
    return status;
}

static void set_identity(const struct object_client *client)
{
    char provider[128];
    CURL *easy = client->easy;
    snprintf(provider, sizeof(provider), "aws:amz:%s:s3", client->settings.region);
    curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, provider);
    curl_easy_setopt(easy, CURLOPT_USERNAME, client->settings.access_key);
    curl_easy_setopt(easy, CURLOPT_PASSWORD, client->settings.secret_key);
    if (client->settings.ca_file[0] != '\0')
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->settings.ca_file);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
}

static void set_limits(const struct object_client *client)
{
    CURL *easy = client->easy;
    uint64_t rate = client->settings.bytes_per_second;
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, STALL_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (rate > 0) {
        curl_easy_setopt(easy, CURLOPT_MAX_SEND_SPEED_LARGE,
                         (curl_off_t)MIN(rate, INT64_MAX + 0ull));
        curl_easy_setopt(easy, CURLOPT_MAX_RECV_SPEED_LARGE,
                         (curl_off_t)MIN(rate, INT64_MAX + 0ull));
    }
}

static void set_method(CURL *easy, const struct object_request *request)
{
    if (strcmp(request->method, "GET") == 0) {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    } else if (strcmp(request->method, "PUT") == 0) {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_bytes);
    } else if (strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes);
    } else {
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    }
}

static void set_exchange(CURL *easy, struct exchange *exchange)
{
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, body_wanted);
    curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, body_again);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, answer_came);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header_came);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, shall_stop);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, exchange);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->text);
}

/* ---- meaning of an answer ---- */

static const char *slash_key(const struct object_request *request)
{
    return request->key ? request->key : "";
}

static int fail_transport(const struct exchange *exchange, CURLcode code, struct error *error)
{
    const struct object_request *request = exchange->request;
    const char *where = exchange->client->where;
    const char *why = exchange->text[0] != '\0' ? exchange->text : curl_easy_strerror(code);
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return error_set(error, -ECANCELED, "%s %s/%s: told to stop", request->method, where,
                         slash_key(request));
    case CURLE_OUT_OF_MEMORY:
        return error_set(error, -ENOMEM, "%s %s/%s: no memory", request->method, where,
                         slash_key(request));
    case CURLE_WRITE_ERROR:
        return error_set(error, exchange->too_large ? -EBADMSG : -ENOMEM,
                         "%s %s/%s: the answer is larger than what was asked for", request->method,
                         where, slash_key(request));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return error_set(error, -EPROTO, "%s %s/%s at %s: %s", request->method, where,
                         slash_key(request), exchange->client->settings.endpoint, why);
    default:
        return error_set(error, -EAGAIN, "%s %s/%s at %s: %s", request->method, where,
                         slash_key(request), exchange->client->settings.endpoint, why);
    }
}

/* Return whether a failure is about this one transfer and not about the request itself. */
static bool is_passing(long http, const char *code)
{
    static const char *const passing[] = {"BadDigest",        "RequestTimeout",
                                          "OperationAborted", "SlowDown",
                                          "InternalError",    "ServiceUnavailable",
                                          "IncompleteBody",   "Throttling",
                                          "InvalidDigest",    "XAmzContentChecksumMismatch"};
    for (size_t i = 0; i < ARRAY_COUNT(passing); i++)
        if (strcmp(code, passing[i]) == 0)
            return true;
    return http == 408 || http == 429 || (http >= 500 && http != 501);
}

static int error_code(long http, const char *code)
{
    if (is_passing(http, code))
        return -EAGAIN;
    if (strcmp(code, "NoSuchBucket") == 0) /* this does not mean that an object is missing */
        return -EACCES;
    return http == 404                                             ? -ENOENT
           : http == 403 || http == 401                            ? -EACCES
           : http / 100 == 2 || http / 100 == 3 || http / 100 == 4 ? -EINVAL
                                                                   : -EBADMSG;
}

static int fail_http(const struct exchange *exchange, long http, struct error *error)
{
    const struct object_request *request = exchange->request;
    struct object_page page = {0};
    const struct bytes *body = &exchange->answer->body;
    if (object_xml_parse(body->data, body->size_bytes, &page, NULL, NULL) != 0)
        page = (struct object_page){0}; /* a proxy's page or an empty body: use the HTTP code
                                           alone */
    int status = error_code(http, page.code);
    const char *advice = "";
    if (strcmp(page.code, "RequestTimeTooSkewed") == 0)
        advice = "; this machine's clock is wrong";
    else if (http / 100 == 3)
        advice = "; endpoint or region is not this bucket's";
    return error_set(error, status, "%s %s/%s: HTTP %ld%s%s%s%s%s%s%s", request->method,
                     exchange->client->where, slash_key(request), http,
                     page.code[0] != '\0' ? " " : "", page.code,
                     page.message[0] != '\0' ? ": " : "", page.message,
                     page.region[0] != '\0' ? ", region " : "", page.region, advice);
}

static int judge(const struct exchange *exchange, CURLcode code, struct error *error)
{
    const struct object_answer *answer = exchange->answer;
    const struct object_request *request = exchange->request;
    long http = code_of(exchange->client);
    if (code != CURLE_OK)
        return fail_transport(exchange, code, error);
    if (http / 100 != 2)
        return fail_http(exchange, http, error);
    /* Completions of uploads and copies may fail after a 200 status was sent. */
    if (answer->body.size_bytes > 0 && !request->into) {
        struct object_page page = {0};
        if (object_xml_parse(answer->body.data, answer->body.size_bytes, &page, NULL, NULL) == 0 &&
            strcmp(page.root, "Error") == 0)
            return fail_http(exchange, http, error);
    }
    if (request->into && answer->into_bytes != request->range_bytes)
        return error_set(error, -EBADMSG, "GET %s/%s: only %zu bytes of %zu came",
                         exchange->client->where, slash_key(request), answer->into_bytes,
                         request->range_bytes);
    return 0;
}

int object_request(struct object_client *client, const struct object_request *request,
                   struct object_answer *ret_answer, struct error *error)
{
    struct exchange exchange = {.client = client, .request = request, .answer = ret_answer};
    struct curl_slist *headers = NULL;
    struct bytes url = {0};
    char range[64];
    *ret_answer = (struct object_answer){0};
    int status = make_url(client, request, &url);
    if (status == 0)
        status = make_headers(client, request, &headers);
    if (status != 0) {
        error_set(error, status, "no memory for a request to %s", client->where);
    } else {
        CURL *easy = client->easy;
        curl_easy_reset(easy); /* keeps the connection */
        set_identity(client);
        set_limits(client);
        set_method(easy, request);
        set_exchange(easy, &exchange);
        curl_easy_setopt(easy, CURLOPT_URL, (const char *)url.data);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)request->range_from,
                 (unsigned long long)(request->range_from + request->range_bytes - 1));
        if (request->range_bytes > 0)
            curl_easy_setopt(easy, CURLOPT_RANGE, range);
        status = judge(&exchange, curl_easy_perform(easy), error);
    }
    if (status == 0 && bytes_append(&ret_answer->body, "", 1) == 0)
        ret_answer->body.size_bytes--;
    curl_slist_free_all(headers);
    bytes_done(&url);
    return status;
}
