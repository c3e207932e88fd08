#include "lib/elastic/cluster_types.h"

unsigned cluster_random(struct cluster *cluster, unsigned below)
{
    cluster->random = cluster->random * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(cluster->random >> 33) % below;
}

uint64_t cluster_delay(struct cluster *cluster, unsigned max_ms)
{
    return cluster->now_ns + (uint64_t)cluster_random(cluster, max_ms + 1) * NS_PER_MS;
}

double cluster_square(uint64_t step, unsigned unit)
{
    return (double)step + unit / 64.0;
}
