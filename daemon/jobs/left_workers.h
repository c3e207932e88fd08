/*
 * Find the workers that an earlier firnd of this node started and that no firnd has taken over, by
 * their sockets: until etcd has answered, a firnd does not know their jobs.
 */
#pragma once

struct config;

/** left_workers_count() - return the number of live workers of this node */
unsigned left_workers_count(const struct config *config);

/** left_workers_kill() - kill all workers of this node */
void left_workers_kill(const struct config *config);
