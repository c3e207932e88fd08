#include "comm/mesh/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "comm/mesh/socket_link.h"

#define BACKLOG_LONG 256u /* connections that may wait, if the queue has room for twice as many */

#define UNSENT_MAX_BYTES (512 * 1024)

/* Split "host:port" or "[host]:port" and let the resolver read the numbers. */
static int parse_address(const char *address, bool passive, struct addrinfo **ret_info)
{
    char host[ADDRESS_SIZE];
    const char *colon = strrchr(address, ':');
    if (!colon || (size_t)(colon - address) >= sizeof(host))
        return -EINVAL;
    const char *begin = address, *end = colon;
    if (*begin == '[') {
        if (end - begin < 2 || end[-1] != ']')
            return -EINVAL;
        begin++;
        end--;
    }
    if (begin == end)
        return -EINVAL;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';

    struct addrinfo hints = {
        .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
        .ai_socktype = SOCK_STREAM,
    };
    int status = getaddrinfo(host, colon + 1, &hints, ret_info);
    if (status == EAI_MEMORY)
        return -ENOMEM;
    return status == 0 ? 0 : -EINVAL;
}

int tcp_address_valid(const char *address, struct error *error)
{
    struct addrinfo *info;
    int status = parse_address(address, false, &info);
    if (status < 0)
        return error_set(error, status, "'%s' is not a numeric host:port", address);
    freeaddrinfo(info);
    return 0;
}

int tcp_listen(const char *address, int *ret_listener, struct error *error)
{
    struct addrinfo *info;
    int status = parse_address(address, true, &info);
    if (status < 0)
        return error_set(error, status, "cannot listen on '%s': not a numeric host:port", address);
    const int on = 1;
    int listener =
        socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(listener, info->ai_addr, info->ai_addrlen) < 0 || listen(listener, SOMAXCONN) < 0) {
        status = -errno;
        if (listener >= 0)
            close(listener);
        freeaddrinfo(info);
        return error_set(error, status, "cannot listen on %s: %s", address, strerror(-status));
    }
    freeaddrinfo(info);
    *ret_listener = listener;
    return 0;
}

int tcp_local_address(int descriptor, char ret_address[ADDRESS_SIZE])
{
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof(bound);
    char host[INET6_ADDRSTRLEN], port[8], text[INET6_ADDRSTRLEN + 16];
    if (getsockname(descriptor, (struct sockaddr *)&bound, &size) < 0)
        return -errno;
    if (getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return -EINVAL;
    int length =
        snprintf(text, sizeof(text), bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    if (length < 0 || length >= ADDRESS_SIZE)
        return -ENAMETOOLONG;
    memcpy(ret_address, text, (size_t)length + 1);
    return 0;
}

static void tcp_set_timeout(struct link *link, uint64_t timeout_ns)
{
    unsigned timeout_ms = (unsigned)MIN(timeout_ns / NS_PER_MS + 1, (uint64_t)1 << 30);
    setsockopt(link->descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static const struct link_operations operations = {
    .connected = socket_link_connected,
    .send = socket_link_send,
    .receive = socket_link_receive,
    .set_timeout = tcp_set_timeout,
    .finish = socket_link_finish,
    .free = socket_link_free,
};

/* Make a link; takes the descriptor in every case. */
static int link_new(int descriptor, struct link **ret_link)
{
    const int on = 1, unsent_max = UNSENT_MAX_BYTES;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_max, sizeof(unsent_max));
    return socket_link_new(descriptor, &operations, ret_link);
}

static struct tcp_host host_of(const struct sockaddr *socket)
{
    struct tcp_host host = {0};
    if (socket->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, socket, sizeof(four));
        host.bytes[10] = host.bytes[11] = 0xff;
        memcpy(host.bytes + 12, &four.sin_addr, sizeof(four.sin_addr));
    } else if (socket->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, socket, sizeof(six));
        memcpy(host.bytes, &six.sin6_addr, sizeof(six.sin6_addr));
    }
    return host;
}

static bool is_loopback(const struct tcp_host *host)
{
    struct in6_addr six;
    memcpy(&six, host->bytes, sizeof(six));
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && host->bytes[12] == 127);
}

static bool is_four(const struct tcp_host *host)
{
    struct in6_addr six;
    memcpy(&six, host->bytes, sizeof(six));
    return IN6_IS_ADDR_V4MAPPED(&six);
}

/* Write @host with port 0 as an address of @family. Return: its size; 0: it has none there. */
static socklen_t source_of(const struct tcp_host *host, int family, uint32_t scope,
                           struct sockaddr_storage *ret_source)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_scope_id = scope};

    if (family == AF_INET && !is_four(host))
        return 0;
    memcpy(&four.sin_addr, host->bytes + 12, sizeof(four.sin_addr));
    memcpy(&six.sin6_addr, host->bytes, sizeof(six.sin6_addr));
    if (family == AF_INET)
        memcpy(ret_source, &four, sizeof(four));
    else
        memcpy(ret_source, &six, sizeof(six));
    return family == AF_INET ? sizeof(four) : sizeof(six);
}

/* If the bind fails, the kernel chooses the source address, which the other side may refuse. */
static void bind_beside(int descriptor, int listener, const struct addrinfo *to)
{
    struct sockaddr_storage from = {0}, source = {0};
    socklen_t size = sizeof(from);
    const int on = 1;
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&from, &size) < 0)
        return;
    struct tcp_host own = host_of((struct sockaddr *)&from), other = host_of(to->ai_addr);
    uint32_t scope = 0;
    if (from.ss_family == AF_INET6)
        scope = ((struct sockaddr_in6 *)&from)->sin6_scope_id;
    if (is_four(&own) != is_four(&other) || (is_loopback(&own) && !is_loopback(&other)))
        return;
    size = source_of(&own, to->ai_family, scope, &source);
    if (size == 0)
        return;
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    int ignored = bind(descriptor, (struct sockaddr *)&source, size);
    (void)ignored;
}

int tcp_connect(const char *address, int listener, struct link **ret_link)
{
    struct addrinfo *info;
    int status = parse_address(address, false, &info);
    if (status < 0)
        return status;
    int descriptor =
        socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol);
    if (descriptor >= 0)
        bind_beside(descriptor, listener, info);
    if (descriptor < 0) {
        status = -errno;
    } else if (connect(descriptor, info->ai_addr, info->ai_addrlen) < 0 && errno != EINPROGRESS &&
               errno != EINTR) {
        status = -errno;
        close(descriptor);
    }
    freeaddrinfo(info);
    return status < 0 ? status : link_new(descriptor, ret_link);
}

int tcp_accept(int listener, struct link **ret_link)
{
    int descriptor = socket_link_accept(listener);
    return descriptor < 0 ? descriptor : link_new(descriptor, ret_link);
}

/* ---- connections that wait ---- */

bool tcp_host_equal(const struct tcp_host *one, const struct tcp_host *other)
{
    return memcmp(one->bytes, other->bytes, sizeof(one->bytes)) == 0;
}

struct tcp_host tcp_host_of(const char *address)
{
    struct addrinfo *info;
    if (parse_address(address, false, &info) < 0)
        return (struct tcp_host){0};
    struct tcp_host host = host_of(info->ai_addr);
    freeaddrinfo(info);
    return host;
}

struct tcp_host tcp_host_of_peer(const struct link *link)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);
    if (getpeername(link->descriptor, (struct sockaddr *)&peer, &size) < 0)
        return (struct tcp_host){0};
    return host_of((struct sockaddr *)&peer);
}

void tcp_host_text(const struct tcp_host *host, char ret_text[TCP_HOST_TEXT_SIZE])
{
    bool four = is_four(host);
    if (!inet_ntop(four ? AF_INET : AF_INET6, host->bytes + (four ? 12 : 0), ret_text,
                   TCP_HOST_TEXT_SIZE))
        ret_text[0] = '\0';
}

/* @ret_room: the kernel's limit of the backlog, 128 on some systems */
static unsigned count_waiting(int listener, unsigned *ret_room)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    *ret_room = 0;
    if (getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return 0;
    *ret_room = info.tcpi_sacked; /* for a listener: the limit of its backlog, */
    return info.tcpi_unacked;     /* and its length */
}

unsigned tcp_waiting(int listener)
{
    unsigned room;
    return count_waiting(listener, &room);
}

/* Another thread may call this at the same time, so count again each time. */
static void turn_away(int listener, unsigned until)
{
    while (tcp_waiting(listener) > until) {
        int descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0)
            return;
        close(descriptor);
    }
}

void tcp_thin(int listener)
{
    unsigned room, waiting = count_waiting(listener, &room);
    unsigned most = MIN(BACKLOG_LONG, room / 2);

    if (waiting > most)
        turn_away(listener, most / 2);
}
