#include "elastic/recovery/holdings.h"

#include <string.h>

/* A unit's role in a worker: absent, of its stage, a copy of another stage, or a leftover. */
enum holding { NOT_HELD, OF_STAGE, SHADOW, LEFTOVER };

/* Add a contiguous range of held units; shadows of a stage are marked, leftovers are not. */
static void add_range(struct worker_report *report, unsigned first, unsigned count, bool shadows)
{
    if (report->held_unit_count == 0) {
        report->held_first_unit = first;
        report->held_unit_count = count;
    } else if (!shadows && report->old_unit_count == 0) {
        report->old_first_unit = first;
        report->old_unit_count = count;
    } else if (report->extra_count < REPORT_EXTRAS_MAX) {
        report->extras[report->extra_count++] = (struct report_extra){first, count, shadows};
    }
}

static enum holding holding_of(const bool *held, const struct plan *plan, unsigned rank,
                               unsigned unit)
{
    if (!held[unit])
        return NOT_HELD;
    if (!plan)
        return LEFTOVER;
    const unsigned *stage = &plan->layout.stage_first_unit[rank % plan->layout.stage_count];
    if (unit >= stage[0] && unit < stage[1])
        return OF_STAGE;
    return plan_layout_keeps(&plan->layout, rank, unit) ? SHADOW : LEFTOVER;
}

/* Add the worker's stage, which `holds` of the report covers. */
static void add_stage(const struct plan_layout *layout, unsigned rank, struct worker_report *report)
{
    const unsigned *stage = &layout->stage_first_unit[rank % layout->stage_count];
    add_range(report, stage[0], stage[1] - stage[0], false);
}

static bool holds_stage(const bool *held, const struct plan_layout *layout, unsigned rank)
{
    const unsigned *stage = &layout->stage_first_unit[rank % layout->stage_count];
    unsigned unit = stage[0];
    while (unit < stage[1] && held[unit])
        unit++;
    return unit == stage[1];
}

void holdings_describe(const bool *held, unsigned unit_count, const struct plan *plan,
                       unsigned rank, struct worker_report *report)
{
    unsigned end;
    if (plan && !holds_stage(held, &plan->layout, rank))
        plan = NULL; /* the links broke before the whole stage had arrived */
    if (plan)
        add_stage(&plan->layout, rank, report);
    for (unsigned unit = 0; unit < unit_count; unit = end) {
        enum holding holding = holding_of(held, plan, rank, unit);
        for (end = unit + 1; end < unit_count; end++)
            if (holding_of(held, plan, rank, end) != holding)
                break;
        if (holding == SHADOW || holding == LEFTOVER)
            add_range(report, unit, end - unit, holding == SHADOW);
    }
}

unsigned holdings_lacking(const bool *held, unsigned unit_count, const struct plan *plan,
                          unsigned rank)
{
    bool there[STEP_RECORD_UNITS_MAX];
    assert(unit_count <= STEP_RECORD_UNITS_MAX);
    if (plan->start.source != PLAN_SOURCE_MEMORY)
        return unit_count;
    memcpy(there, held, unit_count * sizeof(*there));
    for (unsigned i = 0; i < plan->start.move_count; i++)
        if (plan->start.moves[i].to_rank == rank && plan->start.moves[i].unit < unit_count)
            there[plan->start.moves[i].unit] = true;
    unsigned unit = 0;
    while (unit < unit_count && (there[unit] || !plan_layout_keeps(&plan->layout, rank, unit)))
        unit++;
    return unit;
}
