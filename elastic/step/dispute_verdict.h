/*
 * Find the ranks with wrong gradients, parameters or moments when replicas disagree
 * (protocol/dispute.h). A value held by more than half of a unit's holders is right, and the
 * holders of other values are accused. If no disputed unit has such a majority, all holders of
 * disputed units are accused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "elastic/job/job_elasticity.h"

struct dispute_verdict_claim {
    unsigned rank, unit;
    uint64_t bits; /* of the square sum, or the digest */
};

struct dispute_verdict {
    bool settled;           /* at least one disputed unit has a majority */
    unsigned unit, holders; /* first disputed unit and its number of holders */
    unsigned accused_count; /* settled: the wrong ranks; else all holders of disputed units */
    unsigned accused[JOB_DEVICES_MAX]; /* ranks, ascending */
};

/**
 * dispute_verdict_judge() - decide from the claims of all ranks
 * @claims: in any order, at most one per rank and unit
 * @rank_count: at most JOB_DEVICES_MAX, above every rank
 *
 * When all claims agree no rank is accused and `settled` is false.
 * Return: 0, -ENOMEM
 */
int dispute_verdict_judge(const struct dispute_verdict_claim *claims, size_t count,
                          unsigned rank_count, struct dispute_verdict *ret_verdict) CHECK_RESULT;
