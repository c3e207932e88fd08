#include "worker/checkpoint/state_writer.h"

#include "base/log.h"
#include "checkpoint/write/io_tuning.h"
#include "elastic/planner/process_memory.h"

#define SMALL_BLOCK_BYTES                                                                          \
    (PROCESS_SMALL_STAGING_BYTES / 16) /* as many blocks as the large arena has */

_Static_assert(PROCESS_SMALL_STAGING_BYTES >= CHECKPOINT_ARENA_MIN, "plans count it as staging");

uint64_t state_writer_bytes(const struct state *state)
{
    uint64_t elements = 0;

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        elements += 3 * (uint64_t)state->units[unit].layout.count;
    return elements * sizeof(float);
}

/* True if the state fits into the least arena: a larger one would touch pages in vain. */
static bool is_small(const struct state *state)
{
    return state_writer_bytes(state) <= PROCESS_SMALL_STAGING_BYTES;
}

/* Skip tuning for a small model: its writes end before a measurement of the disk would. */
static struct io_tuning choose_tuning(const struct state *state, const struct io *io,
                                      const char *folder)
{
    struct io_tuning tuning =
        state_writer_bytes(state) < IO_TUNING_FROM_BYTES ? io_tuning_usual() : io_tune(io, folder);

    if (is_small(state))
        tuning.block_bytes = SMALL_BLOCK_BYTES;
    return tuning;
}

int state_writer_start(const struct state *state, const struct io *io, const char *folder,
                       struct checkpoint_writer **ret_writer, struct error *error)
{
    const struct io_tuning tuning = choose_tuning(state, io, folder);
    const struct checkpoint_writer_options options = {
        .io = io,
        .arena_bytes = is_small(state) ? PROCESS_SMALL_STAGING_BYTES : PROCESS_STAGING_BYTES,
        .depth = tuning.depth,
        .block_bytes = tuning.block_bytes,
    };

    if (tuning.bytes_per_second > 0)
        log_info("this disk takes %.2f GB/s in writes of %zu KiB, %u in flight",
                 tuning.bytes_per_second / 1e9, tuning.block_bytes >> 10, tuning.depth);
    return checkpoint_writer_start(&options, ret_writer, error);
}
