/*
 * Run many nodes in one process: the real firnd (registration, election, watch, mirror, jobs,
 * agent, leader), each on its own event loop as in a separate process, with paper workers
 * (bench/lib/paper_worker.h) and no HTTP.
 *
 * The benchmark forks each process of nodes. A gate (a pipe) starts all nodes at once. Each process
 * publishes its progress in shared memory.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MANY_CLUSTER "bench"

/* Shared memory with the benchmark. Only the nodes' process writes it, except the last two members.
 */
struct many_state {
    _Atomic unsigned registered, following; /* nodes; following: the node knows a leader */
    _Atomic unsigned leads;
    _Atomic unsigned running; /* paper workers that are in `generation` */
    _Atomic uint64_t generation;
    _Atomic uint64_t fail_generation; /* in which the first follower's worker dies */
    _Atomic bool resigned; /* set by the benchmark: none of these nodes stands for leader */
};

struct many_options {
    const char *endpoints;
    const char *folder;    /* for the files of the nodes */
    unsigned first, count; /* nodes n<first> ... */
    int gate;              /* readable when all may start */
    int news;              /* eventfd: written when the state has changed */
};

/** many_nodes_run() - run the nodes in the child until the gate's writer has gone; return the exit
 * status */
int many_nodes_run(const struct many_options *options, struct many_state *state);
