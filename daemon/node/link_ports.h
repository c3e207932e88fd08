/* The ports that workers will listen on: another program's are noticed when firnd starts, not when
 * a job does. */
#pragma once

#include "base/error.h"
#include "daemon/config/config.h"

/**
 * link_ports_check() - can workers of these slots listen?
 *
 * A slot with a worker's socket in run_dir is passed over: a worker of the firnd before this one
 * has the port, and is going to be taken over. (It closes the port before it removes the socket.)
 *
 * Return: 0; -EADDRINUSE, -EADDRNOTAVAIL, ... with the key to change in @error.
 */
int link_ports_check(const struct config *config, unsigned slot_count,
                     struct error *error) CHECK_RESULT;
