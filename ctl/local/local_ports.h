/*
 * Find free ports of 127.0.0.1 for a local cluster: below the range that the kernel uses for
 * outgoing connections, and the same ports for the same folder as long as they are free.
 */
#pragma once

#include "ctl/local/local_state.h"

/** local_ports_assign() - fill the ports of etcd and of all nodes. Return: 0; -EADDRINUSE */
int local_ports_assign(struct local_cluster *cluster, struct error *error) CHECK_RESULT;
/** local_port_free() - return whether no process listens at @port */
bool local_port_free(unsigned port);
