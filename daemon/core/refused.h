/*
 * Checkpoints that a leader no longer plans with, because they turned out damaged: found by itself
 * when it opened one, or by a worker that read one whole.
 *
 * What is refused is a record, by its mod revision, not a step: a run that has gone back to an
 * older checkpoint writes the later ones again, records them anew, and may go on from them.
 * Damage is noted in the record, too (daemon/leader/leading.c), for everybody and for the next
 * leader; what was merely out of reach for too long the next leader finds out for itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"

#define REFUSED_MAX 64 /* the oldest is forgotten */

#define REFUSED_UNASKED_SIZE 512
#define REFUSED_DAMAGE_SIZE  320

struct refused_checkpoint {
    int64_t revision;
    char unasked[REFUSED_UNASKED_SIZE]; /* as copies_unasked(); "": nobody else may have it */
    char damage[REFUSED_DAMAGE_SIZE];   /* "": it is refused for another cause */
};

struct refused_checkpoints {
    struct refused_checkpoint list[REFUSED_MAX];
    unsigned count, next;
};

/** refused_add() - the record with this mod revision, or what is known of it
 * @unasked: nodes that were away, and may have what the others do not: it is refused until one of
 * them is back; "": for good */
void refused_add(struct refused_checkpoints *refused, int64_t revision, const char *unasked);
/** refused_add_damaged() - for good, because it is damaged: @why, for its record */
void refused_add_damaged(struct refused_checkpoints *refused, int64_t revision, const char *why);
/** refused_damage() - why it was refused so; NULL: it was not (@refused may be NULL) */
const char *refused_damage(const struct refused_checkpoints *refused, int64_t revision);
/** refused_unasked() - NULL: it is not refused (@refused may be NULL: nothing is) */
const char *refused_unasked(const struct refused_checkpoints *refused, int64_t revision);

/**
 * refused_witness() - a worker of @plan, which restores from a checkpoint, that has found it lost
 * Return: its report, of the generation of @plan; NULL: nobody has said so
 */
const struct worker_report *refused_witness(const struct plan *plan,
                                            const struct node_report *const *reports,
                                            unsigned report_count);
