#include "membership/etcd/endpoints.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATORS ", "
#define PORT_MAX   65535

static bool port_valid(const char *text)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && port >= 1 && port <= PORT_MAX;
}

/* Check the part behind the scheme: a name or an address, a port, and nothing more. */
static int check_place(const char *url, const char *place, struct error *error)
{
    const char *host_end = place[0] == '[' ? strchr(place, ']') : strchr(place, ':');
    if (place[0] == '[' && host_end)
        host_end++;
    if (place[strcspn(place, "/?#@\t\r\n\"'\\")] != '\0' || place[0] == '\0' || host_end == place)
        return error_set(error, -EINVAL, "\"%s\" is not an etcd endpoint; write http://host:2379",
                         url);
    if (!host_end || *host_end == '\0')
        return error_set(error, -EINVAL, "\"%s\" says no port; write %s:2379", url, url);
    if (place[0] != '[' && strchr(host_end + 1, ':'))
        return error_set(error, -EINVAL,
                         "\"%s\": an IPv6 address stands in brackets; write http://[fd00::1]:2379",
                         url);
    if (*host_end != ':' || !port_valid(host_end + 1))
        return error_set(error, -EINVAL, "\"%s\": \"%s\" is not a port; write http://host:2379",
                         url, host_end + (*host_end == ':'));
    return 0;
}

static int check(const char *url, struct error *error)
{
    if (strncmp(url, "http://", 7) == 0)
        return check_place(url, url + 7, error);
    if (strncmp(url, "https://", 8) == 0)
        return check_place(url, url + 8, error);
    return error_set(error, -EINVAL,
                     "\"%s\" is not an etcd endpoint; write http://host:2379, or https:// where "
                     "etcd speaks TLS",
                     url);
}

int endpoints_parse(const char *text, struct endpoints *ret_endpoints, struct error *error)
{
    ret_endpoints->count = 0;
    while (text && *(text += strspn(text, SEPARATORS)) != '\0') {
        size_t length = strcspn(text, SEPARATORS);
        size_t url_length = text[length - 1] == '/' ? length - 1 : length;
        char *url = ret_endpoints->urls[ret_endpoints->count];
        if (ret_endpoints->count == ENDPOINTS_MAX)
            return error_set(error, -EINVAL, "more than %d etcd endpoints", ENDPOINTS_MAX);
        if (url_length >= ENDPOINT_SIZE)
            return error_set(error, -EINVAL, "an etcd endpoint is longer than %d characters",
                             ENDPOINT_SIZE - 1);
        memcpy(url, text, url_length);
        url[url_length] = '\0';
        int status = check(url, error);
        if (status < 0)
            return status;
        ret_endpoints->count++;
        text += length;
    }
    if (ret_endpoints->count == 0)
        return error_set(error, -EINVAL, "no etcd endpoint is given; write http://host:2379");
    return 0;
}
