/*
 * Whether a planned change takes effect within the step that is being computed, or at its boundary.
 *
 * Sums of gradients stay with the worker that has them, so a change within a step loses nothing as
 * long as every worker keeps its stage: replicas are added, and none is taken away. It is worth it
 * where the rest of the step becomes shorter by more than the switch costs. Other changes wait for
 * the boundary.
 */
#pragma once

#include <stdbool.h>

#include "elastic/plan/plan.h"

/* Below this gain a change waits: a switch costs links, an engine and a wait for the slowest. */
#define EARLY_SWITCH_GAIN_SECONDS 0.5

/** early_switch_keeps_sums() - true if every worker of @plan has the same stage in @next */
bool early_switch_keeps_sums(const struct plan *plan, const struct plan *next);

/**
 * early_switch_pays() - true if @next, which all workers of @plan know, begins at once
 * @left_seconds: of the step under @plan
 * @pause_seconds: what a switch takes, as measured; 0: not known
 */
bool early_switch_pays(const struct plan *plan, const struct plan *next, double left_seconds,
                       double pause_seconds);
