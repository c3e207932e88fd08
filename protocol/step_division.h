/*
 * How the work of one step is divided among replicas: as the plan says, or anew when a generation
 * begins within the step.
 *
 * The plan may let two replicas share a lane (elastic/plan/plan_layout.h): one of them computes the
 * lane's head first of all, and the owner continues from its sum last of all. So the sum has as
 * long to travel as the owner needs for its other lanes, and the lane's micro-batches are added in
 * their order as ever. A replica gives one head at most, and gets one.
 *
 * Problem: the work of a step is its lanes, and the micro-batches of a lane in order. When a
 * generation ends within a step, because a worker died or the layout changes, its workers have sums
 * of finished lanes and of lanes in progress. Computing them again costs as much as the first time:
 * in a step of minutes, minutes for every failure.
 *
 * Design: the sums stay where they are, and every worker reports its sums when the next generation
 * opens. From these facts and the layout rank 0 decides, by a pure function, which replica goes on
 * with each lane, from which micro-batch, and which one owns it:
 *
 *   - A replica can continue a lane from the least count over the trained units of its stages and
 *     the loss. The replica that is furthest goes on with the lane; among several, one whose sum
 *     has more lanes, because it is dropped where they get different owners, then one with sums of
 *     its own instead of offered ones and copies.
 *   - The remaining work is dealt in proportion to the lanes that the plan gave each replica, and
 *     so to the speeds of their slots (protocol/lane_dealing.h). A lane in progress may be shared,
 *     too: the replica that has its sum computes the head.
 *   - A sum of several lanes that now have different owners is dropped. A unit that is ahead of its
 *     replica keeps its sum: micro-batches already in the sum are not added twice.
 *
 * Every worker computes the same bits for a sum, and the tree over the lanes does not change, so
 * neither does the result.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/words.h"
#include "comm/lanes/lane_tree.h"
#include "elastic/plan/plan_layout.h"

/* The progress of one worker with a lane, in all trained units of its stage. */
struct lane_fact {
    unsigned micro_batches;     /* the number of first micro-batches that every unit has */
    unsigned furthest;          /* the same of the unit, or the loss, that has most */
    struct lane_tree_span span; /* the largest sum that the lane is part of; count 0: none */
    bool validated;             /* the lane's validation loss, on the last stage */
    bool copied;                /* all that the worker has is copies (protocol/sum_copies.h) */
    bool offered;               /* some of it is offered (protocol/step_sums.h): not its own */
};

/* The sums that one worker has of the step; all zero: none. */
struct step_facts {
    struct lane_fact *lanes; /* owned; NULL: nothing */
};

/* The division of the step that continues. */
struct step_division {
    uint64_t step;                 /* 0: each step, divided as the plan says */
    unsigned lanes, micro_batches; /* of the job; of one lane */
    unsigned replicas;
    uint16_t owners[LANE_TREE_LANES_MAX]; /* the replica of each lane */
    unsigned starts[LANE_TREE_LANES_MAX]; /* micro-batches that its first replica has already */
    unsigned heads[LANE_TREE_LANES_MAX];  /* that its first replica, the giver, passes on */
    uint16_t givers[LANE_TREE_LANES_MAX]; /* meaningless where the head is 0 */
    bool validated[LANE_TREE_LANES_MAX];  /* the owner has the validation loss */
};

/** step_division_plan() - divide a step as planned in @layout */
void step_division_plan(const struct plan_layout *layout, unsigned lanes, unsigned micro_batches,
                        struct step_division *ret_division);

/**
 * step_division_continue() - divide the rest of @step
 * @facts: (layout->worker_count,), of each rank
 * @trained_from: first trained unit; a stage without trained units needs no sums
 *
 * As step_division_plan() if there are no facts, or if a replica would have more than
 * LANE_TREE_SUBTREES_MAX subtrees.
 */
void step_division_continue(const struct plan_layout *layout, unsigned trained_from, uint64_t step,
                            unsigned lanes, unsigned micro_batches, const struct step_facts *facts,
                            struct step_division *ret_division);

/** step_division_first() - return the first replica of @lane: the giver of its head, or else its
 * owner. It goes on with the sum that the lane has so far */
unsigned step_division_first(const struct step_division *division, unsigned lane);

/** step_division_goes_on_with() - return whether @replica goes on with a sum of @micro_batches of
 * each lane of @span: it is the first replica of all of them. A sum that is passed on as a head is
 * of one lane, and has less than the head */
bool step_division_goes_on_with(const struct step_division *division, struct lane_tree_span span,
                                unsigned micro_batches, unsigned replica);

/** step_division_left() - return the number of micro-batches that @replica computes, or that all
 * compute if it is UINT_MAX */
unsigned step_division_left(const struct step_division *division, unsigned replica);

/* The micro-batches [start, end) of a lane, which a replica computes. */
struct lane_run {
    unsigned lane, start, end;
};

/** step_division_runs() - list what @replica computes, in its order: the head of another replica's
 * lane, lanes in progress, whole lanes, and the rest of a lane whose head another computes.
 * @ret_runs has division->lanes + 1 entries. Return: their number */
unsigned step_division_runs(const struct step_division *division, unsigned replica,
                            struct lane_run *ret_runs);

/** step_facts_pack() - append facts to a message. 0, -ENOMEM */
int step_facts_pack(const struct step_facts *facts, unsigned lanes,
                    struct words_writer *writer) CHECK_RESULT;
/** step_facts_unpack() - read facts. 0; -EBADMSG; -ENOMEM */
int step_facts_unpack(struct words_reader *reader, unsigned lanes, unsigned micro_batches,
                      struct step_facts *ret_facts) CHECK_RESULT;
void step_facts_done(struct step_facts *facts);
