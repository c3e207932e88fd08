/*
 * The network: reachability and delay between places. A place is a node or the store. A cut is
 * silent on both sides (no FIN, no RST); messages in flight wait, as TCP would make them.
 */
#pragma once

#include "sim/sim.h"

#define SIM_STORE_PLACE SIM_NODES_MAX
#define SIM_PLACES      (SIM_NODES_MAX + 1)

struct sim_network {
    unsigned cuts[SIM_PLACES][SIM_PLACES];    /* number of faults that cut this pair */
    uint64_t slow_ns[SIM_PLACES][SIM_PLACES]; /* additional delay */
    bool down[SIM_PLACES];                    /* without power */
    bool ever_cut[SIM_PLACES][SIM_PLACES];    /* or a place was without power */
};

void sim_network_cut(struct sim *sim, unsigned a, unsigned b);
void sim_network_mend(struct sim *sim, unsigned a, unsigned b);
void sim_network_power(struct sim *sim, unsigned place, bool on);
bool sim_reachable(const struct sim *sim, unsigned a, unsigned b);
/** sim_transit() - Return when a message that is sent now would arrive */
uint64_t sim_transit(struct sim *sim, unsigned a, unsigned b);
