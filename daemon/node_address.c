#include "daemon/node_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int node_address_host(const char *text)
{
    char host[INET6_ADDRSTRLEN];
    struct in6_addr six;
    struct in_addr four;
    size_t length = strlen(text);

    if (inet_pton(AF_INET, text, &four) == 1)
        return four.s_addr == htonl(INADDR_ANY) ? -EADDRNOTAVAIL : 0;
    if (length < 3 || length >= sizeof(host) || text[0] != '[' || text[length - 1] != ']')
        return -EINVAL;
    snprintf(host, sizeof(host), "%.*s", (int)length - 2, text + 1);
    if (inet_pton(AF_INET6, host, &six) != 1)
        return -EINVAL;
    return IN6_IS_ADDR_UNSPECIFIED(&six) ? -EADDRNOTAVAIL : 0;
}

int node_address_http(const char *text, struct sockaddr_in *ret_address)
{
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    struct sockaddr_in address = {.sin_family = AF_INET};
    char *end;

    if (!colon || colon[1] < '0' || colon[1] > '9' || (size_t)(colon - text) >= sizeof(host))
        return -EINVAL;
    unsigned long port = strtoul(colon + 1, &end, 10);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
    if (*end || port == 0 || port > 65535 || inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return -EINVAL;
    address.sin_port = htons((uint16_t)port);
    *ret_address = address;
    return address.sin_addr.s_addr == htonl(INADDR_ANY) ? -EADDRNOTAVAIL : 0;
}
