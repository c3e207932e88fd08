#include "daemon/core/mirror.h"

#include <errno.h>
#include <string.h>

static void forget_meaning(struct mirror_entry *entry)
{
    if (entry->meaning)
        entry->forget(entry->meaning);
    entry->meaning = NULL;
}

static void entry_done(struct mirror_entry *entry)
{
    forget_meaning(entry);
    free(entry->key);
    free(entry->value);
}

void mirror_done(struct mirror *mirror)
{
    for (size_t i = 0; i < mirror->count; i++)
        entry_done(&mirror->entries[i]);
    free(mirror->entries);
    memset(mirror, 0, sizeof(*mirror));
}

/* Return the index of the first entry whose key is not below @key. */
static size_t lower_bound(const struct mirror *mirror, const char *key)
{
    size_t low = 0, high = mirror->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(mirror->entries[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int reserve_one(struct mirror *mirror)
{
    if (mirror->count < mirror->capacity)
        return 0;
    size_t capacity = MAX(mirror->capacity * 2, (size_t)64);
    struct mirror_entry *grown = realloc(mirror->entries, capacity * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    mirror->entries = grown;
    mirror->capacity = capacity;
    return 0;
}

static int put(struct mirror *mirror, const struct kv_entry *from)
{
    size_t at = lower_bound(mirror, from->key);
    bool there = at < mirror->count && !strcmp(mirror->entries[at].key, from->key);
    struct mirror_entry entry = {
        .key = strdup(from->key),
        .value = strndup(from->value, from->value_bytes),
        .create_revision = from->create_revision,
        .mod_revision = from->mod_revision,
        .lease = from->lease,
    };

    if (!entry.key || !entry.value || (!there && reserve_one(mirror))) {
        entry_done(&entry);
        return -ENOMEM;
    }
    if (there) {
        entry_done(&mirror->entries[at]);
    } else {
        memmove(&mirror->entries[at + 1], &mirror->entries[at],
                (mirror->count - at) * sizeof(entry));
        mirror->count++;
    }
    mirror->entries[at] = entry;
    return 0;
}

static void erase(struct mirror *mirror, const char *key)
{
    size_t at = lower_bound(mirror, key);

    if (at == mirror->count || strcmp(mirror->entries[at].key, key))
        return;
    entry_done(&mirror->entries[at]);
    mirror->count--;
    memmove(&mirror->entries[at], &mirror->entries[at + 1],
            (mirror->count - at) * sizeof(mirror->entries[0]));
}

int mirror_snapshot(struct mirror *mirror, const struct kv_entry *entries, size_t count,
                    int64_t revision)
{
    int status = 0;

    mirror_done(mirror);
    for (size_t i = 0; !status && i < count; i++)
        status = put(mirror, &entries[i]);
    mirror->revision = mirror->snapshot_revision = revision;
    return status;
}

int mirror_apply(struct mirror *mirror, const struct kv_event *event, int64_t revision)
{
    mirror->revision = revision;
    if (!event->deleted)
        return put(mirror, &event->entry);
    erase(mirror, event->entry.key);
    return 0;
}

const struct mirror_entry *mirror_find(const struct mirror *mirror, const char *key)
{
    size_t at = lower_bound(mirror, key);

    return at < mirror->count && !strcmp(mirror->entries[at].key, key) ? &mirror->entries[at]
                                                                       : NULL;
}

void mirror_keep(const struct mirror *mirror, const struct mirror_entry *entry, void *meaning,
                 void (*forget)(void *meaning))
{
    struct mirror_entry *kept = &mirror->entries[entry - mirror->entries];

    forget_meaning(kept);
    kept->meaning = meaning;
    kept->forget = forget;
}

void mirror_forget(const struct mirror *mirror, const struct mirror_entry *entry)
{
    forget_meaning(&mirror->entries[entry - mirror->entries]);
}

size_t mirror_range(const struct mirror *mirror, const char *prefix,
                    const struct mirror_entry **ret_first)
{
    size_t first = lower_bound(mirror, prefix), end = first, length = strlen(prefix);

    while (end < mirror->count && !strncmp(mirror->entries[end].key, prefix, length))
        end++;
    *ret_first = mirror->entries + first;
    return end - first;
}
