/*
 * Tied embeddings across stages: the token table's gradient is embedding's + head's, added in that
 * order on both sides, so the two copies take the same optimizer step (model/net/unit.h).
 *
 * Where both units are on one worker the sum is local; else the first and the last stage of a
 * replica exchange their reduced gradients. Ends when freezing unties them.
 */
#pragma once

#include "worker/step/engine.h"

struct tied_embedding; /* one stage's part in it */

/** tied_embedding_new() - NULL into *ret_tie when this stage has no tied table; the engine's
 * gradients and departures are there. -ENOMEM */
int tied_embedding_new(struct engine *engine, struct tied_embedding **ret_tie) CHECK_RESULT;
void tied_embedding_free(struct tied_embedding *tie); /* NULL allowed */
/** tied_embedding_exchange() - make both reduced gradients the sum; 0 (also without a tie),
 * -ECONNRESET, -ETIMEDOUT */
int tied_embedding_exchange(struct tied_embedding *tie) CHECK_RESULT;
