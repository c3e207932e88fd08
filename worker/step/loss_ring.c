#include "worker/step/loss_ring.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct place {
    struct loss_entry entry;
    struct kernel_event *here; /* the losses have arrived in `losses` */
    float *losses;             /* pinned */
};

struct loss_ring {
    struct pinned *pool; /* borrowed */
    size_t rows;
    unsigned first, count; /* of the places in use */
    struct place places[LOSSES_AHEAD];
};

int loss_ring_new(struct pinned *pool, size_t rows, struct loss_ring **ret_ring)
{
    const struct kernel *kernel = pinned_kernel(pool);
    struct loss_ring *ring = calloc(1, sizeof(*ring));
    int status = ring ? 0 : -ENOMEM;

    if (ring)
        *ring = (struct loss_ring){.pool = pool, .rows = rows};
    for (unsigned i = 0; i < LOSSES_AHEAD && !status; i++) {
        struct place *place = &ring->places[i];
        status = kernel->event_new(pinned_device(pool), &place->here);
        if (!status)
            status = pinned_take(pool, rows * sizeof(float), (void **)&place->losses);
    }
    if (status) {
        loss_ring_free(ring);
        return status;
    }
    *ret_ring = ring;
    return 0;
}

void loss_ring_free(struct loss_ring *ring)
{
    if (!ring)
        return;
    const struct kernel *kernel = pinned_kernel(ring->pool);
    struct kernel_device *device = pinned_device(ring->pool);

    while (ring->count)
        (void)loss_ring_take(ring);
    for (unsigned i = 0; i < LOSSES_AHEAD; i++) {
        kernel->event_free(device, ring->places[i].here);
        pinned_give(ring->pool, ring->places[i].losses);
    }
    free(ring);
}

bool loss_ring_is_full(const struct loss_ring *ring)
{
    return ring->count == LOSSES_AHEAD;
}

void loss_ring_put(struct loss_ring *ring, struct stage *stage, struct loss_entry entry)
{
    struct place *place = &ring->places[(ring->first + ring->count) % LOSSES_AHEAD];

    assert(!loss_ring_is_full(ring));
    place->entry = entry;
    stage_losses(stage, entry.slot, place->losses);
    pinned_kernel(ring->pool)
        ->event_record(pinned_device(ring->pool), place->here, KERNEL_QUEUE_COMPUTE);
    ring->count++;
}

const struct loss_entry *loss_ring_oldest(const struct loss_ring *ring)
{
    return ring->count ? &ring->places[ring->first].entry : NULL;
}

double loss_ring_take(struct loss_ring *ring)
{
    const struct place *place = &ring->places[ring->first];

    assert(ring->count > 0);
    pinned_kernel(ring->pool)->event_wait(pinned_device(ring->pool), place->here);
    ring->first = (ring->first + 1) % LOSSES_AHEAD;
    ring->count--;
    return stage_losses_sum(place->losses, ring->rows);
}
