/*
 * The vote on the algorithms of this worker's libraries (protocol/algorithm_vote.h), over the links
 * of a new generation, before its first step.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"
#include "comm/mesh/mesh.h"
#include "elastic/plan/plan_layout.h"

/**
 * numerics_agreement_run() - run one vote among the workers of @layout
 * @description: of kernel->describe(): lines "SHAPE: CHOICE" are compared, without text in
 *   parentheses; other lines, and that of the device, are not
 * @trained: this process has trained with its choices in an earlier generation
 *
 * Return: 0: no worker of this job computes a shape of this rank otherwise; -ENOTRECOVERABLE: this
 * rank's slot, not its node, is to go out of service, and @error names the shape and its choice;
 * -ECONNRESET, -ETIMEDOUT (the mesh failed);
 * -EBADMSG; -ENOMEM
 */
int numerics_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                           const char *description, bool trained, struct error *error) CHECK_RESULT;
