/*
 * Where others reach this node, as its configuration says: numeric, so that nobody waits for a name
 * server, and never "all addresses" (0.0.0.0, [::]), because it is told to others, who would reach
 * themselves by it.
 */
#pragma once

#include <sys/socket.h>

#include "base/compiler.h"

struct node_address {
    struct sockaddr_storage socket;
    socklen_t size_bytes;
};

/**
 * node_address_host() - a port of "10.0.0.1" or "[fd00::1]"
 *
 * Return: 0; -EINVAL; -EADDRNOTAVAIL (all addresses).
 */
int node_address_host(const char *text, unsigned port,
                      struct node_address *ret_address) CHECK_RESULT;
/** node_address_http() - "10.0.0.1:7580" or "[fd00::1]:7580". Return: as above */
int node_address_http(const char *text, struct node_address *ret_address) CHECK_RESULT;
