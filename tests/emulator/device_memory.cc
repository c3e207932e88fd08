#include "device_memory.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <map>

#include "emulator.h"

#define ALIGNMENT  256 /* as cudaMalloc() guarantees */
#define MOST_BYTES ((size_t)1 << 40)
#define PAGE_BYTES ((size_t)4096)

static char *range;       /* MOST_BYTES of addresses; NULL: not reserved yet */
static size_t used_bytes; /* of addresses */
static size_t live_bytes; /* allocated bytes; freed memory counts as free again */
static unsigned accesses;
static std::map<void *, size_t> taken;

static bool on_heap(void)
{
    return EMULATOR_JUMPS_ARE_SLOW; /* true with the address sanitizer */
}

static void protect(char *pages, size_t size_bytes, int protection)
{
    if (size_bytes == 0)
        return;
    int failed = mprotect(pages, size_bytes, protection);
    assert(!failed);
    (void)failed;
}

static bool reserve(void)
{
    void *memory =
        mmap(nullptr, MOST_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    madvise(memory, MOST_BYTES, MADV_NOHUGEPAGE);
    range = (char *)memory;
    return true;
}

size_t device_memory_free(size_t *ret_total_bytes)
{
    const char *limit = getenv("EMULATOR_MEMORY_MIB");
    *ret_total_bytes = limit ? (size_t)strtoul(limit, nullptr, 10) << 20 : MOST_BYTES;
    return *ret_total_bytes < live_bytes ? 0 : *ret_total_bytes - live_bytes;
}

void *device_memory_take(size_t size_bytes)
{
    size_t total_bytes;
    if (size_bytes > device_memory_free(&total_bytes))
        return nullptr;
    if (on_heap()) {
        void *memory;
        return posix_memalign(&memory, ALIGNMENT, size_bytes) == 0 ? memory : nullptr;
    }
    size_t whole_bytes = (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if ((range == nullptr && !reserve()) || whole_bytes > MOST_BYTES - used_bytes)
        return nullptr;
    void *memory = range + used_bytes;
    used_bytes += whole_bytes;
    taken[memory] = whole_bytes;
    live_bytes += whole_bytes;
    if (accesses > 0)
        protect((char *)memory, whole_bytes, PROT_READ | PROT_WRITE);
    return memory;
}

void device_memory_give(void *memory)
{
    if (memory == nullptr)
        return;
    if (on_heap()) {
        free(memory);
        return;
    }
    auto found = taken.find(memory);
    assert(found != taken.end()); /* @memory was never allocated, or is freed twice */
    madvise(memory, found->second, MADV_DONTNEED);
    live_bytes -= found->second;
    taken.erase(found);
}

bool device_memory_has(const void *memory)
{
    return range != nullptr && (const char *)memory >= range &&
           (const char *)memory < range + MOST_BYTES;
}

device_access::device_access() : whole(true), pages(nullptr), pages_bytes(0)
{
    if (accesses++ == 0)
        protect(range, used_bytes, PROT_READ | PROT_WRITE);
}

device_access::device_access(const void *memory, size_t size_bytes)
    : whole(false), pages(nullptr), pages_bytes(0)
{
    if (accesses > 0 || size_bytes == 0 || !device_memory_has(memory))
        return;
    size_t begin = (size_t)((const char *)memory - range) / PAGE_BYTES * PAGE_BYTES;
    size_t end = (size_t)((const char *)memory - range) + size_bytes;
    pages = range + begin;
    pages_bytes = (end - begin + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    protect(pages, pages_bytes, PROT_READ | PROT_WRITE);
}

device_access::~device_access()
{
    if (!whole)
        protect(pages, pages_bytes, PROT_NONE);
    else if (--accesses == 0)
        protect(range, used_bytes, PROT_NONE);
}

void emulator_reach_memory(bool open)
{
    static device_access *access;

    assert(open == (access == nullptr));
    delete access;
    access = open ? new device_access() : nullptr;
}
