/*
 * Parse the endpoints of etcd as written by a person: "http://a:2379,https://[fd00::2]:2379".
 * Spaces around each endpoint and a slash at its end are accepted. A missing port is an error, not
 * guessed: libcurl would take 80, and etcd would seem to be down.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

#define ENDPOINTS_MAX 8
#define ENDPOINT_SIZE 144

struct endpoints {
    char urls[ENDPOINTS_MAX][ENDPOINT_SIZE]; /* "http://host:port" each */
    unsigned count;                          /* at least 1 */
};

/** endpoints_parse() - parse @text, which may be NULL. Return: 0; -EINVAL: @error names the wrong
 * endpoint and the right form; *@ret_endpoints is undefined then */
int endpoints_parse(const char *text, struct endpoints *ret_endpoints,
                    struct error *error) CHECK_RESULT;
