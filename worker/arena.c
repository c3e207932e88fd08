#include "worker/arena.h"

#include <errno.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#define WATCHED true /* the sanitizer watches the ends of allocations, not of parts */
#else
#define WATCHED false
#endif
#define HOST_SPARE_BYTES ((size_t)64 << 20)
#define ALIGNMENT_BYTES  ((size_t)256) /* as a GPU's own allocations have it */

struct arena {
    const struct kernel *kernel;
    struct kernel_device *device;
    char *memory;
    size_t size_bytes, used_bytes;
    size_t dirty_bytes; /* from the start on: what parts have written */
    void **apart;       /* parts that are allocations of their own */
    unsigned apart_count, apart_room;
};

int arena_new(const struct kernel *kernel, struct kernel_device *device, struct arena **ret_arena)
{
    struct arena *arena = calloc(1, sizeof(*arena));

    if (!arena)
        return -ENOMEM;
    *arena = (struct arena){.kernel = kernel, .device = device};
    *ret_arena = arena;
    return 0;
}

void arena_drop(struct arena *arena)
{
    assert(arena->used_bytes == 0);
    arena->kernel->release(arena->device, arena->memory);
    arena->memory = NULL;
    arena->size_bytes = arena->dirty_bytes = 0;
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    arena_end(arena);
    arena_drop(arena);
    free(arena->apart);
    free(arena);
}

size_t arena_part_bytes(size_t size_bytes)
{
    return size_bytes > SIZE_MAX - (ALIGNMENT_BYTES - 1)
               ? SIZE_MAX
               : (size_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

/* Much more than is wanted is given back where memory is everybody's. */
static bool is_too_large(const struct arena *arena, size_t size_bytes)
{
    return arena->kernel->host_memory && arena->size_bytes > HOST_SPARE_BYTES &&
           arena->size_bytes / 2 > size_bytes;
}

int arena_reserve(struct arena *arena, size_t size_bytes, struct error *error)
{
    assert(arena->used_bytes == 0 && arena->apart_count == 0);
    if (arena->kernel->host_memory && WATCHED)
        return 0;
    if (size_bytes <= arena->size_bytes && !is_too_large(arena, size_bytes))
        return 0;
    arena_drop(arena);
    if (size_bytes == 0)
        return 0;
    if (arena->kernel->allocate(arena->device, size_bytes, (void **)&arena->memory))
        return error_set(error, -ENOMEM, "no %zu MiB of the device for a generation",
                         size_bytes >> 20);
    arena->size_bytes = size_bytes;
    return 0;
}

int arena_begin(struct arena *arena, size_t size_bytes, struct error *error)
{
    int status = arena_reserve(arena, size_bytes, error);

    if (status || arena->dirty_bytes == 0)
        return status;
    arena->kernel->zero(arena->device, arena->memory, MIN(arena->dirty_bytes, arena->size_bytes));
    arena->dirty_bytes = 0;
    return arena->kernel->synchronize(arena->device, error);
}

static int take_apart(struct arena *arena, size_t size_bytes, void **ret_memory)
{
    if (arena->apart_count == arena->apart_room) {
        unsigned room = MAX(64u, 2 * arena->apart_room);
        void **grown = realloc(arena->apart, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        arena->apart = grown;
        arena->apart_room = room;
    }
    int status = arena->kernel->allocate(arena->device, size_bytes, ret_memory);

    if (!status)
        arena->apart[arena->apart_count++] = *ret_memory;
    return status;
}

int arena_take(struct arena *arena, size_t size_bytes, void **ret_memory)
{
    size_t part_bytes = arena_part_bytes(size_bytes);

    if (part_bytes > arena->size_bytes - arena->used_bytes)
        return take_apart(arena, size_bytes, ret_memory);
    *ret_memory = arena->memory + arena->used_bytes;
    arena->used_bytes += part_bytes;
    return 0;
}

void arena_end(struct arena *arena)
{
    while (arena->apart_count > 0)
        arena->kernel->release(arena->device, arena->apart[--arena->apart_count]);
    arena->dirty_bytes = MAX(arena->dirty_bytes, arena->used_bytes);
    arena->used_bytes = 0;
}

size_t arena_held_bytes(const struct arena *arena)
{
    return arena->size_bytes;
}
