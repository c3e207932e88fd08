#include "sim/node/sim_network.h"

#define LOCAL_LEAST_US  5
#define LOCAL_MOST_US   200
#define REMOTE_LEAST_US 100
#define REMOTE_MOST_US  2000

void sim_network_cut(struct sim *sim, unsigned a, unsigned b)
{
    sim->network->cuts[a][b]++;
    sim->network->cuts[b][a]++;
    sim->network->ever_cut[a][b] = sim->network->ever_cut[b][a] = true;
}

void sim_network_mend(struct sim *sim, unsigned a, unsigned b)
{
    sim->network->cuts[a][b]--;
    sim->network->cuts[b][a]--;
}

void sim_network_power(struct sim *sim, unsigned place, bool on)
{
    struct sim_network *network = sim->network;
    network->down[place] = !on;
    for (unsigned other = 0; !on && other < SIM_PLACES; other++)
        network->ever_cut[place][other] = network->ever_cut[other][place] = true;
}

bool sim_reachable(const struct sim *sim, unsigned a, unsigned b)
{
    const struct sim_network *network = sim->network;
    return !network->down[a] && !network->down[b] && (a == b || network->cuts[a][b] == 0);
}

uint64_t sim_transit(struct sim *sim, unsigned a, unsigned b)
{
    uint64_t slow_ns = sim->network->slow_ns[a][b];
    uint64_t due_ns = a == b ? sim_soon(sim, LOCAL_LEAST_US, LOCAL_MOST_US)
                             : sim_soon(sim, REMOTE_LEAST_US, REMOTE_MOST_US);
    return slow_ns == 0 ? due_ns : due_ns + sim_random(sim, STREAM_DELAYS, slow_ns);
}
