/*
 * Who is wrong where replicas hold different gradients, parameters or moments
 * (worker/step/dispute.h). Of each unit the value of more than half of those who hold it is right,
 * and whoever has another one is accused; where no value of any unit in dispute has so many, all
 * who hold such a unit are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "elastic/job/job_spec.h"

struct dispute_verdict_claim {
    unsigned rank, unit;
    uint64_t bits; /* of the square sum, or the digest */
};

struct dispute_verdict {
    bool settled;           /* a majority has spoken */
    unsigned unit, holders; /* the first unit in dispute, and how many hold it */
    unsigned accused_count; /* settled: those who are wrong; else all who hold such a unit */
    unsigned accused[JOB_DEVICES_MAX]; /* ranks, ascending */
};

/**
 * dispute_verdict_judge() - from the claims of all ranks, in any order; of each rank one for a unit
 * at most
 * @rank_count: at most JOB_DEVICES_MAX, above every rank
 *
 * Where the claims agree nobody is accused, unsettled.
 * Return: 0, -ENOMEM
 */
int dispute_verdict_judge(const struct dispute_verdict_claim *claims, size_t count,
                          unsigned rank_count, struct dispute_verdict *ret_verdict) CHECK_RESULT;
