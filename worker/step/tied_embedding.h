/*
 * Tied embeddings across stages: the token table's gradient is embedding's + head's, added in that
 * order on both sides, so the two copies take the same optimizer step (model/net/unit.h).
 *
 * If both units are on one worker, the sum is local. Otherwise the first and the last stage of a
 * replica exchange their reduced gradients. The exchange ends when freezing unties the tables.
 */
#pragma once

#include "worker/step/engine.h"

struct tied_embedding; /* one stage's part in the exchange */

/** tied_embedding_new() - create this stage's part; *ret_tie is NULL when the stage has no tied
 * table. The engine has its gradients and send queue. -ENOMEM */
int tied_embedding_new(struct engine *engine, struct tied_embedding **ret_tie) CHECK_RESULT;
void tied_embedding_free(struct tied_embedding *tie); /* NULL allowed */
/** tied_embedding_exchange() - replace both reduced gradients by their sum; 0 (also without a tie),
 * -ECONNRESET, -ETIMEDOUT */
int tied_embedding_exchange(struct tied_embedding *tie) CHECK_RESULT;
