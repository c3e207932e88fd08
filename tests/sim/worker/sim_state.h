/*
 * Training state as hashes: a unit's parameters and moments are hashes of all updates ever applied
 * to it, and a step's record is made from the hashes of all units. A worker that applies a step
 * twice, misses a step, or computes with a neighbour at another step has other bits from then on.
 */
#pragma once

#include "elastic/messages/report.h"
#include "sim/sim.h"

struct sim_unit {
    bool held;
    uint64_t step, hash; /* of the parameters after `step` */
    uint64_t moments;    /* of the optimizer, from which the next step makes parameters */
};

/* A compact step_record of this model. */
struct sim_record {
    uint64_t step; /* 0: none */
    double squares[SIM_UNITS], losses[SIM_LANES];
};

struct sim_state {
    struct sim_unit units[SIM_UNITS];
    uint64_t applied_step;
    bool holds;
    struct sim_record hold;      /* of applied_step + 1, this worker's part */
    struct sim_record committed; /* of applied_step; step 0: the state came from elsewhere */
};

uint64_t sim_initial_hash(unsigned unit);
/** sim_forward() - Return @digest of the input, carried through [first, first + count) of @step */
uint64_t sim_forward(uint64_t digest, uint64_t step, const struct sim_unit *units, unsigned first,
                     unsigned count);
double sim_square(unsigned unit, uint64_t step, uint64_t digest);
double sim_loss(unsigned lane, uint64_t step, uint64_t digest);
void sim_record_init(struct sim_record *record, uint64_t step);
/** sim_record_merge() - Merge two records; false: they contradict each other */
bool sim_record_merge(struct sim_record *into, const struct sim_record *from);
bool sim_record_complete(const struct sim_record *record);
uint64_t sim_record_digest(const struct sim_record *record);
/** sim_apply_unit() - Do the optimizer step, to the state after @step */
void sim_apply_unit(struct sim_unit *unit, uint64_t step, uint64_t record_digest);
/** sim_unit_digest() - Return a digest of parameters and moments */
uint64_t sim_unit_digest(const struct sim_unit *unit);
void sim_record_to(const struct sim_record *from, struct step_record *into);
void sim_record_from(const struct step_record *from, struct sim_record *into);

/** sim_frozen_layers() - Return the frozen layers after @step, the same on every worker */
unsigned sim_frozen_layers(const struct sim *sim, uint64_t step);

bool sim_state_empty(const struct sim_state *state);
void sim_state_list_held(const struct sim_state *state, bool ret_held[SIM_UNITS]);
/** sim_state_drop() - Drop all units but those in @kept; NULL: drop all units */
void sim_state_drop(struct sim_state *state, const bool *kept);
