/*
 * Tied embeddings across stages: the token table's gradient is embedding's + head's, added in that
 * order on both sides, so the two copies take the same optimizer step (model/net/unit.h).
 *
 * Where both units are on one worker the sum is local; else the first and the last stage of a
 * replica exchange their reduced gradients. Ends when freezing unties them.
 */
#pragma once

#include "worker/step/engine.h"

struct tie; /* one stage's part in it */

/** tie_new() - NULL into *ret_tie when this stage has no tied table; the engine's gradients and
 * departures are there. -ENOMEM */
int tie_new(struct engine *engine, struct tie **ret_tie) CHECK_RESULT;
void tie_free(struct tie *tie); /* NULL allowed */
/** tie_exchange() - make both reduced gradients the sum; 0 (also without a tie), -ECONNRESET,
 * -ETIMEDOUT */
int tie_exchange(struct tie *tie) CHECK_RESULT;
