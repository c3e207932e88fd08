/*
 * Decide whether a planned change takes effect within the step in progress, or at its boundary.
 *
 * Parameters do not change within a step, so state can be handed over at any micro-batch. Sums of
 * gradients stay with a replica whose workers all keep their stages, in one replica of the next
 * layout. Other replicas give them to their heirs, where the plan says so
 * (elastic/recovery/sum_moves.h). The rest is computed again. A change begins at once where the
 * rest of the step, and the part that is lost, take less time under the next layout than the rest
 * takes under this one, and where the difference pays for the switch.
 *
 * It also begins at once where the end of the step would come after the plan's limit: a node that
 * must go does not wait for a step of minutes. Where the plan only limits the patience of people, a
 * step is ended all the same if less is left of it than would be lost, and less than the limit.
 *
 * A change to an empty plan (pause, drain without other slots) gains nothing, and the step is
 * computed again after the checkpoint that ends the generation. So it begins only at the limit.
 * Within the evaluation of the finished model, which would not be run again, it begins only if
 * nodes would go before its end.
 */
#pragma once

#include <stdbool.h>

#include "elastic/plan/plan.h"

/* The step in progress, as rank 0 sees it. */
struct early_switch {
    double passed_seconds, left_seconds; /* under the plan in force */
    double pause_seconds;                /* the duration of a switch, as measured; 0: not known */
    double waited_seconds;               /* since the next plan arrived */
    double kept;   /* early_switch_kept(), once for each plan; 0: workers cannot keep sums */
    bool near_end; /* other stages may hold the step: leaving it now would lose it */
    bool ends;     /* the step is the evaluation of the finished model, which an empty plan
                      would abandon */
};

/** early_switch_gain_seconds() - return the least saving for which a change begins within a step
 * @pause_seconds: the duration of a switch; 0: not known */
double early_switch_gain_seconds(double pause_seconds);

/** early_switch_kept() - return the fraction of the step's lanes whose sums @next keeps, 0 to 1; it
 * takes time with the square of the workers, about 10 ms at 1,000 */
double early_switch_kept(const struct plan_layout *layout, const struct plan *next);

/** early_switch_begins() - true if @next, which all workers of @plan know, begins at once */
bool early_switch_begins(const struct plan *plan, const struct plan *next,
                         const struct early_switch *step);
