#include "daemon/node/link_ports.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/file.h"
#include "daemon/config/node_address.h"

static bool has_worker(const struct config *config, unsigned slot)
{
    char pattern[CONFIG_TEXT_SIZE + 32];
    glob_t found;

    snprintf(pattern, sizeof(pattern), "%s/workers/*.%u.sock", config->run_dir, slot);
    if (glob(pattern, GLOB_NOSORT, NULL, &found))
        return false;
    globfree(&found);
    return true;
}

/* Listen with the same options as a worker (comm/mesh/tcp.c). */
static int try_to_listen(const struct node_address *address)
{
    const int on = 1;
    AUTO_CLOSE int listener = socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
        bind(listener, (const struct sockaddr *)&address->socket, address->size_bytes) ||
        listen(listener, 1))
        return -errno;
    return 0;
}

static int check_slot(const struct config *config, unsigned slot, struct error *error)
{
    unsigned port = config->link_port + slot;
    struct node_address address;
    int status = node_address_host(config->address, port, &address);

    if (!status && !has_worker(config, slot))
        status = try_to_listen(&address);
    if (status == -EADDRINUSE)
        return error_set(error, status,
                         "link_port: port %u of %s, for the links of slot %u, is taken by another "
                         "program; set link_port to the first of as many free ports as slots",
                         port, config->address, slot);
    if (status)
        return error_set(error, status, "address: cannot listen at %s:%u: %s%s", config->address,
                         port, strerror(-status),
                         status == -EADDRNOTAVAIL ? "; it must be an address of this node" : "");
    return 0;
}

int link_ports_check(const struct config *config, unsigned slot_count, struct error *error)
{
    int status = 0;

    for (unsigned slot = 0; slot < slot_count && !status; slot++)
        status = check_slot(config, slot, error);
    return status;
}
