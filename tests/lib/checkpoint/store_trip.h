/*
 * Send a checkpoint of the sample to the fake store and fetch it back, as often as a test wants,
 * without backoff between the attempts at an operation.
 */
#pragma once

#include <stdint.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/object/object_fetch.h"
#include "checkpoint/object/object_send.h"
#include "lib/checkpoint/fake_store.h"
#include "lib/checkpoint/sample.h"

struct store_trip {
    uint64_t step;
    char path[FOLDER_PATH_SIZE]; /* of the checkpoint */
    char sha256[65];             /* of its manifest */
};

/* Prepare the checkpoint of @step in @folder, and empty the store. */
void store_trip_init(struct store_trip *trip, const char *folder, uint64_t step);

/* Send the sample; return the result of object_send(). */
int store_trip_send(const struct store_trip *trip, struct error *error);

/* Fetch into the folder @to; return the result of object_fetch(). */
int store_trip_fetch(const struct store_trip *trip, const char *to, struct error *error);
