#include "worker/device/pinned.h"

#include <errno.h>
#include <stdlib.h>

struct piece {
    struct piece *next;
    void *memory;
    size_t size_bytes;
    bool taken, used; /* used: taken since the last turn */
};

struct pinned {
    const struct kernel *kernel;
    struct kernel_device *device;
    struct piece *pieces;
};

int pinned_new(const struct kernel *kernel, struct kernel_device *device, struct pinned **ret_pool)
{
    struct pinned *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return -ENOMEM;
    *pool = (struct pinned){.kernel = kernel, .device = device};
    *ret_pool = pool;
    return 0;
}

/* Release all free buffers, or only those that were not used since the last turn. */
static void release_free(struct pinned *pool, bool all)
{
    for (struct piece **at = &pool->pieces; *at;) {
        struct piece *piece = *at;
        if (piece->taken || (piece->used && !all)) {
            piece->used = piece->taken;
            at = &piece->next;
            continue;
        }
        *at = piece->next;
        pool->kernel->host_release(pool->device, piece->memory);
        free(piece);
    }
}

void pinned_free(struct pinned *pool)
{
    if (!pool)
        return;
    release_free(pool, true);
    assert(!pool->pieces);
    free(pool);
}

const struct kernel *pinned_kernel(const struct pinned *pool)
{
    return pool->kernel;
}

struct kernel_device *pinned_device(const struct pinned *pool)
{
    return pool->device;
}

static struct piece *find_free(const struct pinned *pool, size_t size_bytes)
{
    struct piece *piece = pool->pieces;

    while (piece && (piece->taken || piece->size_bytes != size_bytes))
        piece = piece->next;
    return piece;
}

static struct piece *make_piece(struct pinned *pool, size_t size_bytes)
{
    struct piece *piece = calloc(1, sizeof(*piece));

    if (!piece || pool->kernel->host_allocate(pool->device, size_bytes, &piece->memory)) {
        free(piece);
        return NULL;
    }
    piece->size_bytes = size_bytes;
    piece->next = pool->pieces;
    pool->pieces = piece;
    return piece;
}

int pinned_take(struct pinned *pool, size_t size_bytes, void **ret_memory)
{
    struct piece *piece = find_free(pool, size_bytes);

    if (!piece && !(piece = make_piece(pool, size_bytes)))
        return -ENOMEM;
    piece->taken = piece->used = true;
    *ret_memory = piece->memory;
    return 0;
}

void pinned_give(struct pinned *pool, void *memory)
{
    if (!memory)
        return;
    struct piece *piece = pool->pieces;

    while (piece && piece->memory != memory)
        piece = piece->next;
    assert(piece && piece->taken);
    piece->taken = false;
}

void pinned_turn(struct pinned *pool)
{
    release_free(pool, false);
}
