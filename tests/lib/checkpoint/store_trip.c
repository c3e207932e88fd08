#include "lib/checkpoint/store_trip.h"

#define STORE_TRIP_PREFIX "team"

static int store_trip_no_pause(void *context, uint64_t wait_ns)
{
    (void)context;
    (void)wait_ns;
    return 0;
}

void store_trip_init(struct store_trip *trip, const char *folder, uint64_t step)
{
    trip->step = step;
    checkpoint_path(folder, step, trip->path);
    sample_manifest_sha256(trip->path, trip->sha256);
    fake_store_reset();
}

int store_trip_send(const struct store_trip *trip, struct error *error)
{
    const struct object_send_options options = {.folder = trip->path,
                                                .manifest_sha256 = trip->sha256,
                                                .prefix = STORE_TRIP_PREFIX,
                                                .watch = {.pause = store_trip_no_pause}};
    return object_send(&fake_store, &options, error);
}

int store_trip_fetch(const struct store_trip *trip, const char *to, struct error *error)
{
    struct object_checkpoint found;
    const struct object_fetch_options options = {.prefix = STORE_TRIP_PREFIX,
                                                 .job = "sample",
                                                 .step = trip->step,
                                                 .manifest_sha256 = trip->sha256,
                                                 .to = to,
                                                 .watch = {.pause = store_trip_no_pause}};
    return object_fetch(&fake_store, &options, &found, error);
}
