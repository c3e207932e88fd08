/*
 * Checkpoints that a leader no longer plans with, because they are damaged or were unreachable for
 * too long. The leader found the damage when it opened the checkpoint, or a worker found it when it
 * read the whole checkpoint.
 *
 * An entry refers to a record by its mod revision, not to a step: a run that has gone back to an
 * older checkpoint writes the later steps again, records them anew, and may resume from them.
 * Damage is also noted in the record (daemon/leader/leading.c), for all nodes and for the next
 * leader. A checkpoint that was only unreachable is not noted: the next leader finds out for
 * itself, and this leader takes the refusal back when no other checkpoint is left.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"

#define REFUSED_MAX 64 /* beyond this the oldest is forgotten */

#define REFUSED_UNASKED_SIZE 512
#define REFUSED_DAMAGE_SIZE  320

struct refused_checkpoint {
    int64_t revision;
    char unasked[REFUSED_UNASKED_SIZE]; /* as copies_unasked(); "": no absent node can have it */
    char damage[REFUSED_DAMAGE_SIZE];   /* "": refused for another reason */
};

struct refused_checkpoints {
    struct refused_checkpoint list[REFUSED_MAX];
    unsigned count, next;
};

/** refused_add() - refuse the record with this mod revision, or update its entry
 * @unasked: absent nodes that may have the missing files: the record is refused until one of
 * them is back; "": refused for good */
void refused_add(struct refused_checkpoints *refused, int64_t revision, const char *unasked);
/** refused_add_damaged() - refuse a damaged checkpoint for good; @why is for its record */
void refused_add_damaged(struct refused_checkpoints *refused, int64_t revision, const char *why);
/** refused_take_back() - accept again the checkpoints that were refused for good without damage */
void refused_take_back(struct refused_checkpoints *refused);
/** refused_damage() - return the damage for which a record was refused; NULL: not refused for
 * damage (@refused may be NULL) */
const char *refused_damage(const struct refused_checkpoints *refused, int64_t revision);
/** refused_unasked() - return the absent nodes of a refused record; NULL: not refused (@refused
 * may be NULL: nothing is refused) */
const char *refused_unasked(const struct refused_checkpoints *refused, int64_t revision);

/**
 * refused_witness() - find a worker of @plan that has reported the plan's checkpoint lost
 * Return: its report, of the generation of @plan; NULL: no such report
 */
const struct worker_report *refused_witness(const struct plan *plan,
                                            const struct node_report *const *reports,
                                            unsigned report_count);
