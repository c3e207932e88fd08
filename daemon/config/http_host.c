#include "daemon/config/http_host.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_name(const char *text, size_t length)
{
    if (length == 0 || length >= HTTP_HOST_SIZE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '.' && text[i] != '-' && text[i] != '_')
            return false;
    return true;
}

/* Return the next name of a list separated by commas; advance *at past it. */
static bool next_name(const char **at, const char **ret_name, size_t *ret_length)
{
    *at += strspn(*at, ", \t");
    *ret_name = *at;
    *ret_length = strcspn(*at, ", \t");
    *at += *ret_length;
    return *ret_length > 0;
}

int http_names_check(const char *configured, struct error *error)
{
    const char *name;
    size_t length;

    while (next_name(&configured, &name, &length))
        if (!is_name(name, length) || (length == 1 && name[0] == '.'))
            return error_set(error, -EINVAL, "\"%.*s\" is not a host name", (int)MIN(length, 64ul),
                             name);
    return 0;
}

static bool is_numeric(const char *host)
{
    struct in_addr four;

    return inet_pton(AF_INET, host, &four) == 1;
}

static bool is_bracketed(const char *host, size_t length)
{
    char inside[INET6_ADDRSTRLEN];
    struct in6_addr six;

    if (length < 3 || length - 2 >= sizeof(inside) || host[0] != '[' || host[length - 1] != ']')
        return false;
    snprintf(inside, sizeof(inside), "%.*s", (int)length - 2, host + 1);
    return inet_pton(AF_INET6, inside, &six) == 1;
}

static bool is_configured(const char *configured, const char *host, size_t host_length)
{
    const char *name;
    size_t length;

    while (next_name(&configured, &name, &length)) {
        if (name[0] == '.' && host_length > length &&
            !strncasecmp(host + host_length - length, name, length))
            return true;
        if (length == host_length && !strncasecmp(name, host, length))
            return true;
    }
    return false;
}

/* Length of the host in "host:port"; 0: the port is malformed */
static size_t host_length_of(const char *header)
{
    const char *bracket = header[0] == '[' ? strchr(header, ']') : NULL;
    const char *colon = strchr(bracket ? bracket : header, ':');

    if (!colon)
        return strlen(header);
    return colon[1 + strspn(colon + 1, "0123456789")] ? 0 : (size_t)(colon - header);
}

int http_host_check(const struct http_names *names, const char *header, struct error *error)
{
    char host[HTTP_HOST_SIZE];

    if (!header)
        return 0;
    size_t length = host_length_of(header);
    if (is_bracketed(header, length))
        return 0;
    if (length > 1 && header[length - 1] == '.') /* trailing dot of a fully qualified name */
        length--;
    if (!is_name(header, length))
        return error_set(error, -EINVAL, "the Host header is not a host name and a port");
    snprintf(host, sizeof(host), "%.*s", (int)length, header);
    if (is_numeric(host) || !strcasecmp(host, "localhost") || !strcasecmp(host, names->node) ||
        !strcasecmp(host, names->host) || is_configured(names->configured, host, length))
        return 0;
    return error_set(error, -EXDEV,
                     "\"%s\" is not a name of node %s; ask by its address, or add the name to "
                     "http_names in its firnd.yaml",
                     host, names->node);
}
