/*
 * Serve the node, its workers, and the files of its jobs (metrics, events, logs) over HTTP.
 * Read-only, on the daemon's own loop (libmicrohttpd with its epoll descriptor watched by
 * sd-event). If the daemon has a token, every page except the last requires it (Authorization:
 * Bearer).
 *
 *   GET /metrics                          numbers for Prometheus (daemon/http/prometheus.h)
 *   GET /v1/node                          the node as JSON
 *   GET /v1/jobs/JOB/metrics?from=STEP    JSON Lines from that step on
 *   GET /v1/jobs/JOB/events?from=UNIX_NS  JSON Lines from that time on
 *   GET /v1/jobs/JOB/logs?slot=S&bytes=N  the end of a worker's log
 *   GET /v1/jobs/JOB/workers              the workers on this node, as JSON
 *   GET /v1/jobs/JOB/trace                its traces, as JSON Lines; with slot=S: the spans of one
 *   GET /v1/jobs/JOB/checkpoints/...      files of checkpoints, for clients with the key of the
 *                                         job's links (daemon/http/checkpoint_files.h)
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

struct daemon;
struct http_server;

int http_server_start(struct daemon *daemon, struct http_server **ret_server,
                      struct error *error) CHECK_RESULT;
void http_server_stop(struct http_server *server);
