/* Make the bodies of firnd's HTTP answers. Each function appends to @body; -ENOENT: no such job or
 * file on this node. The loop names a file; another thread reads it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "checkpoint/remote/remote.h"

struct config;
struct daemon;
struct job;

/* The part of a file that an answer returns. */
enum http_part {
    HTTP_LINES_BY_STEP, /* lines from that "step" on, up to the answer's limit */
    HTTP_LINES_BY_TIME, /* from that "unix_ns" on */
    HTTP_END,           /* the last bytes */
    HTTP_RANGE,         /* these bytes */
    HTTP_TRACES,        /* of a folder: its traces (daemon/http/trace_files.h) */
    HTTP_SPANS,         /* of a trace: its spans of steps `from` to `to` */
};

/* The seal at the end of an answer (checkpoint/remote/remote.h). */
struct http_seal {
    bool is_wanted;
    uint8_t key[CHECKPOINT_KEY_SIZE];
    char proof[CHECKPOINT_PROOF_SIZE];
};

struct http_file {
    char path[1400];
    enum http_part part;
    uint64_t from;      /* step, nanoseconds or offset */
    uint64_t to, after; /* for HTTP_SPANS: step, number of a span */
    size_t size_bytes;  /* for HTTP_END and HTTP_RANGE */
    struct http_seal seal;
};

int http_answer_node(const struct daemon *daemon, struct bytes *body,
                     struct error *error) CHECK_RESULT;
int http_answer_workers(const struct config *config, const struct job *jobs, const char *job,
                        struct bytes *body, struct error *error) CHECK_RESULT;
/** http_answer_job_file() - name a file in a job's folder, such as "metrics.jsonl" */
void http_answer_job_file(const struct config *config, const char *job, const char *name,
                          struct http_file *ret_file);
/** http_answer_bytes_max() - return the maximum size of a body from http_answer_read() */
size_t http_answer_bytes_max(const struct http_file *file);
/** http_answer_read() - read the file that @file names; allowed on any thread */
int http_answer_read(const struct http_file *file, struct bytes *body,
                     struct error *error) CHECK_RESULT;
