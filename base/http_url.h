/*
 * HTTP addresses of nodes: "10.0.0.1:7580" without TLS, "https://10.0.0.1:7580" with TLS. Nodes
 * register the address in their records, and plans and files copy it.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#define HTTP_URL_TLS "https://"
/* Environment variable with the file of certificate authorities that sign nodes' certificates;
 * firnd and firnctl set it for themselves and for the workers that they start. */
#define HTTP_AUTHORITIES "FIRN_AUTHORITIES"

/** http_url_scheme() - return the scheme to put before @address in a URL */
static inline const char *http_url_scheme(const char *address)
{
    return strncmp(address, HTTP_URL_TLS, strlen(HTTP_URL_TLS)) == 0 ? "" : "http://";
}

/**
 * http_url_authorities() - return the file of certificate authorities for nodes' certificates;
 * NULL: the system's
 */
static inline const char *http_url_authorities(void)
{
    const char *path = getenv(HTTP_AUTHORITIES);

    return path && path[0] != '\0' ? path : NULL;
}
