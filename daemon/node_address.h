/*
 * Where others reach this node, as its configuration says: numeric, so that nobody waits for a name
 * server, and never "all addresses" (0.0.0.0, [::]), because it is told to others, who would reach
 * themselves by it.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>

#include "base/compiler.h"

/** node_address_host() - "10.0.0.1" or "[fd00::1]"? Return: 0; -EINVAL; -EADDRNOTAVAIL (all
 * addresses) */
int node_address_host(const char *text) CHECK_RESULT;
/** node_address_http() - "10.0.0.1:7580", IPv4 only. Return: as above */
int node_address_http(const char *text, struct sockaddr_in *ret_address) CHECK_RESULT;
