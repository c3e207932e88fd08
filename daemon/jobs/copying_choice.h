/*
 * Of which checkpoint, and of whose shares, this node makes copies that are missing: decided from
 * records and plan alone. Does nothing itself.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "elastic/copies/copies.h"
#include "membership/kv/records.h"

#define COPYING_WRITERS_MAX 16 /* in one go */

struct copying_task {
    struct checkpoint_record record; /* owned */
    char writers[COPYING_WRITERS_MAX][NAME_SIZE];
    unsigned writer_count;
};

/**
 * copying_choose() - the newest checkpoint, and after it the pinned ones, newest first
 * @copies: how many the job wants
 *
 * @ret_task: of zeros, or of an earlier choice; its record is to be freed whatever the answer
 *
 * Others go soon anyway. Return: whether there is something for @node to do.
 */
bool copying_choose(const struct mirror *mirror, const char *cluster, const char *job,
                    const struct plan *plan, unsigned copies, const char *node,
                    struct copying_task *ret_task);
