/*
 * Messages of words up and down the tree of a plan's ranks, for questions that the whole generation
 * answers before any rank continues.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "comm/mesh/mesh.h"
#include "elastic/plan/plan_layout.h"
#include "worker/device/tags.h"

/* One rank's place in the tree. */
struct tree_exchange {
    struct mesh *mesh;
    enum tag_kind kind; /* of the question */
    uint64_t step;
    unsigned rank, parent, first_child, child_count; /* parent: not of rank 0 */
};

void tree_exchange_init(struct tree_exchange *exchange, struct mesh *mesh,
                        const struct plan_layout *layout, unsigned rank, enum tag_kind kind,
                        uint64_t step);

/**
 * tree_exchange_send(), tree_exchange_receive() - move @count words, little-endian; @index, below
 * TREE_EXCHANGE_INDEX_MAX, distinguishes the messages of one question
 *
 * Return: 0; -ECONNRESET, -ETIMEDOUT (the mesh failed); -EBADMSG (another count of words); -ENOMEM
 */
#define TREE_EXCHANGE_INDEX_MAX 256
int tree_exchange_send(const struct tree_exchange *exchange, unsigned peer, unsigned index,
                       const uint64_t *words, size_t count) CHECK_RESULT;
int tree_exchange_receive(const struct tree_exchange *exchange, unsigned peer, unsigned index,
                          uint64_t *ret_words, size_t count) CHECK_RESULT;

/** tree_exchange_receive_some() - receive up to @count_max words; *ret_words is malloc'ed; errors
 * as tree_exchange_receive() */
int tree_exchange_receive_some(const struct tree_exchange *exchange, unsigned peer, unsigned index,
                               size_t count_max, uint64_t **ret_words,
                               size_t *ret_count) CHECK_RESULT;

/**
 * tree_exchange_await_all() - wait until all ranks know the outcome: one message up the tree, one
 * down
 *
 * All ranks call it when each has the outcome and a rank is about to leave because of it. A link
 * that breaks now only ends the wait.
 */
void tree_exchange_await_all(const struct tree_exchange *exchange);
