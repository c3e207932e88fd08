/* The round that commits a step (protocol/step_commit.h), over the links of the generation. */
#pragma once

#include "base/compiler.h"
#include "comm/mesh/mesh.h"
#include "protocol/step_commit.h"

/* Decisions of the root; ignored elsewhere. */
struct commit_root {
    const struct plan *next; /* plan to begin after this step, if all are ready; NULL: none */
    /* Called when all ranks hold, before any rank learns of it; a negative result ends the round.
     * NULL: none */
    int (*may_commit)(void *context);
    void (*gathered)(void *context); /* all parts have arrived, or ranks differ; NULL: none */
    void *context;
};

#define COMMIT_ROUND_DISPUTED 1

/**
 * commit_round_run() - run one round among the workers of @plan
 * @closing: a round after the last step: records may be incomplete, and times are not sent
 *
 * Return: 0; COMMIT_ROUND_DISPUTED, the same at all ranks: replicas differ in @ret_down->dispute;
 * -ECONNRESET, -ETIMEDOUT (the mesh failed), the errors of may_commit(); -EILSEQ: two ranks read
 * different data (@error names their nodes); -EBADMSG; -ENOMEM
 *
 * On a negative result only @ret_down->dispute is valid: a dispute in the subtree of this rank, of
 * which not all ranks will learn.
 */
int commit_round_run(struct mesh *mesh, const struct plan *plan, unsigned rank, bool closing,
                     const struct step_commit_up *mine, const struct commit_root *root,
                     struct step_commit_down *ret_down, struct error *error) CHECK_RESULT;
