/*
 * One signed HTTP request to an S3 store, with libcurl's AWS SigV4.
 *
 * libcurl before 8.3 signs what it is given without putting it into the canonical form that the
 * store computes, so what is given here has that form already: paths and queries encoded once, the
 * query's parameters in order of their names and each with its '=', no header that is only there to
 * be left out ("Expect:"), no two headers where one's name begins with the other's, and the
 * payload's hash always said. Later versions bring nothing out of this form.
 *
 * The hash of a payload is UNSIGNED-PAYLOAD over TLS, which protects it already, and its SHA-256
 * where there is no TLS. The secret goes to libcurl alone, and never into a message.
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
    uint64_t range_from; /* with @range_bytes: of a GET */
    size_t range_bytes;  /* 0: all of it */
    void *into;          /* range_bytes of memory for the body of a 2xx; NULL: into the answer */
};

struct object_answer {
    struct bytes body; /* a zero past its end; of a failure at most what is worth reading */
    size_t into_bytes;
    char tag[OBJECT_TAG_SIZE]; /* ETag */
    char algorithm[32];        /* x-amz-checksum-algorithm */
};

/**
 * object_client_new() - a connection that is kept, and the key
 * @settings: copied
 * @stop: may be NULL; a request ends with -ECANCELED soon after it becomes true
 */
int object_client_new(const struct object_settings *settings, const char *bucket,
                      const atomic_bool *stop, struct object_client **ret_client,
                      struct error *error) CHECK_RESULT;
void object_client_free(struct object_client *client);
const char *object_client_where(const struct object_client *client); /* "s3://bucket" */

/**
 * object_request() - send it and wait for the answer
 *
 * Return: 0 for 2xx; the errors of object.h. *ret_answer is the caller's (object_answer_done()) in
 * either case.
 */
int object_request(struct object_client *client, const struct object_request *request,
                   struct object_answer *ret_answer, struct error *error) CHECK_RESULT;
void object_answer_done(struct object_answer *answer);

/** object_encode() - append @text as it stands in a path or, with @slashes false, in a query */
int object_encode(struct bytes *to, const char *text, bool slashes) CHECK_RESULT;
