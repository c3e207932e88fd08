/* The bodies of firnd's HTTP answers. Each appends to @body; -ENOENT: there is no such job or file
 * here. */
#pragma once

#include "base/bytes.h"
#include "daemon/daemon.h"

int http_answer_node(const struct daemon *daemon, struct bytes *body,
                     struct error *error) CHECK_RESULT;
int http_answer_metrics(const struct daemon *daemon, const char *job, uint64_t from_step,
                        struct bytes *body, struct error *error) CHECK_RESULT;
int http_answer_events(const struct daemon *daemon, const char *job, uint64_t from_ns,
                       struct bytes *body, struct error *error) CHECK_RESULT;
int http_answer_log(const struct daemon *daemon, const char *job, unsigned slot,
                    uint64_t size_bytes, struct bytes *body, struct error *error) CHECK_RESULT;
int http_answer_workers(const struct daemon *daemon, const char *job, struct bytes *body,
                        struct error *error) CHECK_RESULT;
