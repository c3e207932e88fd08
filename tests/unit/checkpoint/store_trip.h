/*
 * A checkpoint of the sample goes into the fake store and comes back, as often as a test wants,
 * without backoff between the attempts at an operation.
 */
#pragma once

#include "checkpoint/format/folder.h"
#include "checkpoint/object/object_fetch.h"
#include "checkpoint/object/object_send.h"
#include "unit/checkpoint/fake_store.h"
#include "unit/checkpoint/sample.h"

#define STORE_TRIP_PREFIX "team"

struct store_trip {
    uint64_t step;
    char path[FOLDER_PATH_SIZE]; /* of the checkpoint */
    char sha256[65];             /* of its manifest */
};

static inline int store_trip_no_pause(void *context, uint64_t wait_ns)
{
    (void)context;
    (void)wait_ns;
    return 0;
}

/* Of the checkpoint of @step in @folder; the store is empty then. */
static inline void store_trip_init(struct store_trip *trip, const char *folder, uint64_t step)
{
    trip->step = step;
    checkpoint_path(folder, step, trip->path);
    sample_manifest_sha256(trip->path, trip->sha256);
    fake_reset();
}

/* Send the sample; return the result of object_send(). */
static inline int store_trip_send(const struct store_trip *trip, struct error *error)
{
    const struct object_send_options options = {.folder = trip->path,
                                                .manifest_sha256 = trip->sha256,
                                                .prefix = STORE_TRIP_PREFIX,
                                                .watch = {.pause = store_trip_no_pause}};
    return object_send(&fake_store, &options, error);
}

/* Fetch into the folder @to; return the result of object_fetch(). */
static inline int store_trip_fetch(const struct store_trip *trip, const char *to,
                                   struct error *error)
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
