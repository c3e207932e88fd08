/* Check the ports on which workers will listen: a conflict with another program shows when
 * firnd starts, not when a job does. */
#pragma once

#include "base/error.h"
#include "daemon/config/config.h"

/**
 * link_ports_check() - check that workers of these slots can listen
 *
 * Skip a slot with a worker's socket in run_dir: a worker of the earlier firnd has the port, and
 * will be adopted. (It closes the port before it removes the socket.)
 *
 * Return: 0; -EADDRINUSE, -EADDRNOTAVAIL, ... with the key to change in @error.
 */
int link_ports_check(const struct config *config, unsigned slot_count,
                     struct error *error) CHECK_RESULT;
