#include "daemon/checkpoint/scrubbing_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/core/decode_cache.h"
#include "elastic/copies/copies.h"
#include "membership/kv/keys.h"

#define USUAL_SECONDS          60.0 /* interval assumed for a first checkpoint */
#define MOST_SECONDS           1800.0
#define LEAST_BYTES_PER_SECOND (64u << 20) /* low enough not to slow training down */

/* ---- known checkpoints ---- */

static const struct scrubbing_known *find(const struct scrubbing_memory *memory, const char *sha256)
{
    for (unsigned i = 0; i < memory->count; i++)
        if (!strcmp(memory->list[i].manifest_sha256, sha256))
            return &memory->list[i];
    return NULL;
}

static struct scrubbing_known *take_place(struct scrubbing_memory *memory, const char *sha256)
{
    struct scrubbing_known *known = (struct scrubbing_known *)(uintptr_t)find(memory, sha256);

    if (known)
        return known;
    known = &memory->list[memory->next];
    memory->next = (memory->next + 1) % SCRUBBING_KNOWN_MAX;
    memory->count = MIN(memory->count + 1, (unsigned)SCRUBBING_KNOWN_MAX);
    *known = (struct scrubbing_known){0};
    snprintf(known->manifest_sha256, sizeof(known->manifest_sha256), "%s", sha256);
    return known;
}

void scrubbing_learned(struct scrubbing_memory *memory, const char *manifest_sha256,
                       uint64_t verified_ns, uint64_t retry_at_ns)
{
    struct scrubbing_known *known = take_place(memory, manifest_sha256);

    known->verified_ns = verified_ns;
    known->retry_at_ns = retry_at_ns;
    known->doubted = known->doubted && !verified_ns;
}

/* ---- records ---- */

void scrubbing_doubt(struct scrubbing_memory *memory, const struct mirror *mirror,
                     const char *cluster, const char *job)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(mirror, keys_job(prefix, cluster, job, "checkpoints/"), &entries);

    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_record *record = decode_cache_checkpoint(mirror, &entries[i]);
        if (!record || record->damaged[0])
            continue;
        struct scrubbing_known *known = take_place(memory, record->manifest_sha256);
        known->verified_ns = 0;
        known->doubted = true;
    }
}

void scrubbing_notice(struct scrubbing_memory *memory, const struct mirror *mirror,
                      const char *cluster, const char *job)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(mirror, keys_job(prefix, cluster, job, "checkpoints/"), &entries);
    bool news = false;

    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_record *record = decode_cache_checkpoint(mirror, &entries[i]);
        if (!record || !record->damaged[0])
            continue;
        struct scrubbing_known *known = take_place(memory, record->manifest_sha256);
        news = news || !known->damaged;
        known->damaged = true;
    }
    if (news)
        scrubbing_doubt(memory, mirror, cluster, job);
}

static bool is_ours(const struct scrubbing_view *view, const struct checkpoint_record *record)
{
    char key[KV_KEY_MAX];

    if (record->shares)
        return copies_has(record->shares, view->node);
    return !strcmp(record->node, view->node) ||
           (view->leads && !mirror_find(view->mirror, keys_node(key, view->cluster, record->node)));
}

static enum scrubbing_urgency urgency_of(const struct scrubbing_view *view,
                                         const struct checkpoint_record *record)
{
    const struct scrubbing_known *known = find(view->memory, record->manifest_sha256);

    if (record->damaged[0] || !is_ours(view, record) ||
        (known && view->unix_ns < known->retry_at_ns))
        return SCRUBBING_NOTHING;
    if (!known || !known->verified_ns)
        return SCRUBBING_NEW;
    return view->unix_ns >= known->verified_ns + SCRUBBING_TERM_S * NS_PER_SECOND
               ? SCRUBBING_AGAIN
               : SCRUBBING_NOTHING;
}

/* @before: the previous checkpoint's record, or NULL */
static double interval_of(const struct checkpoint_record *record,
                          const struct checkpoint_record *before)
{
    if (!before || before->unix_ns >= record->unix_ns)
        return USUAL_SECONDS;
    return (double)(record->unix_ns - before->unix_ns) / 1e9;
}

/* Take half of the checkpoint interval at most; less for a small checkpoint, which is read at
 * LEAST_BYTES_PER_SECOND. */
static double seconds_of(const struct checkpoint_record *record,
                         const struct checkpoint_record *before)
{
    double most = MIN(interval_of(record, before) / 2, MOST_SECONDS);

    return MIN(most, (double)record->size_bytes / LEAST_BYTES_PER_SECOND);
}

/* Return false if memory is short. */
static bool take_task(const struct scrubbing_view *view, const struct mirror_entry *entries,
                      size_t place, struct scrubbing_task *ret_task)
{
    const struct checkpoint_record *record = decode_cache_checkpoint(view->mirror, &entries[place]);
    const struct checkpoint_record *before =
        place > 0 ? decode_cache_checkpoint(view->mirror, &entries[place - 1]) : NULL;
    char *shares = record && record->shares ? strdup(record->shares) : NULL;

    if (!record || (record->shares && !shares))
        return false;
    const struct scrubbing_known *known = find(view->memory, record->manifest_sha256);
    *ret_task = (struct scrubbing_task){.record = *record,
                                        .doubted = known && known->doubted,
                                        .seconds = seconds_of(record, before)};
    ret_task->record.shares = shares;
    return true;
}

enum scrubbing_urgency scrubbing_choose(const struct scrubbing_view *view, const char *job,
                                        struct scrubbing_task *ret_task)
{
    enum scrubbing_urgency most = SCRUBBING_NOTHING;
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count =
        mirror_range(view->mirror, keys_job(prefix, view->cluster, job, "checkpoints/"), &entries);
    size_t chosen = 0;

    for (size_t i = 0; i < count && most != SCRUBBING_NEW; i++) {
        /* Keys sort by step: the newest is the last. */
        size_t place = view->oldest_first ? i : count - 1 - i;
        const struct checkpoint_record *record =
            decode_cache_checkpoint(view->mirror, &entries[place]);
        enum scrubbing_urgency urgency = record ? urgency_of(view, record) : SCRUBBING_NOTHING;
        if (urgency <= most)
            continue;
        most = urgency;
        chosen = place;
    }
    return most == SCRUBBING_NOTHING || take_task(view, entries, chosen, ret_task)
               ? most
               : SCRUBBING_NOTHING;
}
