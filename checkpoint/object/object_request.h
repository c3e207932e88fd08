/*
 * One signed HTTP request to an S3 store, with libcurl's AWS SigV4.
 *
 * libcurl before 8.3 signs its input without the canonicalization that the store applies. So this
 * file passes canonical input: paths and queries are encoded once, query parameters are sorted by
 * name and each has its '=', no header is set only to be omitted ("Expect:"), no header name is a
 * prefix of another one, and the payload hash is always given. Later versions of libcurl keep this
 * form.
 *
 * The hash of a large payload over TLS is UNSIGNED-PAYLOAD, because TLS protects the payload. Small
 * payloads, and all payloads without TLS, have their SHA-256. The secret is passed only to libcurl
 * and never appears in a message.
 */
#pragma once

#include <stdatomic.h>

#include "base/bytes.h"
#include "checkpoint/object/object.h"
#include "checkpoint/object/object_settings.h"

struct object_client;

struct object_request {
    const char *method;         /* "GET", "PUT", "POST", "DELETE" */
    const char *key;            /* NULL: the bucket */
    const char *query;          /* encoded and sorted; NULL: none */
    const char *const *headers; /* "name: value"; ends with NULL; NULL: none */
    const void *body;           /* NULL: none */
    size_t body_bytes;
    uint64_t range_from; /* with @range_bytes: offset of a GET */
    size_t range_bytes;  /* 0: the whole object */
    void *into;          /* range_bytes of memory for the body of a 2xx; NULL: use answer.body */
};

struct object_answer {
    struct bytes body; /* zero-terminated past its end; the body of an error is truncated */
    size_t into_bytes;
    char tag[OBJECT_TAG_SIZE]; /* ETag */
    char algorithm[32];        /* x-amz-checksum-algorithm */
};

/**
 * object_client_new() - make a client with a persistent connection and the key
 * @settings: copied
 * @stop: may be NULL; when true, a request soon ends with -ECANCELED
 */
int object_client_new(const struct object_settings *settings, const char *bucket,
                      const atomic_bool *stop, struct object_client **ret_client,
                      struct error *error) CHECK_RESULT;
void object_client_free(struct object_client *client);
const char *object_client_where(const struct object_client *client); /* "s3://bucket" */

/**
 * object_request() - send a request and wait for the answer
 *
 * Return: 0 for 2xx; the errors of object.h. The caller frees *ret_answer with object_answer_done()
 * in every case.
 */
int object_request(struct object_client *client, const struct object_request *request,
                   struct object_answer *ret_answer, struct error *error) CHECK_RESULT;
void object_answer_done(struct object_answer *answer);

/** object_encode() - append @text, encoded for a path or, with @slashes false, for a query */
int object_encode(struct bytes *to, const char *text, bool slashes) CHECK_RESULT;
