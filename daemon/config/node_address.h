/*
 * Parse the address at which other nodes reach this node. The address must be numeric, so that no
 * node waits for a name server. It must not be a wildcard (0.0.0.0, [::]): it is advertised to
 * other nodes, and a wildcard would lead each of them to itself.
 */
#pragma once

#include <sys/socket.h>

#include "base/compiler.h"

struct node_address {
    struct sockaddr_storage socket;
    socklen_t size_bytes;
};

/**
 * node_address_host() - combine a host such as "10.0.0.1" or "[fd00::1]" with @port
 *
 * Return: 0; -EINVAL; -EADDRNOTAVAIL (wildcard address).
 */
int node_address_host(const char *text, unsigned port,
                      struct node_address *ret_address) CHECK_RESULT;
/** node_address_http() - parse "10.0.0.1:7580" or "[fd00::1]:7580". Return: as above */
int node_address_http(const char *text, struct node_address *ret_address) CHECK_RESULT;
