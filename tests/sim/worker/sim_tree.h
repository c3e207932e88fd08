/*
 * Rounds along the tree of ranks: the real rounds (protocol/tree_round.h), driven by events over
 * simulated links in place of worker/step/tree_exchange.c.
 */
#pragma once

#include "protocol/tree_round.h"
#include "sim/worker/sim_mesh.h"

struct sim_worker;

/* The current round of a worker; the worker has its content. */
struct sim_tree {
    struct tree_round round;
    enum sim_tag part_tag, answer_tag;
    uint64_t step;
};

/**
 * sim_tree_run() - Continue the round of @worker until it must wait
 * @stop: the action before which to return; TREE_DONE for the whole round
 *
 * Return: 0: the round has reached @stop, or is beyond; -EAGAIN: it waits for a message;
 * -ECONNRESET: the mesh failed; the errors of the round
 */
int sim_tree_run(struct sim_worker *worker, enum tree_action stop);
/** sim_tree_step() - Carry out one action; errors as of sim_tree_run() */
int sim_tree_step(struct sim_worker *worker);
