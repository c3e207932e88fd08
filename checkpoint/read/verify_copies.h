/* Verify every copy of every file of a checkpoint with copies. */
#pragma once

#include "checkpoint/read/reader.h"
#include "checkpoint/remote/remote.h"

struct copies_node {
    char name[NAME_SIZE];
    /* files listed for the node; unseen: the node is away, or refuses */
    unsigned good, bad, unseen;
    char problem[256]; /* first problem */
};

struct copies_check {
    struct copies_node *nodes;
    unsigned node_count;
    /* sums over all nodes; a file that newer copies replace is not unseen */
    unsigned bad, unseen;
    unsigned fewest; /* minimum over all files of the number of good copies */
    unsigned lost;   /* files without a good copy, as far as seen */
};

/**
 * checkpoint_verify_copies() - read every copy through its node, chunk by chunk, and check the
 * CRC32C
 *
 * Return: 0 with any finding in @ret_check (copies_check_done()); -ENOMEM, -ECANCELED.
 */
int checkpoint_verify_copies(struct checkpoint_reader *reader, struct checkpoint_remote *remote,
                             void (*progress)(void *context, uint64_t done, uint64_t total),
                             void *context, struct copies_check *ret_check,
                             struct error *error) CHECK_RESULT;
void copies_check_done(struct copies_check *check);
