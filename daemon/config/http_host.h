/*
 * Decide whether a request's Host header names this node.
 *
 * A web page that an operator opens may point a name of its own at this node's address, and then
 * read this node's pages as if from its own site (DNS rebinding). Such a request carries the page's
 * name. Accepted are numeric addresses, localhost, the node's name, the machine's host name and the
 * names in `http_names`.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"

#define HTTP_HOST_SIZE 256

struct http_names {
    const char *node, *host; /* the node's own names */
    const char *configured;  /* "a.example.org,.cluster.example.org"; leading dot: all subdomains */
};

/** http_names_check() - check the syntax of @configured. Return: 0; -EINVAL: it is no list of
 * names, @error quotes the bad one */
int http_names_check(const char *configured, struct error *error) CHECK_RESULT;

/**
 * http_host_check() - check a request's Host header
 * @header: the value of Host; NULL: an HTTP/1.0 client has sent none
 *
 * Return: 0; -EINVAL: malformed host or port; -EXDEV: the host is not a name of this node. @error
 * is for the client and names the key to configure.
 */
int http_host_check(const struct http_names *names, const char *header,
                    struct error *error) CHECK_RESULT;
