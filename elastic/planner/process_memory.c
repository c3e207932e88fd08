#include "elastic/planner/process_memory.h"

#include "elastic/planner/planner.h"

/*
 * The base covers text and libraries, heaps, the plan and the record of a step. Each thread has its
 * stack, its tile of scores and the packing buffers of OpenBLAS, which are small for small
 * products. The part that grows with the model is a share of the parameters with an upper limit.
 * All values are measured on processes: docs/measurements.md, "Memory: planned and taken".
 */
#define BASE_BYTES          ((size_t)21 << 20)
#define BASE_GROWTH_BYTES   ((size_t)15 << 20)
#define BASE_SHARE          32
#define THREAD_BYTES        ((size_t)1 << 20)
#define THREAD_GROWTH_BYTES ((size_t)7 << 20)
#define THREAD_SHARE        32
#define LINK_SHARE          16

static size_t parameter_bytes(const struct job_model *model)
{
    size_t sum = 0;

    for (unsigned unit = 0; unit < job_model_unit_count(model); unit++)
        sum += planner_parameter_bytes(model, unit);
    return sum;
}

size_t process_link_bytes(const struct job_model *model)
{
    return MIN(PROCESS_LINK_BYTES_MOST,
               MAX(PROCESS_LINK_BYTES_LEAST, parameter_bytes(model) / LINK_SHARE));
}

size_t process_bytes(const struct job_model *model, unsigned threads)
{
    size_t parameters = parameter_bytes(model);
    size_t staging = 3 * parameters <= PROCESS_SMALL_STAGING_BYTES ? PROCESS_SMALL_STAGING_BYTES
                                                                   : PROCESS_STAGING_BYTES;
    size_t base = BASE_BYTES + MIN(BASE_GROWTH_BYTES, parameters / BASE_SHARE);
    size_t thread = THREAD_BYTES + MIN(THREAD_GROWTH_BYTES, parameters / THREAD_SHARE);

    return base + MAX(threads, 1u) * thread + staging + PROCESS_TRACE_BYTES +
           MIN(process_link_bytes(model) + 2 * PROCESS_NEIGHBOUR_BYTES, parameters);
}

size_t process_room(size_t memory_bytes, size_t process_bytes)
{
    if (memory_bytes <= PROCESS_FREE_BYTES)
        return memory_bytes;
    return memory_bytes - MIN(process_bytes, memory_bytes - PROCESS_FREE_BYTES);
}
