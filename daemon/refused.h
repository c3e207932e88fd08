/*
 * Checkpoints that a leader no longer plans with, because they turned out damaged: found by itself
 * when it opened one, or by a worker that read one whole.
 *
 * What is refused is a record, by its mod revision, not a step: a run that has gone back to an
 * older checkpoint writes the later ones again, records them anew, and may go on from them.
 * Remembered by the leader alone; the next leader finds out for itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/plan.h"
#include "elastic/report.h"

#define REFUSED_MAX 64 /* the oldest is forgotten */

struct refused_checkpoints {
    int64_t revisions[REFUSED_MAX];
    unsigned count, next;
};

/** refused_add() - of the record with this mod revision */
void refused_add(struct refused_checkpoints *refused, int64_t revision);
/** refused_has() - @refused may be NULL: nothing is */
bool refused_has(const struct refused_checkpoints *refused, int64_t revision);

/**
 * refused_witness() - a worker of @plan, which restores from a checkpoint, that has found it lost
 * Return: its report, of the generation of @plan; NULL: nobody has said so
 */
const struct worker_report *refused_witness(const struct plan *plan,
                                            const struct node_report *reports,
                                            unsigned report_count);
