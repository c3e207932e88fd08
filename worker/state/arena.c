#include "worker/state/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/state/address_room.h"

#ifdef __SANITIZE_ADDRESS__
#define WATCHED true /* the sanitizer checks the bounds of allocations, not of parts */
#else
#define WATCHED false
#endif
#define SPARE_BYTES     ((size_t)8 << 20) /* host memory that may be held beyond the need */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define ALIGNMENT_BYTES ((size_t)256) /* as in a GPU's own allocations */

struct arena {
    const struct kernel *kernel;
    struct kernel_device *device;
    char *memory;
    size_t room_bytes;              /* allocated; bytes beyond size_bytes have no pages */
    struct address_room *addresses; /* range of `memory`; NULL: the kernel allocated it */
    size_t size_bytes, used_bytes;
    size_t dirty_bytes; /* from the start: written by parts; of a device */
    void **apart;       /* parts with an allocation of their own */
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
    if (arena->addresses)
        address_room_free(arena->addresses);
    else
        arena->kernel->release(arena->device, arena->memory);
    arena->addresses = NULL;
    arena->memory = NULL;
    arena->room_bytes = arena->size_bytes = arena->dirty_bytes = 0;
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

/* Give host pages beyond @size_bytes back to the system; the pages that stay need not be faulted in
 * again. */
static void trim(struct arena *arena, size_t size_bytes)
{
    size_t kept_bytes = (size_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);

    if (!arena->kernel->host_memory || arena->size_bytes < kept_bytes + SPARE_BYTES)
        return;
    /* Only whole pages: a partial page may be shared with another block. */
    uintptr_t begin = ((uintptr_t)arena->memory + kept_bytes + page_bytes - 1) / page_bytes;
    uintptr_t end = ((uintptr_t)arena->memory + arena->size_bytes) / page_bytes;
    if (madvise((void *)(begin * page_bytes), (end - begin) * page_bytes, MADV_DONTNEED))
        return; /* the memory stays held, and as dirty as before */
    arena->size_bytes = kept_bytes;
    arena->dirty_bytes = MIN(arena->dirty_bytes, kept_bytes);
}

/* Extend the memory in place: all pages up to @size_bytes exist afterwards, the new ones zeroed. */
static int grow(struct arena *arena, struct kernel_device *device, size_t size_bytes,
                struct error *error)
{
    if (arena->addresses && address_room_use(arena->addresses, size_bytes)) {
        if (!arena->used_bytes)
            arena_drop(arena);
        return error_set(error, -ENOMEM, "no %zu MiB of memory for a generation", size_bytes >> 20);
    }
    arena->kernel->zero(device, arena->memory + arena->size_bytes, size_bytes - arena->size_bytes);
    arena->size_bytes = size_bytes;
    return arena->kernel->synchronize(device, error);
}

/* Without addresses an arena that is too small is freed and allocated again. */
static void take_addresses(struct arena *arena)
{
    arena->addresses = address_room_new();
    arena->memory = arena->addresses ? address_room_memory(arena->addresses) : NULL;
    arena->room_bytes = arena->addresses ? address_room_bytes(arena->addresses) : 0;
}

int arena_reserve(struct arena *arena, size_t size_bytes, struct error *error)
{
    size_bytes = MAX(size_bytes, arena->used_bytes);
    assert(arena->used_bytes == 0 || size_bytes <= arena->room_bytes);
    if (arena->kernel->host_memory && WATCHED)
        return 0;
    if (size_bytes <= arena->size_bytes) {
        trim(arena, size_bytes);
        return 0;
    }
    if (arena->kernel->host_memory && !arena->memory)
        take_addresses(arena);
    if (size_bytes <= arena->room_bytes)
        return grow(arena, arena->device, size_bytes, error);
    arena_drop(arena);
    if (size_bytes == 0)
        return 0;
    if (arena->kernel->allocate(arena->device, size_bytes, (void **)&arena->memory))
        return error_set(error, -ENOMEM, "no %zu MiB of the device for a generation",
                         size_bytes >> 20);
    arena->room_bytes = arena->size_bytes = size_bytes;
    return 0;
}

int arena_extend(struct arena *arena, struct kernel_device *device, size_t size_bytes,
                 struct error *error)
{
    bool grows = arena->kernel->host_memory && arena->addresses && size_bytes > arena->size_bytes &&
                 size_bytes <= arena->room_bytes;

    return grows ? grow(arena, device, size_bytes, error) : 0;
}

int arena_begin(struct arena *arena, size_t size_bytes, struct error *error)
{
    int status = arena_reserve(arena, size_bytes, error);

    size_t dirty_bytes = MIN(arena->dirty_bytes, arena->size_bytes);
    if (status || arena->kernel->host_memory || dirty_bytes <= arena->used_bytes)
        return status;
    arena->kernel->zero(arena->device, arena->memory + arena->used_bytes,
                        dirty_bytes - arena->used_bytes);
    arena->dirty_bytes = arena->used_bytes;
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
    arena_end_at(arena, (struct arena_mark){0});
}

struct arena_mark arena_mark(const struct arena *arena)
{
    return (struct arena_mark){arena->used_bytes, arena->apart_count};
}

void arena_end_at(struct arena *arena, struct arena_mark mark)
{
    while (arena->apart_count > mark.apart_count)
        arena->kernel->release(arena->device, arena->apart[--arena->apart_count]);
    arena->dirty_bytes = MAX(arena->dirty_bytes, arena->used_bytes);
    arena->used_bytes = MIN(arena->used_bytes, mark.used_bytes);
}

size_t arena_held_bytes(const struct arena *arena)
{
    return arena->size_bytes;
}

size_t arena_room_bytes(const struct arena *arena)
{
    return arena->room_bytes;
}

bool arena_fits(const struct arena *arena, size_t size_bytes)
{
    return (arena->kernel->host_memory && WATCHED) || size_bytes <= arena->room_bytes;
}
