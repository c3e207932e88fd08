/*
 * libcurl's multi interface on a `struct loop`.
 *
 * Problem: libcurl forbids most of its functions inside its own callbacks, but the receiver of data
 * needs them: to cancel the transfer, to start the next one. So a write callback only buffers the
 * bytes and calls curl_loop_touch(). Once libcurl has returned, the loop calls `received`, and then
 * `finished` of the transfers that ended. These two may call anything.
 *
 * A descriptor that the event loop refuses to watch (no memory) is not fatal: libcurl's own timers
 * still run, and the transfer ends at its deadline.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>

#include "membership/transport/loop.h"

/* TCP keep-alive: the kernel detects a cut cable even on an idle connection. */
#define CURL_LOOP_KEEP_ALIVE_IDLE_S     5L
#define CURL_LOOP_KEEP_ALIVE_INTERVAL_S 2L

struct curl_loop;

struct curl_transfer {
    CURL *easy; /* the owner's; its CURLOPT_PRIVATE belongs to the curl_loop */
    void (*received)(struct curl_transfer *transfer);                /* NULL: never touched */
    void (*finished)(struct curl_transfer *transfer, CURLcode code); /* removed, unless it stays */
    struct curl_transfer *touched_next;
    bool touched;
    bool stays; /* not removed when finished: the owner continues to use its connection */
};

int curl_loop_new(const struct loop *loop, struct curl_loop **ret_curl) CHECK_RESULT;
/** curl_loop_free() - free the loop after all transfers were removed; not inside their callbacks;
 * NULL allowed */
void curl_loop_free(struct curl_loop *curl);
const struct loop *curl_loop_of(const struct curl_loop *curl);

/** curl_loop_add() - start a transfer; it calls back only from the loop. Return: 0, -ENOMEM or -EIO
 */
int curl_loop_add(struct curl_loop *curl, struct curl_transfer *transfer) CHECK_RESULT;
/** curl_loop_remove() - abort a transfer without a callback. Not inside libcurl's callbacks */
void curl_loop_remove(struct curl_loop *curl, struct curl_transfer *transfer);
/**
 * curl_transfer_status() - convert libcurl's code to a negative errno
 *
 * Return: 0, -ECONNREFUSED, -EHOSTUNREACH (also: no such name), -ETIMEDOUT, -ECONNRESET, -EINVAL
 * (the URL), -ENOMEM, -EPROTO (TLS, not HTTP, ...).
 */
int curl_transfer_status(const struct curl_transfer *transfer, CURLcode code);
/** curl_loop_touch() - schedule `received` for as soon as it is safe; for libcurl's callbacks */
void curl_loop_touch(struct curl_loop *curl, struct curl_transfer *transfer);
