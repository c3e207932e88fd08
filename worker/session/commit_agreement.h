/* The commit of a step, or a round after the last step, with the disputes that it finds. */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"
#include "worker/step/commit_round.h"

struct trainer;

/** commit_agreement_run() - run commit_round_run() with the digests of the engine, and settle a
 * dispute if replicas differ, even if the links broke before all ranks learned of it. Never returns
 * COMMIT_ROUND_DISPUTED */
int commit_agreement_run(struct trainer *trainer, bool closing, struct step_commit_up *up,
                         const struct commit_root *root, struct step_commit_down *ret_down,
                         struct error *error) CHECK_RESULT;
