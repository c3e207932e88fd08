#include "daemon/config/node_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_MAX 65535

static int take_four(const char *text, unsigned port, struct node_address *ret_address)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
        return -EINVAL;
    if (address.sin_addr.s_addr == htonl(INADDR_ANY))
        return -EADDRNOTAVAIL;
    *ret_address = (struct node_address){.size_bytes = sizeof(address)};
    memcpy(&ret_address->socket, &address, sizeof(address));
    return 0;
}

static int take_six(const char *text, unsigned port, struct node_address *ret_address)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};

    if (inet_pton(AF_INET6, text, &address.sin6_addr) != 1)
        return -EINVAL;
    if (IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr))
        return -EADDRNOTAVAIL;
    *ret_address = (struct node_address){.size_bytes = sizeof(address)};
    memcpy(&ret_address->socket, &address, sizeof(address));
    return 0;
}

int node_address_host(const char *text, unsigned port, struct node_address *ret_address)
{
    char host[INET6_ADDRSTRLEN];
    size_t length = strlen(text);

    if (text[0] != '[')
        return take_four(text, port, ret_address);
    if (length < 3 || length - 2 >= sizeof(host) || text[length - 1] != ']')
        return -EINVAL;
    snprintf(host, sizeof(host), "%.*s", (int)length - 2, text + 1);
    return take_six(host, port, ret_address);
}

int node_address_http(const char *text, struct node_address *ret_address)
{
    char host[INET6_ADDRSTRLEN + 2]; /* with its brackets */
    const char *colon = strrchr(text, ':');
    char *end;

    if (!colon || colon[1] < '0' || colon[1] > '9' || (size_t)(colon - text) >= sizeof(host))
        return -EINVAL;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end || port == 0 || port > PORT_MAX)
        return -EINVAL;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
    return node_address_host(host, (unsigned)port, ret_address);
}
