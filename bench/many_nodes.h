/*
 * Many nodes in one process: the real firnd (registration, election, watch, mirror, jobs, agent,
 * leader), each on an event loop of its own as in a process of its own, with paper workers
 * (bench/paper_worker.h) and no HTTP.
 *
 * A process of nodes is forked by the benchmark and told by signals that the kernel drops no matter
 * when they come: a gate (a pipe) opens the storm; what it has reached lies in shared memory.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MANY_CLUSTER "bench"

/* Shared with the benchmark; written by the nodes' process alone, but for the two last. */
struct many_state {
    _Atomic unsigned registered, following; /* nodes; following: they know a leader */
    _Atomic unsigned leads;
    _Atomic unsigned running; /* paper workers that are in `generation` */
    _Atomic uint64_t generation;
    _Atomic uint64_t fail_generation; /* the first worker of a follower dies in that one */
    _Atomic bool resigned; /* set by the benchmark: none of these nodes stands for leader */
};

struct many_options {
    const char *endpoints;
    const char *folder;    /* for what a firnd writes */
    unsigned first, count; /* nodes n<first> ... */
    int gate;              /* readable when all may start */
    int news;              /* eventfd: written when the state has changed */
};

/** many_nodes_run() - in the child; returns the exit status when the gate's writer has gone */
int many_nodes_run(const struct many_options *options, struct many_state *state);
