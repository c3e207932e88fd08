/* The bodies of firnd's HTTP answers. Each appends to @body; -ENOENT: there is no such job or file
 * here. What is read from files is named on the loop, and read on another thread. */
#pragma once

#include "base/bytes.h"
#include "daemon/core/daemon.h"

/* Which part of a file an answer is. */
enum http_part {
    HTTP_LINES_BY_STEP, /* lines from that "step" on, as many as an answer takes */
    HTTP_LINES_BY_TIME, /* from that "unix_ns" on */
    HTTP_END,           /* the last bytes */
    HTTP_RANGE,         /* these bytes */
};

struct http_file {
    char path[1400];
    enum http_part part;
    uint64_t from;     /* step, nanoseconds or offset */
    size_t size_bytes; /* of HTTP_END and HTTP_RANGE */
};

int http_answer_node(const struct daemon *daemon, struct bytes *body,
                     struct error *error) CHECK_RESULT;
int http_answer_workers(const struct daemon *daemon, const char *job, struct bytes *body,
                        struct error *error) CHECK_RESULT;
/** http_answer_job_file() - name a file in the folder of a job, "metrics.jsonl" */
void http_answer_job_file(const struct daemon *daemon, const char *job, const char *name,
                          struct http_file *ret_file);
/** http_answer_bytes_max() - no body that http_answer_read() makes is longer */
size_t http_answer_bytes_max(const struct http_file *file);
/** http_answer_read() - read what @file names; on any thread */
int http_answer_read(const struct http_file *file, struct bytes *body,
                     struct error *error) CHECK_RESULT;
