/*
 * Free ports of 127.0.0.1 for a local cluster: below the range that the kernel gives to outgoing
 * connections, and the same again for the same folder as long as they are free.
 */
#pragma once

#include "ctl/local/local_state.h"

/** local_ports_assign() - fill the ports of etcd and of all nodes; -EADDRINUSE when none are found
 */
int local_ports_assign(struct local_cluster *cluster, struct error *error) CHECK_RESULT;
/** local_port_free() - return whether no process listens at @port */
bool local_port_free(unsigned port);
