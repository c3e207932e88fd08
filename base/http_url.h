/*
 * How a node's HTTP is reached: "10.0.0.1:7580" in plain, "https://10.0.0.1:7580" over TLS. Nodes
 * say so in their records, and plans and files hand it on.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#define HTTP_URL_TLS "https://"
/* The environment's name for the file of certificate authorities that sign nodes' certificates;
 * firnd and firnctl set it for themselves and for the workers that they start. */
#define HTTP_AUTHORITIES "FIRN_AUTHORITIES"

/** http_url_scheme() - what stands before @address in a URL */
static inline const char *http_url_scheme(const char *address)
{
    return strncmp(address, HTTP_URL_TLS, strlen(HTTP_URL_TLS)) == 0 ? "" : "http://";
}

/** http_url_authorities() - the file that nodes' certificates are checked with; NULL: the system's
 */
static inline const char *http_url_authorities(void)
{
    const char *path = getenv(HTTP_AUTHORITIES);

    return path && path[0] != '\0' ? path : NULL;
}
