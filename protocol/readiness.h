/*
 * The ranks that have the next plan. A rank without it, because its firnd is away, cannot follow a
 * switch. So the switch waits for that rank while training continues.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/plan/plan.h"

#define READINESS_LACKING_MAX 8

struct readiness {
    uint64_t announced_min, announced_max; /* over the newest plans of the ranks that have a newer
                                              one */
    uint64_t lacking_count; /* ranks that have no newer plan; over the maximum: many */
    uint64_t lacking[READINESS_LACKING_MAX];
};

/** readiness_init() - initialize for one rank; @announced: the newest plan that it has received; 0:
 * none is newer than the plan in force */
void readiness_init(struct readiness *readiness, unsigned rank, uint64_t announced);
/** readiness_merge() - add the ranks of @part */
void readiness_merge(struct readiness *sum, const struct readiness *part);
/** readiness_is_complete() - true if every rank of @layout that @next needs has @next */
bool readiness_is_complete(const struct readiness *readiness, const struct plan_layout *layout,
                           const struct plan *next);
/** readiness_switch() - return the generation that follows @plan after this step; 0: none yet. A
 * planned change follows only the generation for which it was made: @plan may have taken over
 * since.
 * @next: the newest plan that rank 0 has; NULL: none */
uint64_t readiness_switch(const struct readiness *readiness, const struct plan *plan,
                          const struct plan *next);
