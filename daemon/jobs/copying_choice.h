/*
 * Choose the checkpoint, and its writers' shares, that this node copies because copies are missing.
 * The only inputs are records and plan. No side effects.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "elastic/copies/copies.h"
#include "membership/kv/records.h"

#define COPYING_WRITERS_MAX 16 /* per task */

struct copying_task {
    struct checkpoint_record record; /* owned */
    char writers[COPYING_WRITERS_MAX][NAME_SIZE];
    unsigned writer_count;
};

/**
 * copying_choose() - choose among the newest checkpoint and the pinned ones, newest first
 * @copies: number of copies that the job wants
 * @ret_task: zeroed, or from an earlier call; the caller frees its record after any result
 *
 * Other checkpoints are skipped because they expire soon. Return: whether @node has copies to make.
 */
bool copying_choose(const struct mirror *mirror, const char *cluster, const char *job,
                    const struct plan *plan, unsigned copies, const char *node,
                    struct copying_task *ret_task);
