/*
 * Tied embeddings across stages: the token table's gradient is embedding's + head's, added in that
 * order on both sides, so the two copies take the same optimizer step (model/unit.h).
 *
 * Where both units are on one worker the sum is local; else the first and the last stage of a
 * replica exchange their reduced gradients. Ends when freezing unties them.
 */
#pragma once

#include "worker/engine.h"

/** tie_needed() - this stage has the embedding or the head, and they are tied */
bool tie_needed(const struct engine *engine);
int tie_allocate(struct engine *engine) CHECK_RESULT;
void tie_release(struct engine *engine);
/** tie_exchange() - make both reduced gradients the sum; 0, -ECONNRESET, -ETIMEDOUT */
int tie_exchange(struct engine *engine) CHECK_RESULT;
