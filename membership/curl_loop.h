/*
 * libcurl's multi interface on a `struct loop`.
 *
 * Problem: libcurl forbids most of its functions inside its own callbacks, but whoever receives
 * data wants to do just those things: cancel the transfer, start the next one. So a write callback
 * only puts bytes aside and calls curl_loop_touch(); once libcurl has returned, the loop calls
 * `received`, and then `finished` of the transfers that ended. In those everything is allowed.
 *
 * A descriptor that the event loop refuses to watch (no memory) is not fatal: libcurl's own timers
 * still run, and the transfer ends at its deadline.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>

#include "membership/loop.h"

struct curl_loop;

struct curl_transfer {
    CURL *easy; /* the owner's; its CURLOPT_PRIVATE belongs to the curl_loop */
    void (*received)(struct curl_transfer *transfer);
    void (*finished)(struct curl_transfer *transfer, CURLcode code); /* already removed */
    struct curl_transfer *touched_next;
    bool touched;
    bool
        deaf; /* libcurl has stopped listening: the transfer ends, or only waits for its own body */
};

int curl_loop_new(const struct loop *loop, struct curl_loop **ret_curl) CHECK_RESULT;
void curl_loop_free(struct curl_loop *curl); /* all transfers are removed before; NULL allowed */

/** curl_loop_add() - start; calls back from the loop only. Return: 0, -ENOMEM or -EIO */
int curl_loop_add(struct curl_loop *curl, struct curl_transfer *transfer) CHECK_RESULT;
/** curl_loop_remove() - abort; it does not call back any more. Not inside libcurl's callbacks */
void curl_loop_remove(struct curl_loop *curl, struct curl_transfer *transfer);
/** curl_loop_touch() - from libcurl's callbacks: have `received` called as soon as that is safe */
void curl_loop_touch(struct curl_loop *curl, struct curl_transfer *transfer);
