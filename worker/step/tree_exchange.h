/*
 * All workers of a plan at once: words up and down the tree of their ranks, for questions that the
 * whole generation answers before anybody goes on.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/plan/plan.h"
#include "worker/device/tags.h"

/* One rank's place in the tree. */
struct tree_exchange {
    struct mesh *mesh;
    enum tag_kind kind; /* of the question */
    uint64_t step;
    unsigned rank, parent, first_child, child_count; /* parent: not of rank 0 */
};

void tree_exchange_init(struct tree_exchange *assembly, struct mesh *mesh, const struct plan *plan,
                        unsigned rank, enum tag_kind kind, uint64_t step);

/**
 * tree_exchange_send(), tree_exchange_receive() - @count words, little-endian; @index tells the
 * messages of one question apart, below TREE_EXCHANGE_INDEX_MAX
 *
 * Return: 0; -ECONNRESET, -ETIMEDOUT (the mesh failed); -EBADMSG (not so many words); -ENOMEM
 */
#define TREE_EXCHANGE_INDEX_MAX 256
int tree_exchange_send(const struct tree_exchange *assembly, unsigned peer, unsigned index,
                       const uint64_t *words, size_t count) CHECK_RESULT;
int tree_exchange_receive(const struct tree_exchange *assembly, unsigned peer, unsigned index,
                          uint64_t *ret_words, size_t count) CHECK_RESULT;

/** tree_exchange_receive_some() - however many, at most @count_max, malloc'ed; the same errors */
int tree_exchange_receive_some(const struct tree_exchange *assembly, unsigned peer, unsigned index,
                               size_t count_max, uint64_t **ret_words,
                               size_t *ret_count) CHECK_RESULT;

/**
 * tree_exchange_await_all() - until all know the outcome: said up the tree, and down again
 *
 * To be called by all, when each has the outcome and somebody is about to go because of it. A link
 * that breaks now is no news; it ends the waiting.
 */
void tree_exchange_await_all(const struct tree_exchange *assembly);
