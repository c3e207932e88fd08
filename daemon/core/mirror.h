/*
 * Keep a copy of the cluster's keys as of the last watch event: the single source for every
 * decision of firnd. Snapshots and events fill it; it is read by key, or by prefix in key order.
 */
#pragma once

#include "membership/kv/kv.h"

struct mirror_entry {
    char *key, *value;
    int64_t create_revision, mod_revision, lease;
    void *meaning;                 /* decoded value (mirror_keep()); NULL: not decoded yet */
    void (*forget)(void *meaning); /* frees `meaning` */
};

struct mirror {
    struct mirror_entry *entries; /* sorted by key */
    size_t count, capacity;
    int64_t revision;          /* store revision of the last change; 0: nothing received yet */
    int64_t snapshot_revision; /* store revision of the last full snapshot */
};

void mirror_done(struct mirror *mirror);
int mirror_snapshot(struct mirror *mirror, const struct kv_entry *entries, size_t count,
                    int64_t revision) CHECK_RESULT;
int mirror_apply(struct mirror *mirror, const struct kv_event *event,
                 int64_t revision) CHECK_RESULT;

/** mirror_find() - return the entry of a key, valid until the next change; NULL: no such key */
const struct mirror_entry *mirror_find(const struct mirror *mirror, const char *key);
/** mirror_keep() - attach @meaning, the decoded value of @entry, until the value changes, so that
 * an unchanged value is decoded once (daemon/core/decode_cache.h). Takes ownership of @meaning;
 * @forget frees it */
void mirror_keep(const struct mirror *mirror, const struct mirror_entry *entry, void *meaning,
                 void (*forget)(void *meaning));
/** mirror_forget() - free the decoded value of @entry early, because it is no longer needed */
void mirror_forget(const struct mirror *mirror, const struct mirror_entry *entry);
/** mirror_range() - find the entries whose keys begin with @prefix. Return: their count;
 * *ret_first is the first */
size_t mirror_range(const struct mirror *mirror, const char *prefix,
                    const struct mirror_entry **ret_first);
