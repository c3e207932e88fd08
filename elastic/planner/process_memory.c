#include "elastic/planner/process_memory.h"

#include "elastic/planner/planner.h"

/* Text and libraries, heaps, the plan and the record of a step; of each thread its stack, its tile
 * of scores and what OpenBLAS packs. */
#define BASE_BYTES   ((size_t)36 << 20)
#define THREAD_BYTES ((size_t)8 << 20)

static size_t parameter_bytes(const struct job_spec *spec)
{
    size_t sum = 0;

    for (unsigned unit = 0; unit < job_spec_unit_count(spec); unit++)
        sum += planner_parameter_bytes(spec, unit);
    return sum;
}

size_t process_bytes(const struct job_spec *spec, unsigned threads)
{
    size_t parameters = parameter_bytes(spec);
    size_t staging = 3 * parameters <= PROCESS_SMALL_STAGING_BYTES ? PROCESS_SMALL_STAGING_BYTES
                                                                   : PROCESS_STAGING_BYTES;

    return BASE_BYTES + MAX(threads, 1u) * THREAD_BYTES + staging +
           MIN(PROCESS_LINK_BYTES + 2 * PROCESS_NEIGHBOUR_BYTES, parameters);
}

size_t process_room(size_t memory_bytes, size_t process_bytes)
{
    if (memory_bytes <= PROCESS_FREE_BYTES)
        return memory_bytes;
    return memory_bytes - MIN(process_bytes, memory_bytes - PROCESS_FREE_BYTES);
}
