/* The vote on the training data (protocol/data_vote.h), over the links of a new generation. */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "comm/mesh/mesh.h"
#include "elastic/plan/plan_layout.h"

/**
 * data_agreement_run() - run one vote among the workers of @layout
 * @digest: of this rank's data, not 0; @known: of the data behind its state; 0: trained on none
 *
 * Return: 0: all continue with @digest; -EILSEQ: this rank must leave, with the reason in @error;
 * -ECONNRESET, -ETIMEDOUT (the mesh failed); -EBADMSG; -ENOMEM
 */
int data_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       uint64_t digest, uint64_t known, struct error *error) CHECK_RESULT;
