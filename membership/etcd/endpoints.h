/*
 * Where etcd is, as people write it: "http://a:2379,https://[fd00::2]:2379". Spaces around each and
 * a slash at its end are forgiven; what is missing is asked for, not guessed: without a port
 * libcurl would take 80, and an etcd that is not there would seem to be down.
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

/** endpoints_parse() - @text: may be NULL. Return: 0; -EINVAL: @error says which one is wrong, and
 *  how to write it; *@ret_endpoints is undefined then */
int endpoints_parse(const char *text, struct endpoints *ret_endpoints,
                    struct error *error) CHECK_RESULT;
