/*
 * Plan the state moves for a new layout: which worker pushes which unit's state to which worker,
 * the donors, and the metrics history for nodes without one.
 */
#pragma once

#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"

struct state_moves_range {
    unsigned first, count;
};

#define STATE_MOVES_RANGES_MAX REPORT_RANGES_MAX

/* One live process of the job, with the units that it has at the step of the switch. */
struct state_moves_holder {
    char node[NAME_SIZE];
    unsigned slot;
    char address[ADDRESS_SIZE];
    uint64_t instance;
    struct state_moves_range held[STATE_MOVES_RANGES_MAX]; /* count 0: none */
    bool avoid; /* a source only for units without another holder: its node may be gone */
};

/**
 * state_moves_fill() - fill moves, donors and histories of @plan, whose layout part is filled
 * @unit_bytes: of each unit, to balance over sources; NULL: all alike
 *
 * A worker needs its own stage and the stages that it shadows, and keeps the units of the holder
 * with its (node, slot, instance). Every other (unit, worker) gets exactly one move: from a holder
 * on the same node if there is one, else from the holder with the least bytes to push so far, else
 * from the first. Holders without a rank that push become donors. Nodes with a holder have the
 * metrics history; the others get it from the lowest rank that has it.
 *
 * Return: 0; -ENODATA when some needed unit has no holder (@error names it; @plan unchanged);
 * -ENOMEM.
 */
int state_moves_fill(struct plan *plan, const struct state_moves_holder *holders,
                     unsigned holder_count, const size_t *unit_bytes,
                     struct error *error) CHECK_RESULT;

/** state_moves_add_donors() - append @holders as donors without moves: the workers that leave by an
 * empty plan */
int state_moves_add_donors(struct plan_layout *layout, const struct state_moves_holder *holders,
                           unsigned holder_count) CHECK_RESULT;
