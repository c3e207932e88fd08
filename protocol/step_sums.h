/*
 * The sums of gradients with which one rank can go on when a generation begins within a step: its
 * own, and those that other ranks offer.
 *
 * Problem: sums are of no use where their worker leaves or its stage changes, or where the rest of
 * their replica does. Sums of one lane are complete only over all trained units.
 *
 * Design: the plan pairs ranks that have sums with ranks that need them
 * (elastic/recovery/sum_moves.h). When the generation begins, the first of each pair offers its
 * sums to the second; an offer may be empty. The second states facts about its own and the offered
 * sums together (protocol/step_division.h). Once the step is divided, it asks for the offered sums
 * that it goes on with, and the first sends these. A worker that leaves is free when all that was
 * asked for has arrived.
 *
 * Invariant: a choice under a division has at least the micro-batches that the facts claimed for
 * each lane with which its replica goes on. Spans of one unit are nodes of one tree: where the
 * largest chosen span of a lane is owned, so is every smaller one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/words.h"
#include "comm/lanes/lane_tree.h"
#include "protocol/step_division.h"

#define STEP_SUMS_UNIT_MAX 64 /* sums of one unit that are chosen */

/* One sum of one unit. */
struct step_sum {
    unsigned unit, source;      /* source: the rank that has it */
    struct lane_tree_span span; /* a subtree of finished lanes, or one lane in progress */
    unsigned micro_batches;     /* of each lane of the span */
    bool offered;               /* by another rank, or a copy */
    bool copied;                /* this rank's copy of another one's (sum_copies.h); also offered */
    bool chosen;                /* by step_sums_choose() */
};

/* The losses of one lane, on the last stage. */
struct step_losses {
    unsigned count; /* micro-batches in `training` */
    double training, validation;
};

struct step_sums {
    struct step_sum *list; /* owned */
    unsigned count, room;
    struct step_losses *losses; /* (lanes,), owned; NULL: none */
};

void step_sums_done(struct step_sums *sums);
/** step_sums_add() - append a sum. -ENOMEM */
int step_sums_add(struct step_sums *sums, const struct step_sum *sum) CHECK_RESULT;

/** step_sums_make_losses() - begin without losses: of no micro-batch, validation unknown. -ENOMEM
 */
int step_sums_make_losses(struct step_sums *sums, unsigned lanes) CHECK_RESULT;

/** step_sums_merge_losses() - take the losses of @other that @sums lacks; both have some */
void step_sums_merge_losses(struct step_sums *sums, const struct step_sums *other, unsigned lanes);

/** step_sums_pack() - append all sums and losses to a message. 0, -ENOMEM */
int step_sums_pack(const struct step_sums *sums, unsigned lanes,
                   struct words_writer *writer) CHECK_RESULT;
/**
 * step_sums_unpack() - add the sums and the losses of a message from @source to @sums
 * @units: of the model
 *
 * Losses are merged as by step_sums_merge_losses(). Return: 0; -EBADMSG; -ENOMEM
 */
int step_sums_unpack(struct words_reader *reader, unsigned lanes, unsigned micro_batches,
                     unsigned units, unsigned source, struct step_sums *sums) CHECK_RESULT;

/**
 * step_sums_choose() - choose for each unit sums without common lanes: those with more
 * micro-batches first, then larger spans, then own ones. Sorts the list
 * @division: only sums with which @replica goes on; NULL: any
 */
void step_sums_choose(struct step_sums *sums, const struct step_division *division,
                      unsigned replica);

/* The stage about which facts are stated. */
struct step_sums_stage {
    unsigned first_unit, end_unit; /* trained units */
    bool last;                     /* it has losses */
};

/** step_sums_facts() - choose any sums, and describe them to the other ranks; nothing where there
 * are neither sums nor losses. -ENOMEM */
int step_sums_facts(struct step_sums *sums, const struct step_sums_stage *stage, unsigned lanes,
                    unsigned micro_batches, struct step_facts *ret_facts) CHECK_RESULT;

/** step_sums_suffice() - return whether the chosen sums have what @division counts on for
 * @replica's lanes */
bool step_sums_suffice(const struct step_sums *sums, const struct step_sums_stage *stage,
                       const struct step_division *division, unsigned replica);

/** step_sums_chosen() - return how many chosen sums are from @source */
unsigned step_sums_chosen(const struct step_sums *sums, unsigned source);
