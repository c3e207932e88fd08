/* Looks at every copy of every file of a checkpoint whose files lie on several nodes. */
#pragma once

#include "checkpoint/read/reader.h"
#include "checkpoint/remote/remote.h"

struct copies_node {
    char name[NAME_SIZE];
    unsigned good, bad, unseen; /* files that it should have; unseen: it is away, or refuses */
    char problem[256];          /* the first */
};

struct copies_verdict {
    struct copies_node *nodes;
    unsigned node_count;
    unsigned bad, unseen; /* of all nodes; what copies made since make up for is not unseen */
    unsigned fewest;      /* good copies that the file has that has the fewest */
    unsigned lost;        /* files without a good copy, as far as was seen */
};

/**
 * checkpoint_verify_copies() - read every copy through its node, chunk by chunk, against its CRC32C
 *
 * Return: 0, whatever was found: @ret_verdict (copies_verdict_done()); -ENOMEM, -ECANCELED.
 */
int checkpoint_verify_copies(struct checkpoint_reader *reader, struct checkpoint_remote *remote,
                             void (*progress)(void *context, uint64_t done, uint64_t total),
                             void *context, struct copies_verdict *ret_verdict,
                             struct error *error) CHECK_RESULT;
void copies_verdict_done(struct copies_verdict *verdict);
