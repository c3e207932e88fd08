#include "daemon/jobs/retention_rule.h"

#include <string.h>

#include "base/log.h"
#include "daemon/core/checkpoint_entry.h"
#include "daemon/core/daemon.h"
#include "daemon/core/decode_cache.h"
#include "daemon/jobs/mark_look.h"
#include "membership/kv/keys.h"

#define DELETIONS_MAX 16 /* per transaction; the next check takes the rest */

size_t retention_rule_choose(struct retention_rule *retention, const struct mirror_entry *entries,
                             size_t count, struct kv_operation *operations, size_t capacity)
{
    struct keep_rule *rule = &retention->rule;
    size_t expired = 0;

    while (count-- > 0 && expired < capacity) {
        CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
        if (!checkpoint_entry_read(&entries[count], &record) ||
            record.step >= retention->below_step || record.pinned)
            continue;
        if (record.damaged[0]) { /* does not count; kept for an operator while it is new */
            if (rule->kept >= MAX(rule->keep, 1u))
                operations[expired++] =
                    (struct kv_operation){.type = KV_DELETE, .key = entries[count].key};
            continue;
        }
        struct checkpoint_marks marks = retention->marks_of(retention->context, record.path);
        switch (keep_reason(rule, marks)) {
        case KEEP_NUMBERED:
            retention->kept_from = record.step;
            break;
        case KEEP_GOES:
            operations[expired++] =
                (struct kv_operation){.type = KV_DELETE, .key = entries[count].key};
            break;
        case KEEP_SPARED:
            if (!marks.pinned) /* a pinned checkpoint stays anyway */
                retention->spared_step = record.step;
            break;
        }
    }
    return expired;
}

/* ---- jobs without workers ---- */

static bool is_news(struct job *job, const struct mirror_entry *entries, size_t count)
{
    struct retention_rule_seen seen = {
        .count = count,
        .readings = job->daemon->checkpoints.verified_count,
        .plan_revision = job->plans.revision,
    };

    for (size_t i = 0; i < count; i++)
        seen.revision = MAX(seen.revision, entries[i].mod_revision);
    bool news = memcmp(&seen, &job->expiry.seen, sizeof(seen)) != 0;
    job->expiry.seen = seen;
    return news;
}

/* Return the record that was written last. In a job that went back to an earlier step, this
 * need not be the highest step. NULL: none, or another node recorded it and is responsible. */
static const struct mirror_entry *find_newest(const struct job *job,
                                              const struct mirror_entry *entries, size_t count)
{
    const struct checkpoint_record *newest = NULL;
    const struct mirror_entry *entry = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_record *record =
            decode_cache_checkpoint(&job->daemon->keys.mirror, &entries[i]);
        if (!record)
            return NULL;
        if (newest && !checkpoint_entry_follows(record, newest))
            continue;
        newest = record;
        entry = &entries[i];
    }
    return newest && !strcmp(newest->node, job->daemon->config->node) ? entry : NULL;
}

static void on_deleted(void *context, const struct kv_result *result)
{
    struct job *job = context;

    job->expiry.request = NULL;
    if (result->status || !result->succeeded) /* check again */
        job->expiry.seen = (struct retention_rule_seen){0};
}

/* Delete only while the plan without workers is in force and the records are unchanged. */
static void delete (struct job *job, const struct kv_operation *operations, size_t count,
                    const struct mirror_entry *entries, size_t entry_count)
{
    struct kv_compare compares[DELETIONS_MAX + 1];
    struct daemon *daemon = job->daemon;
    char key[KV_KEY_MAX];

    compares[0] =
        (struct kv_compare){.key = keys_job(key, daemon->config->cluster, job->name, "generation"),
                            .target = KV_MOD_REVISION,
                            .value = job->plans.revision};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < entry_count; k++)
            if (entries[k].key == operations[i].key)
                compares[i + 1] = (struct kv_compare){.key = entries[k].key,
                                                      .target = KV_MOD_REVISION,
                                                      .value = entries[k].mod_revision};
    if (daemon->keys.kv->txn(daemon->keys.kv->context, compares, count + 1, operations, count,
                             on_deleted, job, &job->expiry.request)) {
        job->expiry.seen = (struct retention_rule_seen){0};
        log_error("job %s: the records of expired checkpoints could not be deleted yet", job->name);
    }
}

void retention_rule_sync(struct job *job)
{
    struct kv_operation operations[DELETIONS_MAX];
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];

    if (!job->plans.plan || job->plans.plan->layout.worker_count > 0 || job->expiry.request ||
        job_record_waits(&job->record))
        return;
    keys_job(prefix, job->daemon->config->cluster, job->name, "checkpoints/");
    size_t count = mirror_range(&job->daemon->keys.mirror, prefix, &entries);
    if (is_news(job, entries, count)) {
        job->expiry.due = true;
        mark_look_outdate(job->expiry.marks); /* a new reading has set its mark by now */
    }
    const struct mirror_entry *newest = job->expiry.due ? find_newest(job, entries, count) : NULL;
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
    bool is_ours = checkpoint_entry_read(newest, &record);

    if (is_ours && mark_look_at(job->expiry.marks, entries, count, NULL) != MARK_LOOK_KNOWN)
        return;
    job->expiry.due = false;
    if (!is_ours)
        return;
    unsigned unproven = job->plans.plan->change.reason == PLAN_REASON_REFUSED;
    struct retention_rule retention = {.below_step = record.step,
                                       .rule = {.keep = job->spec.checkpoint.keep + unproven},
                                       .marks_of = mark_look_of,
                                       .context = job->expiry.marks};
    if (!record.damaged[0] && !record.pinned)
        keep_reason(&retention.rule, mark_look_of(job->expiry.marks, record.path));
    size_t expired = retention_rule_choose(&retention, entries, count, operations, DELETIONS_MAX);
    if (expired > 0)
        delete (job, operations, expired, entries, count);
}

void retention_rule_stop(struct job *job)
{
    job->daemon->keys.kv->cancel(job->daemon->keys.kv->context, job->expiry.request);
    job->expiry.request = NULL;
}
