#include "membership/http_pool.h"

#include <errno.h>
#include <stdlib.h>

#define VERSION_THAT_SEES_HTTP2 0x080000u

struct http_pool {
    struct curl_loop *curl;
    unsigned request_count;
    bool retired;
    unsigned idle_count; /* connections that speak HTTP/2 and carry nothing, as far as we know */
};

int http_pool_new(const struct loop *loop, struct http_pool **ret_pool)
{
    struct http_pool *pool = calloc(1, sizeof(*pool));
    int r = pool == NULL ? -ENOMEM : curl_loop_new(loop, &pool->curl);
    if (r < 0) {
        free(pool);
        return r;
    }
    *ret_pool = pool;
    return 0;
}

static void free_unused(struct http_pool *pool)
{
    if (!pool->retired || pool->request_count > 0)
        return;
    curl_loop_free(pool->curl);
    free(pool);
}

void http_pool_retire(struct http_pool *pool)
{
    if (pool == NULL)
        return;
    pool->retired = true;
    free_unused(pool);
}

struct curl_loop *http_pool_curl(struct http_pool *pool)
{
    return pool->curl;
}

/* libcurl has a connection for a request and is about to send it. */
static int connection_given(void *user, char *peer, char *own, int peer_port, int own_port)
{
    struct http_seat *seat = user;
    long connected = 0;
    (void)peer, (void)own, (void)peer_port, (void)own_port;
    curl_easy_getinfo(seat->easy, CURLINFO_NUM_CONNECTS, &connected);
    seat->misplaced = !seat->opens && connected > 0;
    return seat->misplaced ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static bool sees_http2(void)
{
    return curl_version_info(CURLVERSION_NOW)->version_num >= VERSION_THAT_SEES_HTTP2;
}

static void set_version(struct http_seat *seat)
{
    long version = !seat->http2   ? CURL_HTTP_VERSION_1_1
                   : seat->secure ? CURL_HTTP_VERSION_2TLS
                                  : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
    if (seat->http2 && !seat->secure && !sees_http2()) {
        if (!seat->opens)
            version = CURL_HTTP_VERSION_2;
        curl_easy_setopt(seat->easy, CURLOPT_FRESH_CONNECT, (long)seat->opens);
        curl_easy_setopt(seat->easy, CURLOPT_PREREQFUNCTION, connection_given);
        curl_easy_setopt(seat->easy, CURLOPT_PREREQDATA, seat);
    }
    curl_easy_setopt(seat->easy, CURLOPT_HTTP_VERSION, version);
}

void http_seat_take(struct http_seat *seat, struct http_pool *pool)
{
    pool->request_count++;
    seat->pool = pool;
    seat->opens = pool->idle_count == 0;
    if (!seat->opens)
        pool->idle_count--;
    set_version(seat);
}

bool http_seat_move(struct http_seat *seat, CURLcode code)
{
    seat->keeps = code == CURLE_OK;
    if (code != CURLE_ABORTED_BY_CALLBACK || !seat->misplaced || seat->opens)
        return false;
    seat->opens = true;
    set_version(seat);
    return true;
}

void http_seat_leave(struct http_seat *seat)
{
    struct http_pool *pool = seat->pool;
    if (pool == NULL)
        return;
    if (seat->keeps)
        pool->idle_count++;
    seat->pool = NULL;
    pool->request_count--;
    free_unused(pool);
}
