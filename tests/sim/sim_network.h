/*
 * Who reaches whom, and how fast. Places are the nodes, and one more for the store. A cut says
 * nothing to either side (no FIN, no RST); what is on its way waits, as TCP would make it.
 */
#pragma once

#include "sim/sim.h"

#define SIM_STORE_PLACE SIM_NODES_MAX
#define SIM_PLACES      (SIM_NODES_MAX + 1)

struct sim_network {
    unsigned cuts[SIM_PLACES][SIM_PLACES];    /* how many faults cut this pair */
    uint64_t slow_ns[SIM_PLACES][SIM_PLACES]; /* more delay than usual */
    bool down[SIM_PLACES];                    /* without power */
    bool ever_cut[SIM_PLACES][SIM_PLACES];    /* or one of them was without power */
};

void sim_network_cut(struct sim *sim, unsigned a, unsigned b);
void sim_network_mend(struct sim *sim, unsigned a, unsigned b);
void sim_network_power(struct sim *sim, unsigned place, bool on);
bool sim_reachable(const struct sim *sim, unsigned a, unsigned b);
/** sim_transit() - when something sent now would be there */
uint64_t sim_transit(struct sim *sim, unsigned a, unsigned b);
