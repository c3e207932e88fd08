/*
 * Workers that an earlier firnd of this node started, and that no firnd has taken over: until etcd
 * has answered, a firnd does not know their jobs. They are found by their sockets.
 */
#pragma once

struct config;

/** left_workers_count() - return how many workers of this node live */
unsigned left_workers_count(const struct config *config);

/** left_workers_kill() - kill all workers of this node */
void left_workers_kill(const struct config *config);
