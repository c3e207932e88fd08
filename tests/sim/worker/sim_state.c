#include "sim/worker/sim_state.h"

#include <string.h>

#define FREEZE_LAYERS_MOST 2
#define THAWS_AFTER        4 /* decisions */

uint64_t sim_initial_hash(unsigned unit)
{
    return sim_mix(0x6669726e, unit);
}

uint64_t sim_forward(uint64_t digest, uint64_t step, const struct sim_unit *units, unsigned first,
                     unsigned count)
{
    for (unsigned unit = first; unit < first + count; unit++)
        digest = sim_mix(sim_mix(digest, step), units[unit].hash);
    return digest;
}

/* 52 bits of a hash as a number between 1 and 2: exact, and never the pattern of "unknown". */
static double as_value(uint64_t hash)
{
    uint64_t bits = 0x3ff0000000000000u | hash >> 12;
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

double sim_square(unsigned unit, uint64_t step, uint64_t digest)
{
    return as_value(sim_mix(sim_mix(unit, step), digest));
}

double sim_loss(unsigned lane, uint64_t step, uint64_t digest)
{
    return as_value(sim_mix(sim_mix(lane + 1, step), digest));
}

void sim_record_init(struct sim_record *record, uint64_t step)
{
    record->step = step;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        record->squares[unit] = step_record_unknown();
    for (unsigned lane = 0; lane < SIM_LANES; lane++)
        record->losses[lane] = step_record_unknown();
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static bool merge_value(double *into, double from)
{
    if (!step_record_is_known(from))
        return true;
    if (step_record_is_known(*into))
        return bits_of(*into) == bits_of(from);
    *into = from;
    return true;
}

bool sim_record_merge(struct sim_record *into, const struct sim_record *from)
{
    bool agree = into->step == from->step;
    for (unsigned unit = 0; agree && unit < SIM_UNITS; unit++)
        agree = merge_value(&into->squares[unit], from->squares[unit]);
    for (unsigned lane = 0; agree && lane < SIM_LANES; lane++)
        agree = merge_value(&into->losses[lane], from->losses[lane]);
    return agree;
}

bool sim_record_complete(const struct sim_record *record)
{
    bool complete = record->step != 0;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        complete = complete && step_record_is_known(record->squares[unit]);
    for (unsigned lane = 0; lane < SIM_LANES; lane++)
        complete = complete && step_record_is_known(record->losses[lane]);
    return complete;
}

static uint64_t mix_value(uint64_t digest, double value)
{
    return sim_mix(digest, bits_of(value));
}

uint64_t sim_record_digest(const struct sim_record *record)
{
    uint64_t digest = record->step;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        digest = mix_value(digest, record->squares[unit]);
    for (unsigned lane = 0; lane < SIM_LANES; lane++)
        digest = mix_value(digest, record->losses[lane]);
    return digest;
}

void sim_apply_unit(struct sim_unit *unit, uint64_t step, uint64_t record_digest)
{
    unit->moments = sim_mix(sim_mix(unit->moments, step), record_digest);
    unit->hash = sim_mix(unit->hash, unit->moments);
}

uint64_t sim_unit_digest(const struct sim_unit *unit)
{
    return sim_mix(unit->hash, unit->moments);
}

void sim_record_to(const struct sim_record *from, struct step_record *into)
{
    step_record_init(into, from->step, SIM_UNITS, SIM_LANES);
    memcpy(into->unit_squares, from->squares, sizeof(from->squares));
    memcpy(into->lane_losses, from->losses, sizeof(from->losses));
}

void sim_record_from(const struct step_record *from, struct sim_record *into)
{
    into->step = from->step;
    memcpy(into->squares, from->unit_squares, sizeof(into->squares));
    memcpy(into->losses, from->lane_losses, sizeof(into->losses));
}

unsigned sim_frozen_layers(const struct sim *sim, uint64_t step)
{
    uint64_t every = sim->spec.elastic.freeze.every;
    uint64_t decisions = step / every;
    if (sim->spec.elastic.freeze.policy == JOB_FREEZE_NONE)
        return 0;
    if (sim->spec.elastic.freeze.thaw > 0)
        decisions %= THAWS_AFTER;
    return (unsigned)MIN(decisions, (uint64_t)FREEZE_LAYERS_MOST);
}

bool sim_state_empty(const struct sim_state *state)
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (state->units[unit].held)
            return false;
    return true;
}

void sim_state_list_held(const struct sim_state *state, bool ret_held[SIM_UNITS])
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        ret_held[unit] = state->units[unit].held;
}

void sim_state_drop(struct sim_state *state, const bool *kept)
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (!kept || !kept[unit])
            state->units[unit].held = false;
}
