#include "ctl/local/local_ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"

#define PORT_FIRST   16000u
#define PORT_END     32000u
#define ATTEMPTS_MAX 200u

bool local_port_free(unsigned port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    AUTO_CLOSE int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1; /* as the listeners set it: ended connections do not count */

    return descriptor >= 0 &&
           !setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) &&
           !bind(descriptor, (const struct sockaddr *)&address, sizeof(address)) &&
           !listen(descriptor, 1);
}

static bool all_free(unsigned first, unsigned count)
{
    for (unsigned port = first; port < first + count; port++)
        if (!local_port_free(port))
            return false;
    return true;
}

static void assign(struct local_cluster *cluster, unsigned port)
{
    cluster->etcd_port = port++;
    cluster->etcd_peer_port = port++;
    for (unsigned i = 0; i < cluster->node_count; i++)
        cluster->nodes[i].http_port = port++;
    for (unsigned i = 0; i < cluster->node_count; i++, port += cluster->slots)
        cluster->nodes[i].link_port = port;
}

int local_ports_assign(struct local_cluster *cluster, struct error *error)
{
    unsigned count = 2 + cluster->node_count * (1 + cluster->slots);
    unsigned room = PORT_END - PORT_FIRST - count;
    uint64_t seed = hash_xxh3(cluster->dir, strlen(cluster->dir)).low;

    for (unsigned attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        unsigned first = PORT_FIRST + (unsigned)((seed + attempt * 1009ull) % room);
        if (all_free(first, count)) {
            assign(cluster, first);
            return 0;
        }
    }
    return error_set(error, -EADDRINUSE, "no %u free ports in a row between %u and %u of 127.0.0.1",
                     count, PORT_FIRST, PORT_END);
}
