#include "worker/state/address_room.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

struct address_room {
    void *mapped;
    size_t mapped_bytes;
    char *memory;
    size_t size_bytes, used_bytes; /* multiples of a huge page */
};

static size_t machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);

    return pages > 0 && page_bytes > 0 ? (size_t)pages * (size_t)page_bytes : 0;
}

struct address_room *address_room_new(void)
{
    struct address_room *room = calloc(1, sizeof(*room));
    size_t size_bytes = machine_bytes() / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;

    if (!room || size_bytes == 0) {
        free(room);
        return NULL;
    }
    room->mapped_bytes = size_bytes + HUGE_PAGE_BYTES;
    room->mapped = mmap(NULL, room->mapped_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room->mapped == MAP_FAILED) {
        free(room);
        return NULL;
    }
    uintptr_t begin = (uintptr_t)room->mapped + HUGE_PAGE_BYTES - 1;
    room->memory = (char *)room->mapped +
                   (begin / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES - (uintptr_t)room->mapped);
    room->size_bytes = size_bytes;
    return room;
}

void address_room_free(struct address_room *room)
{
    if (!room)
        return;
    munmap(room->mapped, room->mapped_bytes);
    free(room);
}

void *address_room_memory(const struct address_room *room)
{
    return room->memory;
}

size_t address_room_bytes(const struct address_room *room)
{
    return room->size_bytes;
}

int address_room_use(struct address_room *room, size_t size_bytes)
{
    if (size_bytes <= room->used_bytes)
        return 0;
    if (size_bytes > room->size_bytes)
        return -ENOMEM;
    size_t wanted = (size_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if (mprotect(room->memory + room->used_bytes, wanted - room->used_bytes,
                 PROT_READ | PROT_WRITE))
        return -ENOMEM;
    /* Fewer TLB misses; only a hint. */
    (void)madvise(room->memory + room->used_bytes, wanted - room->used_bytes, MADV_HUGEPAGE);
    room->used_bytes = wanted;
    return 0;
}
