/*
 * Rounds along the tree of ranks: the real ones (protocol/tree_round.h), driven by events over
 * simulated links in place of worker/step/tree_exchange.c.
 */
#pragma once

#include "protocol/tree_round.h"
#include "sim/worker/sim_mesh.h"

struct sim_worker;

/* The round that a worker is in; the worker has its content. */
struct sim_tree {
    struct tree_round round;
    enum sim_tag part_tag, answer_tag;
    uint64_t step;
};

/**
 * sim_tree_run() - go on with the round of @worker for as long as nothing is waited for
 * @stop: the action before which it returns; TREE_DONE for the whole round
 *
 * Return: 0: it has come to @stop, or beyond; -EAGAIN: it waits for a message; -ECONNRESET: the
 * mesh failed; the errors of the round
 */
int sim_tree_run(struct sim_worker *worker, enum tree_action stop);
/** sim_tree_step() - carry out one action; as sim_tree_run() */
int sim_tree_step(struct sim_worker *worker);
