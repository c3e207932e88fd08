/*
 * Messages of words up and down the tree of a plan's ranks, for questions that the whole generation
 * answers before any rank continues.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/words.h"
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

void tree_exchange_init(struct tree_exchange *place, struct mesh *mesh,
                        const struct plan_layout *layout, unsigned rank, enum tag_kind kind,
                        uint64_t step);

/** tree_exchange_send() - send a message of words (base/words.h); @index, below
 * TREE_EXCHANGE_INDEX_MAX, distinguishes the messages of one question. 0; -ECONNRESET, -ETIMEDOUT
 * (the mesh failed); -ENOMEM */
#define TREE_EXCHANGE_INDEX_MAX 256
int tree_exchange_send(const struct tree_exchange *place, unsigned peer, unsigned index,
                       const struct bytes *message) CHECK_RESULT;

/** tree_exchange_receive() - receive a message of at most @count_max words; *ret_message is
 * malloc'ed, and @ret_words reads it. Errors as tree_exchange_send(), and -EBADMSG: too many words,
 * or not whole ones */
int tree_exchange_receive(const struct tree_exchange *place, unsigned peer, unsigned index,
                          size_t count_max, void **ret_message,
                          struct words_reader *ret_words) CHECK_RESULT;

/**
 * tree_exchange_await_all() - wait until all ranks know the outcome: one message up the tree, one
 * down
 *
 * All ranks call it when each has the outcome and a rank is about to leave because of it. A link
 * that breaks now only ends the wait.
 */
void tree_exchange_await_all(const struct tree_exchange *place);
