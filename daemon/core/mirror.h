/*
 * What the cluster's keys hold, as the watch last told: the one picture that every decision of
 * firnd is made from. Fed by snapshots and events, read by key or by prefix in key order.
 */
#pragma once

#include "membership/kv/kv.h"

struct mirror_entry {
    char *key, *value;
    int64_t create_revision, mod_revision, lease;
    void *meaning; /* of the value, for whoever decoded it: mirror_keep(); NULL: nobody has */
    void (*forget)(void *meaning); /* frees it */
};

struct mirror {
    struct mirror_entry *entries; /* sorted by key */
    size_t count, capacity;
    int64_t revision; /* of the store, as of the last change; 0: nothing has been told yet */
    int64_t snapshot_revision; /* of the store when all of it was told last */
};

void mirror_done(struct mirror *mirror);
int mirror_snapshot(struct mirror *mirror, const struct kv_entry *entries, size_t count,
                    int64_t revision) CHECK_RESULT;
int mirror_apply(struct mirror *mirror, const struct kv_event *event,
                 int64_t revision) CHECK_RESULT;

/** mirror_find() - NULL when there is no such key; valid until the next change */
const struct mirror_entry *mirror_find(const struct mirror *mirror, const char *key);
/** mirror_keep() - @meaning (taken, ended by @forget) of @entry's value stays with it until the
 * value changes, so that what did not change is decoded once (daemon/core/decode_cache.h) */
void mirror_keep(const struct mirror *mirror, const struct mirror_entry *entry, void *meaning,
                 void (*forget)(void *meaning));
/** mirror_forget() - the meaning of @entry, which nobody asks for any more */
void mirror_forget(const struct mirror *mirror, const struct mirror_entry *entry);
/** mirror_range() - entries whose keys begin with @prefix: *ret_first and the count that is
 * returned */
size_t mirror_range(const struct mirror *mirror, const char *prefix,
                    const struct mirror_entry **ret_first);
