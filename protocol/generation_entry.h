/*
 * The entry of a worker into the generation of a plan. Decide whether its held step is applied,
 * whether its state is kept, whether it takes part, and whether another plan may replace its wait
 * for links.
 *
 * A plan after a failure names one step boundary: state of another boundary must not be mixed into
 * it. If the plan does not name this process (instance), it does not count on the state of this
 * process, and other workers hand over all units.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/plan/plan.h"

/* The state that a worker brings along. */
struct generation_entry {
    uint64_t applied_step;
    bool holds;     /* the reduced gradients of the step after it */
    bool has_state; /* of at least one unit */
};

/** generation_entry_applies() - return whether the step that the worker holds stands: the worker
 * applies the plan's commit before its state is counted */
bool generation_entry_applies(const struct generation_entry *entry, const struct plan *plan);

enum generation_entry_state {
    GENERATION_ENTRY_KEEPS,   /* the state is at the plan's boundary, or none is needed */
    GENERATION_ENTRY_DROPS,   /* the state is at another boundary, and the plan does not count on
                                 it */
    GENERATION_ENTRY_REFUSES, /* the state is at another boundary, and the plan counts on it: the
                                 plan fails */
};
/** generation_entry_state() - decide about the state of the worker on @rank */
enum generation_entry_state generation_entry_state(const struct generation_entry *entry,
                                                   const struct plan *plan, unsigned rank);

/** generation_entry_steps_aside() - return whether a worker without a rank in @plan keeps its state
 * until the generation has begun, because the plan continues from this very state */
bool generation_entry_steps_aside(const struct generation_entry *entry, const struct plan *plan);

/** generation_entry_is_newcomer() - return whether the worker on @rank joins a change while the
 * others still train */
bool generation_entry_is_newcomer(const struct plan *plan, unsigned rank);

#define GENERATION_ENTRY_NO_LIMIT UINT64_MAX

/**
 * generation_entry_links_ns() - return how long a worker waits for the links of a generation
 * @named: the plan that names the links: @plan, or one that ends it with a checkpoint
 * @start_ns: the longest start of @plan (elastic/planner/start_time.h)
 * @turn_ns: the longest time of one operation, its wait included, in the step that was left for the
 * change; 0: none was left
 *
 * Workers that leave a step for a change end their operations first, which take different times. A
 * newcomer waits for them without a limit (comm/mesh/mesh.h, joins_later), and for other newcomers
 * from then on. A worker that reads its state has no limit: the disk of another may be slower.
 */
uint64_t generation_entry_links_ns(const struct plan *plan, const struct plan *named,
                                   uint64_t start_ns, uint64_t turn_ns);

/** generation_entry_is_replaced() - return whether @pending, which may be NULL, replaces the plan
 * of @generation, whose links are not up: for a newcomer any plan, because no other worker waits
 * for it; for the others a plan after a failure, or one that revokes the generation */
bool generation_entry_is_replaced(const struct plan *pending, uint64_t generation, bool newcomer);
