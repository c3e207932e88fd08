#include "protocol/unit_arrivals.h"

#include <assert.h>

void unit_arrivals_begin(struct unit_arrivals *arrivals, const struct plan *plan, unsigned rank,
                         const bool *held)
{
    *arrivals = (struct unit_arrivals){0};
    for (unsigned i = 0; i < plan->start.move_count; i++) {
        const struct plan_move *move = &plan->start.moves[i];
        assert(move->unit < STEP_RECORD_UNITS_MAX);
        if (move->to_rank != rank || held[move->unit])
            continue;
        arrivals->incomplete += arrivals->units[move->unit] == UNIT_HERE;
        arrivals->units[move->unit] = UNIT_MISSING;
    }
}

void unit_arrivals_parameters(struct unit_arrivals *arrivals, unsigned unit)
{
    assert(arrivals->units[unit] == UNIT_MISSING);
    arrivals->units[unit] = UNIT_HAS_PARAMETERS;
}

void unit_arrivals_whole(struct unit_arrivals *arrivals, unsigned unit)
{
    assert(arrivals->units[unit] != UNIT_HERE);
    arrivals->units[unit] = UNIT_HERE;
    arrivals->incomplete--;
}
